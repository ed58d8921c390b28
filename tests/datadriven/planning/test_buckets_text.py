"""Counts of hashes by bucket in, the buckets that take new keys out; sizes in, advice out.

For `alike`: the files of an index, written ``a/0=f1`` for bucket 0 of partition a; whether rows
that were routed by an older index are still right, out.
"""

from __future__ import annotations

from pathlib import Path

from stream_app.planning.buckets.bucket_advice import BucketSize, bucket_advice
from stream_app.planning.buckets.open_buckets import DynamicBucketRules, open_buckets
from stream_app.table.job.index_state import Index, IndexStep, is_routed_alike
from tests.support.datadriven import Case, run_file

HERE = Path(__file__).parent


def _open(case: Case) -> str:
    counts = {
        int(bucket): int(hashes)
        for bucket, hashes in (line.split(":") for line in case.input_lines)
    }
    given = {"width": "1", "max": "32767", **case.args}
    rules = DynamicBucketRules(
        target_rows=int(given["target"]),
        width=int(given["width"]),
        max_buckets=int(given["max"]),
    )
    return " ".join(map(str, open_buckets(counts, rules)))


def _index(words: list[str]) -> Index:
    files = {}
    for word in words:
        place, _, name = word.partition("=")
        partition, _, bucket = place.partition("/")
        files[partition.encode(), int(bucket)] = name
    return files


def _alike(case: Case) -> str:
    indexes: dict[str, Index] = {}
    open_in: dict[bytes, tuple[int, ...]] = {}
    steps: dict[str, IndexStep] = {}
    for line in case.input_lines:
        match line.split():
            case ["routed" | "newest" as which, *files]:
                indexes[which] = _index(files)
            case ["open", partition, *buckets]:
                open_in[partition.encode()] = tuple(map(int, buckets))
            case ["step", name, "after", before, "open", *buckets]:
                steps[name] = IndexStep(before, tuple(map(int, buckets)))
            case ["step", name, "new", "open", *buckets]:
                steps[name] = IndexStep(None, tuple(map(int, buckets)))
            case _:
                raise AssertionError(line)
    alike = is_routed_alike(indexes["routed"], indexes["newest"], open_in.__getitem__, steps)
    return "yes" if alike else "no"


def _advice(case: Case) -> str:
    sizes = []
    for line in case.input_lines:
        partition, rows, _, size, _ = line.split()
        sizes.append(
            BucketSize(partition=partition.encode(), rows=int(rows), bytes=int(size) << 20)
        )
    given = {"width": "1", "target": "2000000", **case.args}
    advice = bucket_advice(
        sizes,
        buckets=int(given["bucket"]),
        width=int(given["width"]),
        target_rows=int(given["target"]),
    )
    if advice is None:
        return "fine"
    which = "large" if advice.is_large else "small"
    return f"too {which}, {advice.mean >> 20} mb on average: {advice.option} = {advice.value}"


def test_advice_of_bucket_sizes() -> None:
    run_file(HERE / "bucket_advice.txt", _advice)


def test_open_buckets() -> None:
    run_file(HERE / "open_buckets.txt", _open)


def test_rows_that_were_routed_by_an_older_index() -> None:
    run_file(HERE / "routed_alike.txt", _alike)
