"""Decides and tracks one bucket's compactions on the driver, at most one at a time.

`table.compact.buckets.bucket_coordinator` owns one for each bucket. The picker decides, the
executor runs the compaction, and the manager applies its result. The manager changes `Levels` only
after the committer has published the result, so they always equal the table's levels.

Source: Paimon `mergetree/compact/MergeTreeCompactManager.java`,
`append/BucketedAppendCompactManager.java`, `compact/NoopCompactManager.java` (here: `picker=None`).
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Future
from dataclasses import dataclass, field

from stream_app.errors import UsageError
from stream_app.mergetree.compact.compact_executor import CompactExecutor
from stream_app.mergetree.compact.picker import Picker
from stream_app.mergetree.levels import Levels
from stream_app.mergetree.sorted_run import LevelSortedRun
from stream_app.model.files.bucket_change import BucketChange
from stream_app.model.files.compact_request import CompactRequest, CompactUnit
from stream_app.model.files.data_file_meta import DataFileMeta, KeyOrder


@dataclass(frozen=True, slots=True)
class BegunCompaction:
    """A compaction from its beginning until it is applied or forgotten.

    Attributes:
        future: returns the bucket's change when the compaction is done.
    """

    unit: CompactUnit
    future: Future[BucketChange]


@dataclass(slots=True, kw_only=True)
class CompactManager:
    """The levels of a bucket, and its begun compaction if any.

    Attributes:
        picker: picks compactions; None for a write-only table, whose buckets are never compacted
            here.
        stop_trigger: the number of sorted runs beyond which writes wait; None if files are not
            sorted runs, and writes never wait.
        total_buckets: the partition's number of buckets, if it differs from the table's.
        looks_up: whether compactions need the rows above them (see `CompactRequest.files_above`).
        keeps_no_deletes: whether no level above 0 may have deletes.
        begun_compaction: the compaction that has begun and is not applied yet; else None.
        is_overtaken: whether another writer has changed the bucket since the compaction
            began, so that its result may conflict.
    """

    partition: bytes
    bucket: int
    levels: Levels
    picker: Picker | None
    stop_trigger: int | None
    total_buckets: int | None = None
    looks_up: bool = False
    keeps_no_deletes: bool = False
    begun_compaction: BegunCompaction | None = field(default=None, init=False)
    is_overtaken: bool = field(default=False, init=False)

    @property
    def sorted_run_count(self) -> int | None:
        """The number of sorted runs; None if files are not sorted runs."""
        return None if self.stop_trigger is None else self.levels.sorted_run_count

    def add_new_file(self, file: DataFileMeta, total_buckets: int | None) -> None:
        """Add a committed level-0 file, with the `total_buckets` of its `BucketChange`."""
        self.total_buckets = total_buckets
        self.levels.add_level0_file(file)
        if self.picker is not None:
            self.picker.note_new_file(file)

    def set_stop_trigger(self, stop_trigger: int) -> None:
        """Set the number of sorted runs beyond which the bucket's writes wait."""
        self.stop_trigger = stop_trigger

    def should_wait_for_latest_compaction(self) -> bool:
        """Return whether more files must wait until compaction has caught up."""
        if self.picker is None or self.stop_trigger is None:
            return False
        return self.levels.sorted_run_count > self.stop_trigger

    def pick_next_compaction(
        self, *, local_time_ms: int, is_full: bool = False, expects_no_flush: bool = False
    ) -> CompactRequest | None:
        """Pick the next compaction, which the picker counts as begun; None if nothing is due.

        Args:
            local_time_ms: the local wall clock as if it were UTC, as in files' creation times.
            is_full: whether to pick all files for a full compaction.
            expects_no_flush: whether runs need not wait for others, because no flush is expected.

        Raises:
            UsageError: a full compaction was requested for a write-only table.
        """
        if self.picker is None:
            if is_full:
                raise write_only_error(f"bucket {self.bucket}")
            return None
        levels = self.levels
        unit = self.picker.pick_unit(
            levels, local_time_ms=local_time_ms, is_full=is_full, expects_no_flush=expects_no_flush
        )
        if unit is None:
            return None
        return CompactRequest(
            partition=self.partition,
            bucket=self.bucket,
            unit=unit,
            drops_deletes=may_drop_deletes(
                output_level=unit.output_level,
                highest_level_with_files=(
                    1 if self.keeps_no_deletes else levels.non_empty_highest_level()
                ),
            ),
            max_level=levels.max_level,
            total_buckets=self.total_buckets,
            rewrites_all=self.picker.rewrites_all,
            files_above=(
                files_above(levels.level_sorted_runs(), unit, levels.key_of)
                if self.looks_up
                else ()
            ),
            # An append bucket has no sorted runs; it is as urgent as a bucket with one.
            sorted_run_count=self.sorted_run_count or 1,
        )

    def trigger_compaction(
        self,
        executor: CompactExecutor,
        *,
        local_time_ms: int,
        is_full: bool = False,
        expects_no_flush: bool = False,
    ) -> bool:
        """Begin the next compaction if one is due and none runs, and return whether one began.

        Args:
            local_time_ms: the local wall clock as if it were UTC, as in files' creation times.
            is_full: whether to pick all files for a full compaction.
            expects_no_flush: whether runs need not wait for others, because no flush is expected.

        Raises:
            UsageError: as `pick_next_compaction`.
        """
        if self.begun_compaction is not None:
            return False
        request = self.pick_next_compaction(
            local_time_ms=local_time_ms, is_full=is_full, expects_no_flush=expects_no_flush
        )
        if request is None:
            return False
        self.begun_compaction = BegunCompaction(request.unit, executor.submit(request))
        return True

    def finished_compaction(self) -> BegunCompaction | None:
        """Return the finished compaction that waits for its commit; None without one."""
        return (
            self.begun_compaction
            if self.begun_compaction is not None and self.begun_compaction.future.done()
            else None
        )

    def apply(self, change: BucketChange) -> None:
        """Update the levels with `change`, which the committer has published."""
        if self.begun_compaction is not None and self.picker is not None:
            self.picker.note_applied_unit(self.levels, self.begun_compaction.unit, change)
        self.levels.update(change.removed_files, change.added_files)
        self._clear_begun_compaction()

    def forget_begun_compaction(self) -> None:
        """Forget a compaction that failed or lost a conflict; its files may be picked again."""
        if self.begun_compaction is not None and self.picker is not None:
            self.picker.note_failed_unit(self.begun_compaction.unit)
        self._clear_begun_compaction()

    def replace_levels(self, levels: Levels, total_buckets: int | None) -> None:
        """Replace the levels and the bucket count after another writer changed this bucket."""
        self.total_buckets = total_buckets
        if self.picker is not None:
            begun_unit = None if self.begun_compaction is None else self.begun_compaction.unit
            self.picker.note_replaced_levels(self.levels, levels, begun_unit)
        self.levels = levels
        self.is_overtaken = self.begun_compaction is not None

    def _clear_begun_compaction(self) -> None:
        self.begun_compaction = None
        self.is_overtaken = False


def write_only_error(where: str) -> UsageError:
    """Return the error about a full compaction of a write-only table."""
    return UsageError(
        "the table is write-only, so a job cannot compact it fully",
        where=where,
        fix="set the option 'write-only' to false, or compact with another job",
    )


def may_drop_deletes(*, output_level: int, highest_level_with_files: int) -> bool:
    """Return whether a compaction into `output_level` may drop delete rows."""
    # A delete must outlive all older versions of its key. That is certain only if no level above
    # the output has files, and never on level 0, whose runs overlap.
    return output_level != 0 and output_level >= highest_level_with_files


def files_above(
    runs: Iterable[LevelSortedRun], unit: CompactUnit, key_of: KeyOrder
) -> tuple[DataFileMeta, ...]:
    """Return the files above a unit's output that may have keys of its level 0."""
    level0_files = [file for file in unit.files if file.level == 0]
    key_ranges = [(key_of(file.min_key), key_of(file.max_key)) for file in level0_files]
    return tuple(
        file
        for level_run in runs
        if level_run.level > unit.output_level
        for file in level_run.files
        if any(
            key_of(file.min_key) <= max_key and min_key <= key_of(file.max_key)
            for min_key, max_key in key_ranges
        )
    )
