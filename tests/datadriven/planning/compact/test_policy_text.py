"""Chooses the compaction rules of buckets, as a job does, and compares them as text.

* ``choose [freshness=N] [levels=N] [OPTION=…]``: each line is a bucket, with its size and its usual
  flush, such as ``10 GB, 400 kB``. The output has the choice for each bucket. OPTION is
  ``trigger``, ``ratio`` or ``amplification``, set by the table.
* ``history``: such lines follow one bucket through its life. The output says at which line the
  policy chooses again, and what changes.
* ``cores of=N``: each line is a pace, with the number of buckets, their size, a flush, the seconds
  from epoch to epoch, and the bytes that a compaction writes in a second. The output has the job's
  advice.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from stream_app.mergetree.compact.universal_compaction import UniversalCompaction
from stream_app.planning.compact.compaction_policy import (
    BucketSizes,
    FixedRules,
    PolicyChoice,
    choose_rules,
    is_due,
)
from stream_app.planning.compact.core_advice import core_advice
from tests.support.suite.datadriven import Case, run_file

HERE = Path(__file__).parent
UNITS = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9}


def sizes_of(case: Case, line: str) -> BucketSizes:
    size, flush = (
        round(float(number) * UNITS[unit]) for number, unit in map(str.split, line.split(", "))
    )
    levels = int(case.args.get("levels", 6))
    return BucketSizes(size=size, flush_size=flush, level=levels - 1, num_levels=levels)


def chosen(case: Case, sizes: BucketSizes, present: PolicyChoice | None = None) -> PolicyChoice:
    args = case.args
    rules = UniversalCompaction(
        run_count_trigger=int(args.get("trigger", 5)),
        size_ratio=int(args.get("ratio", 1)),
        max_size_amplification_percent=int(args.get("amplification", 200)),
    )
    fixed_rules = FixedRules(
        fixes_trigger="trigger" in args,
        fixes_size_ratio="ratio" in args,
        fixes_amplification="amplification" in args,
    )
    return choose_rules(sizes, rules, fixed_rules, int(args.get("freshness", 20)), present)


def history(case: Case) -> Iterator[str]:
    present: PolicyChoice | None = None
    for line in case.input_lines:
        sizes = sizes_of(case, line)
        if not is_due(present, sizes):
            yield f"{line}: not due"
            continue
        choice = chosen(case, sizes, present)
        stays = present is not None and present.rules == choice.rules
        yield f"{line}: {'stays' if stays else choice.text()}"
        present = choice


def advised(case: Case, line: str) -> str:
    buckets, *sizes, seconds, rate = line.split(", ")
    choice = chosen(case, sizes_of(case, ", ".join(sizes)))
    interval_s = float(seconds.removesuffix(" s"))
    flush_share = (
        int(buckets) * choice.sizes.flush_size / interval_s / (1e6 * float(rate.split()[0]))
    )
    cores = int(case.args["of"])
    return core_advice(
        lambda longer: flush_share * choice.simulated_bucket.rewrites(longer), cores, interval_s
    ).text()


def run(case: Case) -> str:
    if case.command == "cores":
        return "\n".join(advised(case, line) for line in case.input_lines)
    if case.command == "history":
        return "\n".join(history(case))
    return "\n".join(chosen(case, sizes_of(case, line)).text() for line in case.input_lines)


def test_chosen_rules() -> None:
    run_file(HERE / "compaction_policy.txt", run)
