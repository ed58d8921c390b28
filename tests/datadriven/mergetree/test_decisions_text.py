"""Decides which files of a bucket's tree are compacted, or how the tree changes, as text.

A file is written ``f1 1-9 L0 size=100 seq=7``: name, least and greatest key, and, where they
matter, level, bytes and sequence number (of all its rows).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from stream_app.errors import StreamAppError
from stream_app.mergetree.compact.compact_manager import CompactManager
from stream_app.mergetree.compact.compact_strategy import CompactStrategy, PickTime
from stream_app.mergetree.compact.picker import MergeTreePicker
from stream_app.mergetree.compact.universal_compaction import (
    EarlyFullCompaction,
    ForceUpLevel0Compaction,
    FullAtRestCompaction,
    OffPeakHours,
    Runs,
    UniversalCompaction,
    full_compaction_unit,
    sizes_of,
    take_newest_runs,
)
from stream_app.mergetree.interval_partition import partition_into_sections, runs_by_age
from stream_app.mergetree.levels import Levels
from stream_app.mergetree.lookup.lookup_plan import keys_in, lookup_tiers
from stream_app.mergetree.sorted_run import LevelSortedRun, SortedRun
from stream_app.model.files.bucket_change import BucketChange
from stream_app.model.files.compact_request import CompactRequest, CompactUnit
from stream_app.model.files.data_file_meta import DataFileMeta
from tests.support.suite.datadriven import Case, run_file
from tests.support.tables.lsm_files import a_file, int_key_of

HERE = Path(__file__).parent


def file_of(line: str, number: int = 0) -> DataFileMeta:
    name, keys, *rest = line.split()
    first, last = keys.split("-")
    fields: dict[str, int] = {"sequence": number}
    for word in rest:
        key, _, value = word.partition("=")
        if key.startswith("L"):
            fields["level"] = int(key[1:])
        else:
            fields[{"size": "file_size", "seq": "sequence"}[key]] = int(value)
    return a_file(name, keys=(int(first), int(last)), **fields)


def keys_of(file: DataFileMeta) -> str:
    return "-".join(str(int_key_of(key)[0]) for key in (file.min_key, file.max_key))


def show_levels(levels: Levels) -> str:
    """A line for each level that has files: level 0 by age, newest first; the others by key."""
    lines: dict[int, list[str]] = {}
    for run in levels.level_sorted_runs():
        lines.setdefault(run.level, []).extend(
            f"{file.file_name}[{keys_of(file)}]" for file in run.files
        )
    drawn = [f"L{level}  {' '.join(files)}" for level, files in lines.items()]
    return "\n".join([*drawn, f"{levels.sorted_run_count} sorted runs"])


# universal_compaction.txt


def policy_of(case: Case) -> CompactStrategy:
    """``up``: level 0 is lifted after each flush; ``up=3``: after three without a pick.

    ``whole``: full compactions write the changelog. ``fits``: sizes fit the levels.
    """
    universal = UniversalCompaction(
        max_size_amplification_percent=int(case.args.get("amplification", 200)),
        size_ratio=int(case.args.get("ratio", 1)),
        run_count_trigger=int(case.args.get("trigger", 5)),
        fits_levels="fits" in case.args,
        early_full_compaction=EarlyFullCompaction(
            interval_ms=_optional(case, "interval"),
            total_size=_optional(case, "total"),
            incremental_size=_optional(case, "increment"),
        ),
        off_peak_hours=_off_peak(case),
    )
    if "whole" in case.args:
        return FullAtRestCompaction(universal)
    if "up" not in case.args:
        return universal
    return ForceUpLevel0Compaction(universal, int(case.args["up"]) if case.args["up"] else None)


def time_of(case: Case) -> PickTime:
    return PickTime(
        full_age_ms=_optional(case, "full-age"),
        idle_flush_count=_optional(case, "idle") or 0,
        expects_no_flush="expects_no_flush" in case.args,
    )


def _optional(case: Case, name: str) -> int | None:
    return int(case.args[name]) if name in case.args else None


def _off_peak(case: Case) -> OffPeakHours | None:
    """``off-peak=22-6+20``: from 22 to 6 o'clock 20 % more."""
    if "off-peak" not in case.args:
        return None
    hours, ratio = case.args["off-peak"].split("+")
    start, end = hours.split("-")
    return OffPeakHours(int(start), int(end), int(ratio))


def runs_of(text: str) -> Runs:
    """``0:10 0:10 5:100``: level and size of each run, newest first."""
    pairs = [tuple(int(number) for number in part.split(":")) for part in text.split()]
    return tuple(
        LevelSortedRun(level, SortedRun((a_file(f"f{i}", level=level, file_size=size),)))
        for i, (level, size) in enumerate(pairs)
    )


