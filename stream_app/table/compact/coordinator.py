"""The compactions of all buckets that a job touches: levels, triggers, results.

Owned by `table.job.table_state`, on the driver. Each bucket has a `CompactManager`, restored from
the table when the bucket is first touched and followed from what is committed.

Unlike here, Paimon keeps a manager in each writer task, here the driver has them
all, because Spark's tasks end with the epoch.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field

from stream_app.clock import local_wall_clock_ms
from stream_app.errors import CompactionError
from stream_app.mergetree.compact.compact_executor import CompactExecutor
from stream_app.mergetree.compact.compact_manager import CompactManager
from stream_app.mergetree.levels import Levels
from stream_app.model.bucket_change import BucketChange
from stream_app.model.bucket_id import BucketId
from stream_app.model.data_file_meta import DataFileMeta
from stream_app.model.options.compaction_options import (
    COMPACTION_FORCE_REWRITE_ALL_FILES,
    WRITE_ONLY,
)
from stream_app.model.snapshot import Snapshot
from stream_app.table.compact.failures import CompactionFailures, DroppedCompactions
from stream_app.table.compact.metrics import CompactionLoad, compaction_load
from stream_app.table.compact.record_expiry import has_expired_rows
from stream_app.table.compact.report import FinishedCompaction
from stream_app.table.compact.strategy_of_options import compact_strategy
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.versions.file_store_scan import FileStoreScan

_LOG = logging.getLogger(__name__)


@dataclass(slots=True)
class CompactCoordinator:
    """Managers of the touched buckets."""

    table: FileStoreTable
    executor: CompactExecutor
    _managers: dict[BucketId, CompactManager] = field(default_factory=dict)
    _failures: CompactionFailures[BucketId] = field(init=False)
    _in_doubt: set[BucketId] = field(default_factory=set)
    _partitions: frozenset[bytes] | None = None
    _dropped: DroppedCompactions = field(default_factory=DroppedCompactions)

    def __post_init__(self) -> None:
        self._failures = CompactionFailures(self.table.clock)

    def restore(self, buckets: Collection[BucketId], snapshot: Snapshot | None) -> None:
        """Read the levels of buckets that are not known yet."""
        missing = {bucket for bucket in buckets if bucket not in self._managers}
        self._managers |= self._read_managers(missing, snapshot)

    def restrict(self, partitions: Collection[bytes]) -> None:
        """Compact in no other partitions than these."""
        self._partitions = frozenset(partitions)

    def forget(self, buckets: Iterable[BucketId], snapshot: Snapshot | None) -> None:
        """Another writer changed buckets: believe the table again. Running compactions go on."""
        known = {bucket for bucket in buckets if bucket in self._managers}
        for bucket, now in self._read_managers(known, snapshot).items():
            self._managers[bucket].restore(now.levels)

    def known_buckets(self) -> set[BucketId]:
        """Buckets whose levels are kept here."""
        return set(self._managers)

    def add_new_files(self, changes: Iterable[BucketChange]) -> None:
        """Take in committed level-0 files of known buckets."""
        for change in changes:
            for file in change.added:
                self._managers[change.bucket_id].add_new_file(file)

    def trigger(self) -> int:
        """Begin compactions where they are due, most sorted runs first; how many were begun.

        A bucket whose compaction has failed is left alone until its next attempt.
        """
        local_ms = local_wall_clock_ms(self.table.clock)
        by_urgency = sorted(
            self._managers.items(), key=lambda item: -item[1].levels.number_of_sorted_runs()
        )
        begun = 0
        for bucket, manager in by_urgency:
            is_chosen = self._partitions is None or bucket[0] in self._partitions
            if not is_chosen or self._failures.must_wait(bucket):
                continue
            begun += manager.trigger_compaction(self.executor, local_ms=local_ms)
            if manager.running is None:
                # Nothing is due any more: another job may have done it.
                self._failures.forget(bucket)
        return begun

    def trigger_full(self, buckets: set[BucketId]) -> set[BucketId]:
        """Begin full compactions; the buckets for which it is too early.

        That is where a compaction runs, or where one has failed and waits to be tried again.
        """
        local_ms = local_wall_clock_ms(self.table.clock)
        left = set()
        for bucket in buckets:
            manager = self._managers[bucket]
            if manager.running is not None or self._failures.must_wait(bucket):
                left.add(bucket)
            else:
                manager.trigger_compaction(self.executor, local_ms=local_ms, full=True)
                if manager.running is None:
                    self._failures.forget(bucket)
        return left

    def load(self) -> CompactionLoad:
        """What there is to do, and what came to nothing. Any thread may ask."""
        managers = list(self._managers.values())
        levels = [manager.levels for manager in managers]
        futures = [future for manager in managers if (future := manager.running)]
        return compaction_load(levels, futures, failed=self._failures.total, dropped=self.dropped())

    def dropped(self) -> int:
        """Compactions that came to nothing because another writer was first."""
        return self._dropped.total

    def take_dropped(self) -> set[BucketId]:
        """Buckets whose compaction was dropped since the last call, unless that happens often."""
        return self._dropped.take()

    def to_be_retried(self) -> set[BucketId]:
        """Buckets whose last compaction has failed, and not yet too often."""
        return self._failures.to_be_retried()

    def stuck(self) -> dict[BucketId, BaseException | None]:
        """Buckets whose compaction fails again and again, with what it last failed with."""
        return self._failures.stuck()

    def seconds_until_retry(self) -> float | None:
        """How long until a bucket that failed is tried again; None when nobody waits for it."""
        return self._failures.seconds_until_retry()

    def running(self) -> int:
        """Compactions that run now."""
        return sum(1 for future in self._futures() if not future.done())

    def is_idle(self) -> bool:
        """Whether nothing runs and nothing waits to be committed."""
        return next(self._futures(), None) is None

    def sorted_runs(self) -> dict[BucketId, int]:
        """Sorted runs of each known bucket."""
        return {
            bucket: manager.levels.number_of_sorted_runs()
            for bucket, manager in self._managers.items()
        }

    def over_stop_trigger(self) -> int:
        """Buckets that must be compacted before they take more files.

        Not counted are those whose compaction fails again and again: the other buckets go on.
        """
        return sum(
            manager.should_wait_for_latest_compaction() and not self._failures.is_stuck(bucket)
            for bucket, manager in self._managers.items()
        )

    def most_sorted_runs(self) -> int:
        """Of all buckets that are known."""
        return max(self.sorted_runs().values(), default=0)

    def check_not_stuck(self, buckets: Iterable[BucketId]) -> None:
        """See that each bucket may take more files.

        Raises:
            CompactionError: compacting one fails, and it has too many sorted runs, or no attempt
                can ever succeed.
        """
        for bucket in buckets:
            manager = self._managers.get(bucket)
            if manager is None or not self._failures.is_stuck(bucket):
                continue
            is_full = manager.should_wait_for_latest_compaction()
            if is_full or self._failures.is_final(bucket):
                raise CompactionError(
                    f"bucket {manager.bucket} has {manager.levels.number_of_sorted_runs()} sorted "
                    f"runs and its compaction failed {self._failures.count(bucket)} times in a "
                    f"row, at last with: {self._failures.last(bucket)}",
                    where=self.table.paths.bucket(*bucket),
                    fix="mend that, and start the job again; or set 'write-only' = 'true' and "
                    "compact with another job",
                )

    def wait_for_any(self, timeout_s: float | None = None) -> None:
        """Return when a compaction has finished, at once when none runs."""
        futures = list(self._futures())
        if futures and not any(future.done() for future in futures):
            self.table.clock.wait_for_any(futures, timeout_s)

    def finished(self) -> list[FinishedCompaction]:
        """Results that wait to be committed; failed compactions are logged and forgotten."""
        done = []
        for bucket, manager in self._managers.items():
            future = manager.finished()
            if future is None:
                continue
            error = future.exception()
            if error is None:
                assert manager.unit is not None
                done.append(FinishedCompaction(manager.unit, future.result(), manager.is_overtaken))
                self._failures.forget(bucket)
                continue
            self._failures.note(bucket, self.table.paths.bucket(*bucket), error)
            manager.forget_running()
        return done

    def apply(self, finished: Iterable[FinishedCompaction]) -> None:
        """The results are committed: levels follow."""
        for compaction in finished:
            self._in_doubt.discard(compaction.bucket)
            self._dropped.forget(compaction.bucket)
            self._managers[compaction.bucket].apply(compaction.change)

    def doubt(self, finished: Iterable[FinishedCompaction]) -> None:
        """It is not known whether the results are committed: their files must stay."""
        self._in_doubt.update(compaction.bucket for compaction in finished)

    def discard(
        self, finished: Iterable[FinishedCompaction], snapshot: Snapshot | None, why: str
    ) -> None:
        """The results cannot be committed: delete their files, believe the table again.

        Files of a result that was in doubt stay: a snapshot may name them.
        """
        finished = list(finished)
        for compaction in finished:
            self._dropped.note(compaction.bucket, self.table.paths.bucket(*compaction.bucket), why)
            if compaction.bucket not in self._in_doubt:
                self.table.discard([compaction.change])
            self._in_doubt.discard(compaction.bucket)
            self._managers[compaction.bucket].forget_running()
        self.forget([compaction.bucket for compaction in finished], snapshot)

    def _futures(self) -> Iterator[Future[BucketChange]]:
        for manager in self._managers.values():
            if manager.running is not None:
                yield manager.running

    def _read_managers(
        self, buckets: Collection[BucketId], snapshot: Snapshot | None
    ) -> Mapping[BucketId, CompactManager]:
        return bucket_managers(self.table, snapshot, buckets)


def bucket_managers(
    table: FileStoreTable, snapshot: Snapshot | None, buckets: Collection[BucketId] | None = None
) -> dict[BucketId, CompactManager]:
    """A manager for each bucket as it is in a snapshot; None: for those that have files."""
    options = table.options
    return {
        bucket: CompactManager(
            partition=bucket[0],
            bucket=bucket[1],
            levels=Levels(files, num_levels=options.num_levels, key_of=table.key_of),
            policy=None if options[WRITE_ONLY] else compact_strategy(options),
            stop_trigger=options.stop_trigger,
            total_buckets=total_buckets,
            rewrite_all=options[COMPACTION_FORCE_REWRITE_ALL_FILES],
            must_rewrite=has_expired_rows(table),
        )
        for bucket, (total_buckets, files) in files_by_bucket(table, snapshot, buckets).items()
    }


def files_by_bucket(
    table: FileStoreTable, snapshot: Snapshot | None, buckets: Collection[BucketId] | None
) -> dict[BucketId, tuple[int | None, list[DataFileMeta]]]:
    """The live files of some buckets, also of those that have none; None: all that have some.

    Before them how many buckets the partition has, if a file tells.
    """
    files: dict[BucketId, list[DataFileMeta]] = {bucket: [] for bucket in buckets or ()}
    totals: dict[BucketId, int] = {}
    if buckets is None or buckets:
        for entry in FileStoreScan(table).live(snapshot, buckets):
            bucket = entry.partition, entry.bucket
            files.setdefault(bucket, []).append(entry.file)
            if entry.total_buckets > 0:
                totals[bucket] = entry.total_buckets
    return {bucket: (totals.get(bucket), members) for bucket, members in files.items()}
