"""Decides which sorted runs of one bucket are merged next.

`picker` calls it for `compact_manager`, after each flush; `compact_task` runs the unit that it
returns. It uses only sizes and levels: no rows, no files, no clock.

The rules, first match wins (runs are ordered newest first):

0. early full compaction: due by time or by size (`EarlyFullCompaction`);
1. size amplification: everything but the oldest run is larger than
   `max_size_amplification_percent` of the oldest → merge all into the highest level;
2. size ratio: take the newest run, and the next one while that is at most `size_ratio` percent
   larger than all runs taken so far. Off-peak hours add to this percentage (`OffPeakHours`);
3. run count: more runs than the trigger → take as many as bring their number back to the trigger,
   or more.

With `fits_levels` one rule replaces 2 and 3: it keeps the runs above level 0 few enough for the
levels (`run_count_by_levels`). Only a job's choice of rules sets it, never a table's options.

Source: Paimon `mergetree/compact/UniversalCompaction.java`, `EarlyFullCompaction.java`,
`OffPeakHours.java`; there from RocksDB's universal compaction. `size_ratio` is a percentage: 1
means 1 %. `run_count_by_levels`: Mathieu, Staelin, Young, Yousefi, "Bigtable Merge
Compaction" (2014).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import comb

from stream_app.mergetree.compact.compact_strategy import PickTime
from stream_app.mergetree.sorted_run import LevelSortedRun
from stream_app.model.files.compact_request import CompactUnit
from stream_app.model.files.data_file_meta import DataFileMeta

Runs = tuple[LevelSortedRun, ...]
_FULL_PERCENT = 70
"""Percent of its size at which a run is full: flushes differ, and merges drop older versions."""


@dataclass(frozen=True, slots=True)
class RunSize:
    """The size and level of a sorted run."""

    level: int
    size: int


@dataclass(frozen=True, slots=True)
class PickedRuns:
    """The `count` newest runs, and the level to which their merge goes."""

    count: int
    output_level: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UniversalCompaction:
    """The strategy of universal compaction, with the numbers of the rules that the module lists.

    Attributes:
        max_size_amplification_percent: the size of all newer runs, in percent of the oldest run,
            above which rule 1 merges all.
        size_ratio: the percent by which the next run of rule 2 may be larger.
        run_count_trigger: the smallest number of sorted runs at which rules 1 to 3 apply.
        fits_levels: whether the bound on runs by levels replaces rules 2 and 3.
        early_full_compaction: the thresholds of rule 0; None without this rule.
        off_peak_hours: the hours with another percentage in rule 2; None without such hours.
    """

    max_size_amplification_percent: int = 200
    size_ratio: int = 1
    run_count_trigger: int = 5
    fits_levels: bool = False
    early_full_compaction: EarlyFullCompaction | None = None
    off_peak_hours: OffPeakHours | None = None

    def pick(self, num_levels: int, runs: Runs, time: PickTime) -> CompactUnit | None:
        """Return the next unit; None if nothing is due."""
        early_unit = (
            self.early_full_compaction.pick(num_levels, runs, time)
            if self.early_full_compaction
            else None
        )
        if early_unit or len(runs) < self.run_count_trigger:
            return early_unit
        picked_runs = self.pick_runs(num_levels, sizes_of(runs), self.ratio_at(time))
        return None if picked_runs is None else _unit_of_picked_runs(runs, picked_runs)

    def pick_runs(
        self, num_levels: int, run_sizes: Sequence[RunSize], ratio: int
    ) -> PickedRuns | None:
        """Return the runs that rules 1 to 3 pick from sizes, newest first; None without a pick.

        Args:
            ratio: the percentage by which the next run may be larger, as `ratio_at` returns it.
        """
        if len(run_sizes) < self.run_count_trigger or not run_sizes:
            return None
        max_level = num_levels - 1
        newer_size, oldest_size = sum(run.size for run in run_sizes[:-1]), run_sizes[-1].size
        if newer_size * 100 > self.max_size_amplification_percent * oldest_size:
            return PickedRuns(len(run_sizes), max_level, "size amplification")
        if self.fits_levels:
            runs_max = min(max_level, self.run_count_trigger - 1)
            return take_newest_runs(
                run_sizes, max_level, run_count_by_levels(run_sizes, runs_max), "levels"
            )
        count = extend_by_ratio(run_sizes, 1, ratio)
        if count > 1:
            return take_newest_runs(run_sizes, max_level, count, "size ratio")
        if len(run_sizes) == self.run_count_trigger:
            return None
        run_count_min = len(run_sizes) - self.run_count_trigger + 1
        return take_newest_runs(
            run_sizes, max_level, extend_by_ratio(run_sizes, run_count_min, ratio), "run count"
        )

    def ratio_at(self, time: PickTime) -> int:
        """Return the percentage by which the next run may be larger at this hour."""
        off_peak_hours = self.off_peak_hours
        return self.size_ratio + (off_peak_hours.ratio_at(time.hour) if off_peak_hours else 0)


def sizes_of(runs: Runs) -> list[RunSize]:
    """Return the sizes and levels of runs."""
    return [RunSize(run.level, run.total_size) for run in runs]


def extend_by_ratio(run_sizes: Sequence[RunSize], count: int, ratio: int) -> int:
    """Return how many runs to take: the `count` newest, and more while the next fits `ratio`."""
    size = sum(run.size for run in run_sizes[:count])
    for run in run_sizes[count:]:
        # Integers replace Paimon's doubles: equal up to about 70 TB, and exact beyond.
        if size * (100 + ratio) < run.size * 100:
            break
        size += run.size
        count += 1
    return count


def run_count_by_levels(run_sizes: Sequence[RunSize], runs_max: int) -> int:
    """Return how many runs to take, so that at most `runs_max` remain above level 0, at low cost.

    All level-0 files together are a flush. If a flush may be written `w` times, `r` runs have space
    for C(r + w, w) flushes. The smallest `w` with space for all flushes gives each run its size:
    C(r + w - 1, w - 1) for the oldest one. The oldest runs that have their size stay.
    """
    level0_count = sum(1 for run in run_sizes if run.level == 0)
    flush_size = sum(run.size for run in run_sizes[:level0_count])
    count, size = len(run_sizes), sum(run.size for run in run_sizes)
    while count > level0_count and runs_max > 1:
        oldest_size = run_sizes[count - 1].size
        flush_count = _oldest_flush_count(size // max(1, flush_size), runs_max)
        if oldest_size * 100 < flush_count * flush_size * _FULL_PERCENT:
            break
        count, size, runs_max = count - 1, size - oldest_size, runs_max - 1
    return max(1, count)


def _oldest_flush_count(flush_count: int, runs_max: int) -> int:
    """Return how many of `flush_count` flushes are in the oldest of `runs_max` runs."""
    write_count = 1
    while comb(runs_max + write_count, runs_max) <= flush_count:
        write_count += 1
    return comb(runs_max + write_count - 1, runs_max)


def take_newest_runs(
    run_sizes: Sequence[RunSize], max_level: int, count: int, reason: str
) -> PickedRuns:
    """Take the `count` newest runs, and determine the level of their merge.

    It is the level just below the next older run, or the highest level if all runs are taken. It is
    never level 0: instead more runs are taken, up to one of a higher level.
    """
    output_level = max_level if count == len(run_sizes) else max(0, run_sizes[count].level - 1)
    if output_level == 0:
        for run in run_sizes[count:]:
            count += 1
            if run.level != 0:
                output_level = run.level
                break
    if count == len(run_sizes):
        output_level = max_level
    return PickedRuns(count, output_level, reason)


def full_compaction_unit(
    num_levels: int, runs: Runs, must_rewrite: Callable[[DataFileMeta], bool] = lambda _: False
) -> CompactUnit | None:
    """Return a unit of all files into the highest level; None if they are already there.

    Args:
        must_rewrite: returns whether a file must be rewritten.

    Source: Paimon `mergetree/compact/CompactStrategy.java#pickFullCompaction`.
    """
    max_level = num_levels - 1
    if not runs:
        return None
    if len(runs) == 1 and runs[0].level == max_level:
        files = runs[0].files
        indices = [index for index, file in enumerate(files) if must_rewrite(file)]
        if not indices:
            return None
        # A unit must have no gap, because a file in the gap would overlap the merged file.
        return CompactUnit(max_level, files[indices[0] : indices[-1] + 1], "rewrite")
    return _unit_of_runs(max_level, runs, "full compaction")


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlyFullCompaction:
    """The thresholds of early full compactions; None disables a rule.

    Attributes:
        interval_ms: the age of the last full compaction at which the next is due. It bounds the age
            of the highest level, which read-optimized queries read.
        total_size: the bytes below which a bucket is always compacted fully. That costs little, and
            its readers read one run.
        incremental_size: the bytes below the highest level above which a bucket is compacted fully.
    """

    interval_ms: int | None = None
    total_size: int | None = None
    incremental_size: int | None = None

    def pick(self, num_levels: int, runs: Runs, time: PickTime) -> CompactUnit | None:
        """Return a unit of all files into the highest level; None if no rule applies."""
        max_level = num_levels - 1
        if len(runs) < 2:
            return None
        if self.interval_ms is not None and (
            time.full_age_ms is None or time.full_age_ms > self.interval_ms
        ):
            return _unit_of_runs(max_level, runs, "interval")
        if self.total_size is not None:
            total_size = sum(run.total_size for run in runs)
            if total_size < self.total_size:
                return _unit_of_runs(max_level, runs, "small in total")
        if self.incremental_size is not None:
            incremental_size = sum(run.total_size for run in runs if run.level != max_level)
            if incremental_size > self.incremental_size:
                return _unit_of_runs(max_level, runs, "increment too large")
        return None


@dataclass(frozen=True, slots=True)
class OffPeakHours:
    """The hours of the day from `start` to before `end`, past midnight if `end` is less.

    Attributes:
        ratio: the percentage that is added to ``compaction.size-ratio`` in these hours.
    """

    start: int
    end: int
    ratio: int

    def ratio_at(self, hour: int) -> int:
        """Return the percentage added at this hour of the day; 0 with equal start and end."""
        if self.start <= self.end:
            is_off_peak = self.start <= hour < self.end
        else:
            is_off_peak = hour >= self.start or hour < self.end
        return self.ratio if is_off_peak else 0


@dataclass(frozen=True, slots=True)
class FullAtRestCompaction:
    """The universal rules while flushes arrive, and a full compaction when none is expected.

    It is for tables whose changelog is written by full compactions, which lacks the rows below the
    highest level.
    """

    universal: UniversalCompaction

    def pick(self, num_levels: int, runs: Runs, time: PickTime) -> CompactUnit | None:
        """Pick all files into the highest level at rest; else the universal rules' unit."""
        if time.expects_no_flush and (unit := full_compaction_unit(num_levels, runs)) is not None:
            return unit
        return self.universal.pick(num_levels, runs, time)