def show_unit(unit: CompactUnit | None) -> str:
    if unit is None:
        return "nothing"
    sizes = " ".join(f"{file.level}:{file.file_size}" for file in unit.files)
    return f"{sizes} → level {unit.output_level} ({unit.reason})"


def pick(case: Case) -> str:
    """Each line a tree."""
    levels = int(case.args.get("levels", 6))
    return "\n".join(
        show_unit(policy_of(case).pick(levels, runs_of(line), time_of(case)))
        for line in case.input_lines
    )


def hours(case: Case) -> str:
    """The hours of the day at which something is picked."""
    policy, runs = policy_of(case), runs_of(case.input)
    picked_hours = [
        hour for hour in range(24) if policy.pick(6, runs, PickTime(hour=hour)) is not None
    ]
    return " ".join(map(str, picked_hours)) or "never"


def full(case: Case) -> str:
    levels = int(case.args.get("levels", 6))
    rewrites_all = "rewrite-all" in case.args
    units = [
        full_compaction_unit(levels, runs_of(line), lambda _: rewrites_all)
        for line in case.input_lines
    ]
    return "\n".join(show_unit(unit) for unit in units)


def output_level(case: Case) -> str:
    """Take 1, 2, … of the newest runs: how many it becomes, into which level."""
    runs = runs_of(case.input)
    highest = int(case.args["levels"]) - 1
    picks = [
        take_newest_runs(sizes_of(runs), highest, count, "") for count in range(1, len(runs) + 1)
    ]
    return "\n".join(
        f"{count} → {sum(len(run.files) for run in runs[: pick.count])} "
        f"into level {pick.output_level}"
        for count, pick in enumerate(picks, 1)
    )


def grow(case: Case) -> str:
    """Flush a file of size 1 again and again, do what is picked: the tree after each flush."""
    policy, levels = policy_of(case), int(case.args["levels"])
    tree: list[tuple[int, int]] = []
    lines = []
    for _ in range(int(case.args["flushes"])):
        tree.insert(0, (0, 1))
        reasons = []
        while True:
            unit = policy.pick(
                levels, runs_of(" ".join(f"{lev}:{size}" for lev, size in tree)), PickTime()
            )
            if unit is None or (len(unit.files) == 1 and tree[0][0] == unit.output_level):
                break
            count = len(unit.files)
            assert all(level > unit.output_level for level, _ in tree[count:])
            tree[:count] = [(unit.output_level, sum(size for _, size in tree[:count]))]
            reasons.append(unit.reason)
        drawn = " ".join(f"{level}:{size}" for level, size in tree)
        lines.append(f"{drawn}  {', '.join(reasons)}".rstrip())
    return "\n".join(lines)


# interval_partition.txt


def sections(case: Case) -> str:
    """A line for each section; its runs between bars."""
    return "\n".join(
        " | ".join(" ".join(file.file_name for file in run.files) for run in section)
        for section in partition_into_sections([file_of(li) for li in case.input_lines], int_key_of)
    )


def runs(case: Case) -> str:
    """Return the runs of each section by age, the oldest first."""
    files = [file_of(line) for line in case.input_lines]
    return "\n".join(
        " | ".join(" ".join(file.file_name for file in run.files) for run in runs_by_age(section))
        for section in partition_into_sections(files, int_key_of)
    )


# lookup.txt


def tiers(case: Case) -> str:
    """A line for each tier, the newest first."""
    files = [file_of(line) for line in case.input_lines]
    tiers = lookup_tiers(files, is_ordered_by_age="sequence-field" not in case.args)
    return "\n".join(" ".join(file.file_name for file in tier) for tier in tiers)


def keys_in_files(case: Case) -> str:
    """Return the keys that each file may have."""
    keys = [(int(key),) for key in case.args["keys"].split(",")]
    return "\n".join(
        " ".join([file.file_name, *(str(keys[row][0]) for row in keys_in(file, keys, int_key_of))])
        for file in map(file_of, case.input_lines)
    )


# levels.txt and compact_manager.txt


@dataclass
class ByHand:
    """An executor whose compactions end when the test says so."""

    requests: list[tuple[CompactRequest, Future[BucketChange]]] = field(default_factory=list)

    def submit(self, request: CompactRequest) -> Future[BucketChange]:
        self.requests.append((request, Future()))
        return self.requests[-1][1]


