"""Coordinates the compactions of a table's buckets in a job: levels, triggers, results.

`table.job.table_state` owns it, on the driver. Each bucket has a `CompactManager`. The
coordinator restores it from the table when an epoch first writes to the bucket. Then commits keep
it current.

Paimon keeps a manager in each writer task. Here the driver keeps all managers, because Spark's
tasks end with the epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from stream_app.clock import Clock, SystemClock, local_wall_clock_ms
from stream_app.mergetree.compact.compact_executor import CompactExecutor
from stream_app.mergetree.compact.compact_manager import CompactManager
from stream_app.model.bucket_id import POSTPONED, BucketId
from stream_app.model.files.bucket_change import BucketChange
from stream_app.model.files.data_file_meta import DataFileMeta
from stream_app.model.snapshot import Snapshot
from stream_app.planning.compact.waiting_rows import Visibility, waiting_row_count
from stream_app.table.compact.auto_policy import AutoPolicy, PolicyBounds
from stream_app.table.compact.back_pressure import BackPressure
from stream_app.table.compact.buckets.idle_buckets import IdleBuckets, LiveBucket
from stream_app.table.compact.buckets.rest_times import RestTimes
from stream_app.table.compact.compact_coordinator import FullBounds
from stream_app.table.compact.compaction_failures import CompactionFailures
from stream_app.table.compact.compaction_metrics import (
    CompactionMetrics,
    TimedCompaction,
    UnfinishedCompaction,
    current_metrics,
    unfinished_compaction,
)
from stream_app.table.compact.compaction_report import FinishedCompaction
from stream_app.table.compact.dropped_compaction_counter import DroppedCompactionCounter
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.versions.file_store_scan import FileStoreScan

ManagerFactory = Callable[[FileStoreTable, BucketId, LiveBucket], CompactManager]


@dataclass(slots=True)
class BucketCoordinator:
    """A coordinator of the managers of a table's buckets. Implements `CompactCoordinator`.

    Attributes:
        make_manager: makes the manager of a bucket with the given files.
        age_clock: the clock for compactions' ages, which only metrics show.
    """

    table: FileStoreTable
    executor: CompactExecutor
    make_manager: ManagerFactory
    age_clock: Clock = field(default_factory=SystemClock)
    failures: CompactionFailures[BucketId] = field(init=False)
    dropped_compactions: DroppedCompactionCounter = field(
        init=False, default_factory=DroppedCompactionCounter
    )
    back_pressure: BackPressure = field(init=False)
    _managers: dict[BucketId, CompactManager] = field(init=False, default_factory=dict)
    _idle_buckets: IdleBuckets = field(init=False, default_factory=IdleBuckets)
    _start_s: dict[BucketId, float] = field(init=False, default_factory=dict)
    _doubtful_buckets: set[BucketId] = field(init=False, default_factory=set)
    _rest_times: RestTimes = field(init=False)
    _partitions: frozenset[bytes] | None = field(init=False, default=None)
    _policy: AutoPolicy | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.failures = CompactionFailures(self.table.clock)
        self.back_pressure = BackPressure(self.table.paths, self._managers, self.failures)
        self._rest_times = RestTimes(self.table.clock, self.table.visibility)

    def load(self, buckets: Collection[BucketId], snapshot: Snapshot | None) -> None:
        """Read the levels of buckets that are not known yet.

        That decodes all manifests of their partitions. So it keeps the files of the partitions'
        other buckets in packed form, until an epoch writes to them or another writer commits.
        """
        missing_buckets = {bucket_id for bucket_id in buckets if bucket_id not in self._managers}
        live_buckets: dict[BucketId, LiveBucket] = {}
        if unread_buckets := missing_buckets - self._idle_buckets.buckets:
            neighbours = self._idle_buckets.neighbours(missing_buckets, self.table.options.bucket)
            unread_buckets |= neighbours - self._managers.keys()
            live_buckets = read_live_buckets(self.table, snapshot, unread_buckets)
        for bucket_id in missing_buckets:
            live_bucket = live_buckets.pop(bucket_id, None) or self._idle_buckets.take(bucket_id)
            self._managers[bucket_id] = self.make_manager(self.table, bucket_id, live_bucket)
        self._idle_buckets.keep(live_buckets)

    def restrict(self, partitions: Collection[bytes]) -> None:
        """Compact only these partitions."""
        self._partitions = frozenset(partitions)

    def adapt(self, policy_bounds: PolicyBounds) -> None:
        """See `CompactCoordinator.adapt`."""
        self._policy = AutoPolicy(self.table, policy_bounds)

    def policy_of(self, bucket_id: BucketId) -> str | None:
        """See `CompactCoordinator.policy_of`."""
        return None if self._policy is None else self._policy.text_of(bucket_id)

    def reload(self, buckets: Iterable[BucketId], snapshot: Snapshot | None) -> None:
        """Read the levels of known buckets again, after another writer's commit.

        Begun compactions continue.
        """
        stale_buckets = {bucket_id for bucket_id in buckets if bucket_id in self._managers}
        self._rest_times.note_filled(stale_buckets, row_count=0)
        self._read_levels(stale_buckets, snapshot)

    def known_buckets(self) -> set[BucketId]:
        """Return the buckets whose levels this coordinator keeps."""
        return set(self._managers)

    def add_new_files(self, changes: Iterable[BucketChange]) -> None:
        """Add an epoch's level-0 files to the known buckets."""
        changes = list(changes)
        row_count = 0
        for change in changes:
            for file in change.added_files:
                self._managers[change.bucket_id].add_new_file(file, change.total_buckets)
                row_count += file.row_count
        if self._policy is not None:
            self._policy.note_epoch(changes, self.table.clock.steady_seconds())
        self._rest_times.note_filled((change.bucket_id for change in changes), row_count=row_count)

    def trigger(self, *, expects_no_flush: bool = False) -> int:
        """Begin due compactions, most sorted runs first, and return their number.

        A bucket whose compaction failed waits for its next attempt; see
        `CompactCoordinator.trigger`.
        """
        local_time_ms = local_wall_clock_ms(self.table.clock)
        urgent_managers = sorted(
            self._managers.items(), key=lambda item: -item[1].levels.sorted_run_count
        )
        begun_count = 0
        for bucket_id, manager in urgent_managers:
            is_chosen = self._partitions is None or bucket_id.partition in self._partitions
            if not is_chosen or self.failures.must_wait(bucket_id):
                continue
            if self._policy is not None and manager.begun_compaction is None:
                self._policy.fit(bucket_id, manager)
            is_resting = expects_no_flush or self._rest_times.is_resting(bucket_id)
            begun_count += self._begin(bucket_id, local_time_ms, is_resting=is_resting)
        return begun_count

    def trigger_full(self, full_bounds: FullBounds) -> set[BucketId]:
        """Begin full compactions, and return the buckets whose compaction must begin later.

        In these buckets a compaction runs, or a failed one waits for its retry.
        """
        local_time_ms = local_wall_clock_ms(self.table.clock)
        later_buckets = set()
        for bucket_id in full_bounds.buckets:
            manager = self._managers[bucket_id]
            if manager.begun_compaction is not None or self.failures.must_wait(bucket_id):
                later_buckets.add(bucket_id)
            else:
                self._begin(bucket_id, local_time_ms, is_full=True)
        return later_buckets

    def _begin(
        self, bucket_id: BucketId, time_ms: int, *, is_full: bool = False, is_resting: bool = False
    ) -> bool:
        """Begin a bucket's compaction if one is due, and return whether it has begun."""
        manager = self._managers[bucket_id]
        has_begun = manager.trigger_compaction(
            self.executor, local_time_ms=time_ms, is_full=is_full, expects_no_flush=is_resting
        )
        if has_begun:
            self._start_s[bucket_id] = self.age_clock.steady_seconds()
        if manager.begun_compaction is None:
            # The bucket needs no compaction: another job may have compacted it.
            self.failures.forget(bucket_id)
        return has_begun

    def unfinished_compactions(self) -> Sequence[UnfinishedCompaction]:
        """Return compactions that run or wait for a thread. Any thread may call it."""
        compactions = []
        for (partition, bucket), manager in list(self._managers.items()):
            compaction = manager.begun_compaction
            if compaction is not None and not compaction.future.done():
                path = self.table.paths.partition_path(partition)
                compactions.append(
                    unfinished_compaction(path, bucket, compaction.unit, compaction.future)
                )
        return compactions

    def waiting_row_count(self) -> int:
        """Return how many rows of known buckets wait for a compaction. Any thread may call it."""
        visibility = self.table.visibility
        num_levels = self.table.options.num_levels
        if visibility is Visibility.ANY_LEVEL:
            return 0
        return sum(
            waiting_row_count(manager.levels.level_sorted_runs(), visibility, num_levels)
            for manager in list(self._managers.values())
        )

    def metrics(self) -> CompactionMetrics:
        """Return metrics of begun compactions and failed attempts. Any thread may call it."""
        managers = list(self._managers.items())
        now_s = self.age_clock.steady_seconds()
        compactions = [
            TimedCompaction(compaction.future, self._start_s.get(bucket_id, now_s))
            for bucket_id, manager in managers
            if (compaction := manager.begun_compaction)
        ]
        return current_metrics(
            [manager.levels for _, manager in managers],
            compactions,
            now_s=now_s,
            failed_count=self.failures.failed_count,
            dropped_count=self.dropped_compactions.dropped_count,
            waiting_row_count=self._rest_times.reported_row_count(self.waiting_row_count()),
        )

    def is_idle(self) -> bool:
        """Return whether no compaction runs or waits for its commit."""
        return next(self._futures(), None) is None

    def wait_for_any(self, timeout_s: float | None = None) -> None:
        """Wait until a compaction ends; return at once if none runs."""
        futures = list(self._futures())
        if futures and not any(future.done() for future in futures):
            self.table.clock.wait_for_any(futures, timeout_s)

    def collect_finished_compactions(self) -> list[FinishedCompaction]:
        """Return results that wait for their commit. It logs and forgets failed compactions."""
        results = []
        for bucket_id, manager in self._managers.items():
            compaction = manager.finished_compaction()
            if compaction is None:
                continue
            error = compaction.future.exception()
            if error is None:
                change = compaction.future.result()
                results.append(FinishedCompaction(compaction.unit, change, manager.is_overtaken))
                self.failures.forget(bucket_id)
                continue
            self.failures.note(bucket_id, self.table.paths.bucket_folder(*bucket_id), error)
            manager.forget_begun_compaction()
        return results

    def apply(self, compactions: Iterable[FinishedCompaction]) -> None:
        """Note that the results are committed, and update the levels."""
        for compaction in compactions:
            self._doubtful_buckets.discard(compaction.bucket_id)
            self.dropped_compactions.forget(compaction.bucket_id)
            self._managers[compaction.bucket_id].apply(compaction.change)
            if self._policy is not None:
                self._policy.note_compaction(compaction.change)

    def note_doubt(self, compactions: Iterable[FinishedCompaction]) -> None:
        """Note that the results may or may not have been committed, so their files must stay."""
        self._doubtful_buckets.update(compaction.bucket_id for compaction in compactions)

    def discard(
        self, compactions: Iterable[FinishedCompaction], snapshot: Snapshot | None, reason: str
    ) -> None:
        """Delete the files of results that cannot be committed, and reload their buckets.

        Files of a result in doubt stay, because a snapshot may name them.
        """
        compactions = list(compactions)
        for compaction in compactions:
            self.dropped_compactions.note(
                compaction.bucket_id, self.table.paths.bucket_folder(*compaction.bucket_id), reason
            )
            if compaction.bucket_id not in self._doubtful_buckets:
                self.table.discard([compaction.change])
            self._doubtful_buckets.discard(compaction.bucket_id)
            self._managers[compaction.bucket_id].forget_begun_compaction()
        self._read_levels([compaction.bucket_id for compaction in compactions], snapshot)

    def _read_levels(self, buckets: Collection[BucketId], snapshot: Snapshot | None) -> None:
        self._idle_buckets.clear()
        for bucket_id, live_bucket in read_live_buckets(self.table, snapshot, buckets).items():
            fresh_manager = self.make_manager(self.table, bucket_id, live_bucket)
            self._managers[bucket_id].replace_levels(
                fresh_manager.levels, fresh_manager.total_buckets
            )

    def _futures(self) -> Iterator[Future[BucketChange]]:
        for manager in self._managers.values():
            if manager.begun_compaction is not None:
                yield manager.begun_compaction.future


def read_live_buckets(
    table: FileStoreTable, snapshot: Snapshot | None, buckets: Collection[BucketId] | None
) -> dict[BucketId, LiveBucket]:
    """Return the live files of each bucket, perhaps none; None selects all buckets with files."""
    files: dict[BucketId, list[DataFileMeta]] = {bucket_id: [] for bucket_id in buckets or ()}
    bucket_counts: dict[BucketId, int] = {}
    if buckets is None or buckets:
        for entry in FileStoreScan(table).live(snapshot, buckets):
            bucket_id = entry.bucket_id
            if entry.bucket == POSTPONED:
                continue
            files.setdefault(bucket_id, []).append(entry.file)
            if entry.total_buckets > 0:
                bucket_counts[bucket_id] = entry.total_buckets
    return {
        bucket_id: LiveBucket(bucket_counts.get(bucket_id), tuple(bucket_files))
        for bucket_id, bucket_files in files.items()
    }