@dataclass(frozen=True, slots=True)
class ForceUpLevel0Compaction:
    """A strategy that compacts level 0 upwards if the universal compaction picks nothing.

    It is for tables whose readers or changelog use only the levels above 0. At rest level 0 is
    always compacted, because no further flush may come.

    Attributes:
        idle_flushes_max: the flushes without a pick after which level 0 is compacted; None: each
            flush.
    """

    universal: UniversalCompaction
    idle_flushes_max: int | None = None

    def pick(self, num_levels: int, runs: Runs, time: PickTime) -> CompactUnit | None:
        """Return the universal rules' unit; else level 0 and the runs that its size includes."""
        unit = self.universal.pick(num_levels, runs, time)
        if unit is not None:
            return unit
        level0_count = sum(1 for run in runs if run.level == 0)
        is_early = (
            self.idle_flushes_max is not None and time.idle_flush_count < self.idle_flushes_max
        )
        if not level0_count or (is_early and not time.expects_no_flush):
            return None
        run_sizes = sizes_of(runs)
        count = extend_by_ratio(run_sizes, level0_count, self.universal.ratio_at(time))
        picked_runs = take_newest_runs(run_sizes, num_levels - 1, count, "level 0 upwards")
        return replace(_unit_of_picked_runs(runs, picked_runs), is_forced=True)


def _unit_of_picked_runs(runs: Runs, picked_runs: PickedRuns) -> CompactUnit:
    return _unit_of_runs(picked_runs.output_level, runs[: picked_runs.count], picked_runs.reason)


def _unit_of_runs(output_level: int, runs: Runs, reason: str) -> CompactUnit:
    """Return a unit of all files of the runs, into `output_level`."""
    files = tuple(file for run in runs for file in run.files)
    return CompactUnit(output_level, files, reason)