class Bucket:
    """Commands on one bucket; each shows what it changed."""

    def __init__(self) -> None:
        self.executor = ByHand()
        self.file_count = 0

    def __call__(self, case: Case) -> str:
        command = getattr(self, case.command.replace("-", "_"))
        shown: str | None = command(case)
        return self.show() if shown is None else shown

    def levels(self, case: Case) -> None:
        """Begin with these files."""
        picker = MergeTreePicker(strategy=policy_of(case), rewrites_all="rewrite-all" in case.args)
        self.manager = CompactManager(
            partition=b"",
            bucket=0,
            levels=Levels(self.files(case), num_levels=int(case.args["count"]), key_of=int_key_of),
            picker=None if "write-only" in case.args else picker,
            stop_trigger=int(case.args.get("stop", 10)),
        )

    def files(self, case: Case) -> list[DataFileMeta]:
        lines = [line for line in case.input_lines if line]
        return [file_of(line, number) for number, line in enumerate(lines)]

    def show(self) -> str:
        return show_levels(self.manager.levels)

    def flush(self, case: Case) -> None:
        for file in self.files(case):
            self.manager.add_new_file(file, None)

    def update(self, case: Case) -> None:
        """Lines of ``-`` go, lines of ``+`` come."""
        sides: dict[str, list[DataFileMeta]] = {"-": [], "+": []}
        for line in case.input_lines:
            sides[line[0]].append(file_of(line[1:]))
        self.manager.levels.update(sides["-"], sides["+"])

    def facts(self, _: Case) -> str:
        levels = self.manager.levels
        return (
            f"levels {levels.num_levels}, highest allowed {levels.max_level}, highest with files "
            f"{levels.non_empty_highest_level()}, level-0 files {levels.level0_file_count}"
        )

    def waits(self, _: Case) -> str:
        manager = self.manager
        return (
            f"{manager.levels.sorted_run_count} runs: "
            f"writes {'wait' if manager.should_wait_for_latest_compaction() else 'go on'}"
        )

    def trigger(self, case: Case) -> str:
        begun = self.manager.trigger_compaction(
            self.executor, local_time_ms=self.local_time_ms(case), is_full="full" in case.args
        )
        if not begun:
            busy = "one is running" if self.manager.begun_compaction else "nothing is due"
            return f"none begun: {busy}"
        request = self.executor.requests[-1][0]
        names = " ".join(file.file_name for file in request.unit.files)
        drops = "without deletes" if request.drops_deletes else "with deletes"
        return f"{names} → level {request.unit.output_level}, {drops} ({request.unit.reason})"

    def local_time_ms(self, case: Case) -> int:
        return int(case.args.get("at", 0)) * 60_000

    def ends(self, case: Case) -> str:
        """The running compaction makes one file of all its own, or fails."""
        request, future = self.executor.requests[-1]
        if "badly" in case.args:
            future.set_exception(OSError("disk"))
        else:
            outputs = tuple(self.merged(request.unit))
            future.set_result(request.change(removed_files=request.unit.files, added_files=outputs))
        finished_compaction = self.manager.finished_compaction()
        return (
            f"finished: {finished_compaction is not None and finished_compaction.future is future}"
        )

    def merged(self, unit: CompactUnit) -> Iterable[DataFileMeta]:
        self.file_count += 1
        least = min(int_key_of(file.min_key)[0] for file in unit.files)
        greatest = max(int_key_of(file.max_key)[0] for file in unit.files)
        yield file_of(f"c{self.file_count} {least}-{greatest} L{unit.output_level}")

    def apply(self, _: Case) -> None:
        finished_compaction = self.manager.finished_compaction()
        assert finished_compaction is not None
        self.manager.apply(finished_compaction.future.result())

    def forget(self, _: Case) -> None:
        self.manager.forget_begun_compaction()

    def restore(self, case: Case) -> None:
        self.manager.replace_levels(
            Levels(self.files(case), num_levels=int(case.args["count"]), key_of=int_key_of), None
        )


STATELESS: dict[str, Callable[[Case], str]] = {
    "pick": pick,
    "hours": hours,
    "full": full,
    "output-level": output_level,
    "grow": grow,
    "sections": sections,
    "runs-by-age": runs,
    "tiers": tiers,
    "keys-in": keys_in_files,
}


@pytest.mark.parametrize(
    "name", ["universal_compaction", "interval_partition", "levels", "lookup", "compact_manager"]
)
def test_compactions_are_picked_by_the_shape_of_the_tree(name: str) -> None:
    bucket = Bucket()

    def handle(case: Case) -> str:
        try:
            return STATELESS.get(case.command, bucket)(case)
        except StreamAppError as error:
            return str(error)

    run_file(HERE / f"{name}.txt", handle)
