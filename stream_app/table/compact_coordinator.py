"""The compactions of all buckets that a job touches: levels, triggers, results.

Owned by `stream_commit`, on the driver. Each bucket has a `CompactManager`, restored from the
table when the bucket is first touched and followed from what is committed.

Source: seed document 002; Paimon keeps a manager in each writer task, here the driver has them
all, because Spark's tasks end with the epoch.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field
from datetime import datetime

from stream_app.clock import Clock
from stream_app.errors import CompactionError
from stream_app.mergetree.compact.compact_executor import CompactExecutor
from stream_app.mergetree.compact.compact_manager import CompactManager
from stream_app.mergetree.compact.compact_unit import CompactResult
from stream_app.mergetree.compact.early_full_compaction import EarlyFullCompaction
from stream_app.mergetree.compact.off_peak_hours import OffPeakHours
from stream_app.mergetree.compact.universal_compaction import UniversalCompaction
from stream_app.mergetree.levels import Levels
from stream_app.model.commit_message import CommitMessage
from stream_app.model.core_options import CoreOptions
from stream_app.model.data_file_meta import DataFileMeta
from stream_app.model.snapshot import Snapshot
from stream_app.table.file_store_scan import BucketId, FileStoreScan
from stream_app.table.file_store_table import FileStoreTable

_LOG = logging.getLogger(__name__)
FAILURES_MAX = 3
"""Failures of one bucket in a row after which the job stops."""


@dataclass(slots=True)
class FinishedCompaction:
    """A result that waits to be committed; see `CompactManager.is_overtaken`."""

    bucket: BucketId
    result: CompactResult
    is_overtaken: bool

    @property
    def message(self) -> CommitMessage:
        """What the committer is to publish."""
        return CommitMessage(
            partition=self.bucket[0],
            bucket=self.bucket[1],
            compact_before=self.result.before,
            compact_after=self.result.after,
        )


@dataclass(slots=True)
class CompactCoordinator:
    """Managers of the touched buckets."""

    table: FileStoreTable
    executor: CompactExecutor
    _managers: dict[BucketId, CompactManager] = field(default_factory=dict)
    _failures: dict[BucketId, int] = field(default_factory=dict)
    _in_doubt: set[BucketId] = field(default_factory=set)

    def restore(self, buckets: Collection[BucketId], snapshot: Snapshot | None) -> None:
        """Read the levels of buckets that are not known yet."""
        missing = {bucket for bucket in buckets if bucket not in self._managers}
        if missing:
            for bucket, files in self._live_files(missing, snapshot).items():
                self._managers[bucket] = self._manager(bucket, files)

    def forget(self, buckets: Iterable[BucketId], snapshot: Snapshot | None) -> None:
        """Another writer changed buckets: believe the table again. Running compactions go on."""
        known = {bucket for bucket in buckets if bucket in self._managers}
        for bucket, files in self._live_files(known, snapshot).items():
            self._managers[bucket].restore(files, num_levels=self.table.options.num_levels)

    def known_buckets(self) -> set[BucketId]:
        """Buckets whose levels are kept here."""
        return set(self._managers)

    def add_new_files(self, messages: Iterable[CommitMessage]) -> None:
        """Take in committed level-0 files of known buckets."""
        for message in messages:
            for file in message.new_files:
                self._managers[message.partition, message.bucket].add_new_file(file)

    def trigger(self, *, full: bool = False) -> int:
        """Begin compactions where they are due; how many were begun."""
        hour = local_hour(self.table.clock)
        return sum(
            manager.trigger_compaction(self.executor, hour=hour, full=full)
            for manager in self._managers.values()
        )

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

    def over_stop_trigger(self) -> list[CompactManager]:
        """Buckets that must wait for compaction before they take more files.

        Raises:
            CompactionError: one of them cannot be compacted.
        """
        over = [
            manager
            for manager in self._managers.values()
            if manager.should_wait_for_latest_compaction()
        ]
        for manager in over:
            if self._failures.get((manager.partition, manager.bucket), 0) >= FAILURES_MAX:
                raise CompactionError(
                    f"bucket {manager.bucket} has {manager.levels.number_of_sorted_runs()} sorted "
                    f"runs and its compaction failed {FAILURES_MAX} times in a row",
                    where=self.table.paths.bucket(manager.partition, manager.bucket),
                    fix="see the failure in the log above; or set 'write-only' = 'true' and "
                    "compact with another job",
                )
        return over

    def wait_for_any(self, timeout_s: float | None = None) -> None:
        """Return when a compaction has finished, at once when none runs."""
        futures = list(self._futures())
        if futures and not any(future.done() for future in futures):
            wait(futures, timeout=timeout_s, return_when=FIRST_COMPLETED)

    def finished(self) -> list[FinishedCompaction]:
        """Results that wait to be committed; failed compactions are logged and forgotten."""
        done = []
        for bucket, manager in self._managers.items():
            future = manager.finished()
            if future is None:
                continue
            error = future.exception()
            if error is None:
                done.append(FinishedCompaction(bucket, future.result(), manager.is_overtaken))
                self._failures.pop(bucket, None)
                continue
            self._failures[bucket] = self._failures.get(bucket, 0) + 1
            _LOG.error(
                "compaction of %s failed (%d in a row): %s",
                self.table.paths.bucket(*bucket),
                self._failures[bucket],
                error,
            )
            manager.forget_running()
        return done

    def apply(self, finished: Iterable[FinishedCompaction]) -> None:
        """The results are committed: levels follow."""
        for compaction in finished:
            self._in_doubt.discard(compaction.bucket)
            self._managers[compaction.bucket].apply(compaction.result)

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
            _LOG.warning(
                "a compaction of %s is dropped: %s",
                self.table.paths.bucket(*compaction.bucket),
                why,
            )
            in_doubt = compaction.bucket in self._in_doubt
            self._in_doubt.discard(compaction.bucket)
            for file in () if in_doubt else compaction.result.rewritten:
                path = self.table.paths.data_file(*compaction.bucket, file)
                self.table.file_io.delete(path)
            self._managers[compaction.bucket].forget_running()
        self.forget([compaction.bucket for compaction in finished], snapshot)

    def _futures(self) -> Iterator[Future[CompactResult]]:
        for manager in self._managers.values():
            if manager.running is not None:
                yield manager.running

    def _live_files(
        self, buckets: set[BucketId], snapshot: Snapshot | None
    ) -> dict[BucketId, list[DataFileMeta]]:
        files: dict[BucketId, list[DataFileMeta]] = {bucket: [] for bucket in buckets}
        if buckets:
            for entry in FileStoreScan(self.table).live(snapshot, buckets):
                files[entry.partition, entry.bucket].append(entry.file)
        return files

    def _manager(self, bucket: BucketId, files: list[DataFileMeta]) -> CompactManager:
        options = self.table.options
        policy = None
        if not options.boolean("write-only"):
            policy = UniversalCompaction(
                max_size_amplification_percent=options.integer(
                    "compaction.max-size-amplification-percent"
                ),
                size_ratio=options.integer("compaction.size-ratio"),
                run_count_trigger=options.compaction_trigger,
                early=EarlyFullCompaction(
                    total_size=options.optional_integer("compaction.total-size-threshold"),
                    incremental_size=options.optional_integer(
                        "compaction.incremental-size-threshold"
                    ),
                ),
                off_peak=off_peak_hours(options),
            )
        return CompactManager(
            partition=bucket[0],
            bucket=bucket[1],
            levels=Levels(files, num_levels=options.num_levels, key_of=self.table.key_of),
            policy=policy,
            stop_trigger=options.stop_trigger,
            rewrite_all=options.boolean("compaction.force-rewrite-all-files"),
        )


def local_hour(clock: Clock) -> int:
    """The hour of the day here, as Paimon's own writers count off-peak hours."""
    return datetime.fromtimestamp(clock.now_ms() / 1000).astimezone().hour


def off_peak_hours(options: CoreOptions) -> OffPeakHours | None:
    """The hours that the table's options say; None when they are off."""
    start = options.integer("compaction.offpeak.start.hour")
    end = options.integer("compaction.offpeak.end.hour")
    if -1 in (start, end):
        return None
    return OffPeakHours(start, end, options.integer("compaction.offpeak-ratio"))
