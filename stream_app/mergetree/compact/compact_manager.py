"""One bucket's compactions on the driver: when, which, at most one at a time.

Owned by `table.compact.coordinator`. Decide (universal_compaction) → do (the executor) → apply. A
finished result changes `Levels` only after the committer has published it. So the levels of this
class are always those of the table.

Source: Paimon `mergetree/compact/MergeTreeCompactManager.java`,
`compact/NoopCompactManager.java` (here: `policy=None`).
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field

from stream_app.errors import UsageError
from stream_app.mergetree.compact.compact_executor import CompactExecutor, CompactRequest
from stream_app.mergetree.compact.compact_strategy import CompactStrategy, PickTime
from stream_app.mergetree.compact.compact_unit import CompactUnit
from stream_app.mergetree.compact.force_up_level0_compaction import LEVEL0_UPWARDS
from stream_app.mergetree.compact.universal_compaction import pick_full
from stream_app.mergetree.levels import Levels
from stream_app.model.bucket_change import BucketChange
from stream_app.model.data_file_meta import DataFileMeta


@dataclass(slots=True)
class CompactManager:
    """Levels and the one running compaction of a bucket.

    Attributes:
        policy: None when the table is write-only: such a bucket is never compacted here.
        stop_trigger: sorted runs beyond which the bucket's writes wait.
        total_buckets: of the partition, which may differ from the table's; None: as the table's.
        rewrite_all: a full compaction rewrites every file.
        must_rewrite: whether a file has rows that a full compaction has to leave out.
        is_overtaken: another writer has changed the bucket since the running compaction began, so
            that its result may not fit any more.
    """

    partition: bytes
    bucket: int
    levels: Levels
    policy: CompactStrategy | None
    stop_trigger: int
    total_buckets: int | None = None
    rewrite_all: bool = False
    must_rewrite: Callable[[DataFileMeta], bool] = lambda _: False
    is_overtaken: bool = field(default=False, init=False)
    _has_flushed: bool = field(default=False, init=False)
    _idle_flushes: int = field(default=0, init=False)
    _full_begun_ms: int | None = field(default=None, init=False)
    _begun_ms: int = field(default=0, init=False)
    _running: Future[BucketChange] | None = field(default=None, init=False)
    _unit: CompactUnit | None = field(default=None, init=False)

    def add_new_file(self, file: DataFileMeta) -> None:
        """Take in a committed level-0 file."""
        self._has_flushed = True
        self.levels.add_level0_file(file)

    def should_wait_for_latest_compaction(self) -> bool:
        """Whether more files must wait until compaction has caught up."""
        return self.policy is not None and self.levels.number_of_sorted_runs() > self.stop_trigger

    @property
    def running(self) -> Future[BucketChange] | None:
        """The running compaction, or the one that has finished and is not yet applied."""
        return self._running

    @property
    def unit(self) -> CompactUnit | None:
        """What `running` merges."""
        return self._unit

    def pick(self, *, local_ms: int) -> CompactUnit | None:
        """What would be compacted now; None when nothing is due.

        Args:
            local_ms: local time of day as if it were UTC, as files are stamped.
        """
        if self.policy is None:
            return None
        last_full_ms = self._last_full_ms()
        time = PickTime(
            hour=local_ms // 3_600_000 % 24,
            full_age_ms=None if last_full_ms is None else local_ms - last_full_ms,
            idle_flushes=self._idle_flushes + self._has_flushed,
        )
        levels = self.levels
        unit = self.policy.pick(levels.num_levels, levels.level_sorted_runs(), time)
        if unit is None or not unit.files:
            return None
        moves = len(unit.files) > 1 or unit.files[0].level != unit.output_level
        return unit if moves else None

    def pick_full(self) -> CompactUnit | None:
        """Everything into the highest level; None when nothing has to be done for that."""
        levels = self.levels
        return pick_full(
            levels.num_levels,
            levels.level_sorted_runs(),
            lambda file: self.rewrite_all or self.must_rewrite(file),
        )

    def trigger_compaction(
        self, executor: CompactExecutor, *, local_ms: int, full: bool = False
    ) -> bool:
        """Begin the next compaction when one is due and none runs; True when one was begun.

        Args:
            local_ms: see `pick`.

        Raises:
            UsageError: a full compaction was asked of a write-only table.
        """
        if self.policy is None:
            if full:
                raise UsageError(
                    "a full compaction was asked of a table that is write-only",
                    fix="set the option 'write-only' to false, or compact with another job",
                )
            return False
        if self._running is not None:
            return False
        levels = self.levels
        unit = self.pick_full() if full else self.pick(local_ms=local_ms)
        if unit is None:
            self._idle_flushes += self._has_flushed
        elif unit.reason == LEVEL0_UPWARDS:
            self._idle_flushes = 0
        self._has_flushed = False
        if unit is None:
            return False
        request = CompactRequest(
            partition=self.partition,
            bucket=self.bucket,
            unit=unit,
            drop_deletes=may_drop_deletes(
                output_level=unit.output_level,
                highest_level_with_files=levels.non_empty_highest_level(),
            ),
            max_level=levels.max_level,
            total_buckets=self.total_buckets,
            rewrite_all=self.rewrite_all,
            runs=levels.number_of_sorted_runs(),
        )
        self._unit = unit
        self._begun_ms = local_ms
        self._running = executor.submit(request)
        return True

    def finished(self) -> Future[BucketChange] | None:
        """The compaction that has finished and waits to be committed, if any."""
        return self._running if self._running is not None and self._running.done() else None

    def apply(self, change: BucketChange) -> None:
        """The committer has published `change`: levels follow."""
        unit = self._unit
        if unit is not None and unit.output_level == self.levels.max_level:
            self._full_begun_ms = self._begun_ms
        self.levels.update(change.removed, change.added)
        self.forget_running()

    def forget_running(self) -> None:
        """The compaction failed or lost a conflict; its files may be picked again."""
        self._running = None
        self._unit = None
        self.is_overtaken = False

    def restore(self, levels: Levels) -> None:
        """Believe the table again, after another writer changed this bucket."""
        known = {file.file_name for file in self.levels.all_files()}
        self._has_flushed |= any(
            file.level == 0 and file.file_name not in known for file in levels.all_files()
        )
        self.levels = levels
        self.is_overtaken = self._running is not None

    def _last_full_ms(self) -> int | None:
        """When the bucket was last merged whole, as far as this process or its files tell.

        Files keep their time over restarts, so that the next process goes on counting.
        """
        top = self.levels.max_level
        stamps = [
            file.creation_time_ms
            for run in self.levels.level_sorted_runs()
            if run.level == top
            for file in run.run.files
            if file.creation_time_ms is not None
        ]
        if self._full_begun_ms is not None:
            stamps.append(self._full_begun_ms)
        return max(stamps, default=None)


def may_drop_deletes(*, output_level: int, highest_level_with_files: int) -> bool:
    """Whether a compaction into `output_level` may leave delete rows out of its output."""
    # A delete must outlive every older version of its key. Only when nothing older can lie
    # below the output are we sure of that; level 0 is never sure, because its runs overlap.
    return output_level != 0 and output_level >= highest_level_with_files
