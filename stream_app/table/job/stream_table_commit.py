"""Commits the epochs and compactions of one streaming job to its table, on the driver.

For each epoch the job calls `follow_and_wait`, lets tasks write files, and calls `commit_epoch`.
While no data arrives it calls `commit_idle`. The module joins the committer with the compactions.
It does not depend on Spark; the `CompactExecutor` decides where compactions run.

Source: Paimon `table/sink/StreamTableCommit.java`,
`flink/sink/StoreCompactOperator.java`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

from stream_app.errors import CommitError
from stream_app.mergetree.compact.compact_executor import CompactExecutor
from stream_app.model.bucket_id import BucketId
from stream_app.model.files.bucket_change import BucketChange
from stream_app.model.files.manifest_committable import ManifestCommittable
from stream_app.model.options.compaction_options import WRITE_ONLY
from stream_app.model.snapshot import BATCH_COMMIT_IDENTIFIER, SOURCE_END_PROPERTY, Snapshot
from stream_app.table.commit.commit_history import CommitHistory
from stream_app.table.commit.file_store_commit import FileStoreCommit
from stream_app.table.compact.compact_coordinator import CompactCoordinator, FullBounds
from stream_app.table.compact.compaction_metrics import CompactionMetrics
from stream_app.table.compact.compaction_report import CompactionReport
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.job.bucket_state import bucket_state
from stream_app.table.job.checkpoint_checks import check_no_record_replay
from stream_app.table.job.compaction_publisher import (
    CompactionPublisher,
    PublishedCompactions,
)
from stream_app.table.job.idle_searcher import IdleSearcher
from stream_app.table.job.other_commit_counter import OtherCommitCounter
from stream_app.table.job.table_state import TableState, read_latest_snapshot
from stream_app.table.job.write_only_bound import WriteOnlyBound
from stream_app.table.versions.bucket_basis import NO_BASIS, BucketBasis
from stream_app.table.versions.file_store_scan import FileStoreScan

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class EpochOutcome:
    """The outcome of an epoch.

    Attributes:
        compactions: the reports of the published compactions.
    """

    snapshots: tuple[Snapshot, ...]
    compactions: tuple[CompactionReport, ...]


@contextmanager
def _discard_on_error(
    changes: Sequence[BucketChange], table: FileStoreTable, error: type[BaseException]
) -> Iterator[None]:
    """Delete the files of changes if `error` leaves the block, because no snapshot names them.

    Before the commit that holds for every error. An error of the commit other than CommitError
    leaves open whether the snapshot exists, so the files stay.
    """
    try:
        yield
    except error:
        table.discard(changes)
        raise


class StreamTableCommit:
    """A committer that publishes epochs and compactions, and waits when compactions lag behind.

    Not thread safe: the caller must not let epochs and idle commits overlap.

    Attributes:
        state: the job's state of the table.
        bucket_state: the state from which rows get their buckets.
        published_compactions: the compactions that the job has published.
        leaves_rows: whether the last `compact_due` left waiting rows to other writers.
    """

    def __init__(
        self,
        table: FileStoreTable,
        commit_user: str,
        executor: CompactExecutor,
        last_identifier: int | None = None,
        *,
        is_stopping: Callable[[], bool] = lambda: False,
        published_compactions: PublishedCompactions | None = None,
    ) -> None:
        """Read the table's state.

        Args:
            commit_user, last_identifier: the checkpoint's id, and that of its newest commit if any.
            is_stopping: returns whether the job is to end.
            published_compactions: those of a committer that this one replaces; None without one.
        """
        self.table = table
        self.state = state = TableState(table, commit_user, executor, last_identifier)
        self.bucket_state = bucket_state(table, state.commit_history, state.constraints)
        self._commit = FileStoreCommit(table, state.commit_history)
        self.callbacks = self._commit.callbacks
        self.published_compactions = published_compactions or PublishedCompactions()
        self._publisher = CompactionPublisher(
            table, self._commit, state.coordinator, state.live_counts, self.published_compactions
        )
        self._write_only_bound = WriteOnlyBound(state, is_stopping)
        self._searcher = IdleSearcher(state)
        if state.last_identifier is not None:  # else no compaction could commit yet
            state.load_waiting_buckets()
        self._followed_id: int | None = None
        self.leaves_rows = False

    @property
    def last_identifier(self) -> int | None:
        """The identifier of this user's newest commit; None before the first commit."""
        return self.state.last_identifier

    @property
    def coordinator(self) -> CompactCoordinator:
        """The coordinator of the table's compactions."""
        return self.state.coordinator

    def follow_and_wait(self) -> int:
        """Apply other writers' commits, and wait while a bucket has too many sorted runs.

        Returns:
            The lowest sequence number that the epoch's rows may take in any bucket.

        Raises:
            CheckpointError: the table was rolled back.
            CommitConflictError: another process works with the same checkpoint.
            CompactionError: no job compacts a write-only table.
        """
        self.state.follow_and_load(())
        self._wait_for_compaction()
        self._followed_id = self.state.commit_history.known_id
        return self.state.constraints.next_sequence_number

    def relieve_back_pressure(self) -> bool:
        """Begin due compactions, and return whether `follow_and_wait` would wait for none.

        Raises:
            CompactionError: no job compacts a write-only table.
        """
        if self.table.options[WRITE_ONLY]:
            return self._write_only_bound.follow()
        back_pressure = self.coordinator.back_pressure
        if self.last_identifier is None or not back_pressure.buckets_over_stop_trigger():
            return True
        self.coordinator.trigger()
        return not _is_worth_waiting(self.coordinator)

    def commit_epoch(
        self,
        epoch: int,
        changes: Sequence[BucketChange],
        *,
        properties: Mapping[str, str] | None = None,
        watermark: int | None = None,
        truncates: bool = False,
        basis: BucketBasis = NO_BASIS,
    ) -> EpochOutcome:
        """Publish an epoch's files and finished compactions; `truncates` first deletes all rows.

        1. Apply other writers' commits, and wait while a bucket has too many sorted runs.
        2. Commit the files. From here on the epoch is committed, even if compactions fail.
        3. Record the epoch; then publish the finished compactions, and begin due ones.
        4. Run the compactions for which the table's options make an epoch wait.

        Raises:
            CommitError: the epoch is not committed, and the caller may retry; with `truncates` the
                table may already be empty. After OutdatedRowsError it must route the rows again.
            CompactionError: a bucket has too many runs and cannot be compacted.
            UnsupportedTableError: as `WriteConstraints.check_bucket_counts`.
        """
        changed_buckets = {change.bucket_id for change in changes}
        with _discard_on_error(changes, self.table, BaseException):  # step 1
            truncation = truncate_table(self.table, self.state.commit_user) if truncates else None
            self.state.follow_and_load(changed_buckets)
            self.state.constraints.check_bucket_counts({change.partition for change in changes})
            self._wait_for_compaction()  # for buckets to which this process has not written before
            self.coordinator.back_pressure.check_not_stuck(changed_buckets)
            compactions = self.coordinator.collect_finished_compactions()
        properties = {**(properties or {}), **self.bucket_state.properties}
        committable = ManifestCommittable(
            identifier=epoch, watermark=watermark, properties=properties
        )
        with _discard_on_error(changes, self.table, CommitError):  # step 2
            check_base = partial(self._check_fits, basis, changes)
            append_committable = replace(committable, changes=tuple(changes))
            append_snapshot = self._commit.commit_appends(append_committable, check_base=check_base)
        self._searcher.restart()  # step 3
        self.state.note_epoch(append_snapshot, changes, properties.get(SOURCE_END_PROPERTY))
        self.bucket_state.note(basis, changes)
        self.published_compactions.tally.add_flushes(changes)
        compact_snapshot = self._publisher.publish(committable, compactions)
        self.coordinator.trigger()
        epoch_snapshots = (truncation, append_snapshot, compact_snapshot)
        snapshots = [*self.published_compactions.take_snapshots(), *filter(None, epoch_snapshots)]
        options, traits = self.table.options, self.table.kind_traits
        if options.compacts_fully_after(epoch):  # step 4
            snapshots += self.compact_fully()
        elif options.waits_for_compaction(merges_by_key=traits.merges_by_key):
            snapshots += self.iter_compact_due(expects_no_flush=False)
        return EpochOutcome(tuple(snapshots), self.published_compactions.take_reports())

    def _check_fits(
        self, basis: BucketBasis, changes: Sequence[BucketChange], latest_snapshot: Snapshot | None
    ) -> None:
        """Check that an epoch can be committed on top of a snapshot."""
        check_no_record_replay(self.table, self._followed_id, latest_snapshot)
        self.bucket_state.check(basis, changes, latest_snapshot)

    def finish_compactions(self) -> None:
        """Publish the begun compactions before the job takes a newer schema, and begin none.

        It ignores other writers' files of the newer schema, which it could not compact.
        """
        self.state.constraints.accept_all_files()
        while self.last_identifier is not None and not self.coordinator.is_idle():
            self.published_compactions.add_snapshot(self._wait_and_publish())

    def commit_idle(self, wait_s: float = 0.0) -> Snapshot | None:
        """Publish the finished compactions if they have gathered, and begin due ones."""
        snapshot = self.publish_results() if self._searcher.advance_gathering(wait_s) else None
        self._searcher.compact_if_due(skips_wait=snapshot is not None)
        return snapshot

    def publish_results(self) -> Snapshot | None:
        """Publish finished compactions under the last epoch's identifier, and begin none."""
        if self.last_identifier is None or not self.coordinator.collect_finished_compactions():
            return None
        # The latest snapshots show whether other writers have overtaken the compactions.
        self.state.follow()
        committable = ManifestCommittable(identifier=self.last_identifier)
        return self._publisher.publish(committable, self.coordinator.collect_finished_compactions())

    def compact_due(self) -> list[Snapshot]:
        """Wait for all due compactions, publish them and return the snapshots."""
        return list(self.iter_compact_due())

    def iter_compact_due(self, *, expects_no_flush: bool = True) -> Iterator[Snapshot]:
        """Compact as `compact_due` does and yield each snapshot; at the end no row waits.

        Args:
            expects_no_flush: whether no epoch is expected; see `CompactCoordinator.trigger`.
        """
        if self.last_identifier is None:
            return
        if expects_no_flush:
            self.state.load_waiting_buckets()
        self.leaves_rows, other_commit_counter = False, OtherCommitCounter(self.state)
        self.coordinator.trigger(expects_no_flush=expects_no_flush)
        while _is_worth_waiting(self.coordinator, may_retry=not self.leaves_rows):
            if snapshot := self._wait_and_publish():
                yield snapshot
            other_commit_counter.note_commits(snapshot)
            self.leaves_rows = other_commit_counter.is_at_limit
            if not self.leaves_rows:
                self.coordinator.trigger(expects_no_flush=expects_no_flush)

    def compact_fully(self, buckets: Collection[BucketId] | None = None) -> list[Snapshot]:
        """Compact buckets fully, with retries, and return the published snapshots.

        Args:
            buckets: the buckets; None: all buckets with files.

        Raises:
            UsageError: the table is write-only.
            ValueError: no epoch was committed, and no commit identifier was given.
        """
        return list(self.iter_compact_fully(buckets))

    def iter_compact_fully(self, buckets: Collection[BucketId] | None = None) -> Iterator[Snapshot]:
        """Compact as `compact_fully` does and yield each snapshot."""
        if self.last_identifier is None:
            raise ValueError("nothing was committed yet: compactions would have no identifier")
        self.state.follow_and_load(buckets)
        due_buckets = self.coordinator.known_buckets() if buckets is None else set(buckets)
        all_buckets = set(due_buckets)
        last_snapshot_id = self.table.snapshots.latest_id() or 0
        while True:
            due_buckets = self.coordinator.trigger_full(FullBounds(due_buckets, last_snapshot_id))
            if not _is_worth_waiting(self.coordinator):
                return
            if snapshot := self._wait_and_publish():
                yield snapshot
            lost_buckets = self.coordinator.dropped_compactions.take_buckets()
            due_buckets |= all_buckets & (lost_buckets | self.coordinator.failures.to_be_retried())

    def compaction_metrics(self) -> CompactionMetrics:
        """Return figures about the compactions. Any thread may call it."""
        return self._publisher.metrics(self.coordinator.metrics())

    def _wait_for_compaction(self) -> None:
        """Wait for compactions while a bucket has too many sorted runs."""
        if self.table.options[WRITE_ONLY]:
            self.published_compactions.tally.add_wait(self._write_only_bound.wait())
            return
        while self.last_identifier is not None and (
            bucket_count := self.coordinator.back_pressure.buckets_over_stop_trigger()
        ):
            self.coordinator.trigger()
            if not _is_worth_waiting(self.coordinator):
                return  # no compaction can be picked, so waiting would not help
            _LOG.info("waiting for compaction: %d buckets are over the stop trigger", bucket_count)
            start_s = self.table.clock.steady_seconds()
            self.published_compactions.add_snapshot(self._wait_and_publish())
            self.published_compactions.tally.add_wait(self.table.clock.steady_seconds() - start_s)

    def _wait_and_publish(self) -> Snapshot | None:
        """Wait until a compaction ends or a retry is due, and publish finished compactions."""
        if not self.coordinator.is_idle():
            self.coordinator.wait_for_any()
            return self.publish_results()
        self.table.clock.sleep(self.coordinator.failures.seconds_until_retry() or 0.0)
        return None


def _is_worth_waiting(coordinator: CompactCoordinator, *, may_retry: bool = True) -> bool:
    """Return whether a wait can help, because a compaction runs or will be retried."""
    will_be_retried = may_retry and coordinator.failures.seconds_until_retry() is not None
    return not coordinator.is_idle() or will_be_retried


def truncate_table(table: FileStoreTable, commit_user: str) -> Snapshot | None:
    """Delete all rows of a table and its key index in one OVERWRITE snapshot.

    Args:
        commit_user: the commit user of the job.

    Returns:
        The snapshot; None if there is nothing to delete.

    Raises:
        CommitError: other writers won every race; nothing has changed.
    """
    latest_snapshot, live_entries = read_latest_snapshot(table, FileStoreScan(table).live)
    # The index may still have keys whose rows compactions have dropped.
    index = table.manifests.read_index_manifest(
        latest_snapshot.index_manifest if latest_snapshot else None
    )
    if not live_entries and not index:
        return None
    commit_history = CommitHistory(table, f"{commit_user}-truncate", latest_snapshot)
    return FileStoreCommit(table, commit_history).truncate(BATCH_COMMIT_IDENTIFIER)
