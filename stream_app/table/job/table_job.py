"""One table of a job on the driver: state, commits, compactions and upkeep.

A job is a loop over its tables. Each has its own `TableJob`, which knows no other table, and
depends neither on Spark nor on the source.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from stream_app.errors import UnsupportedTableError
from stream_app.mergetree.compact.compact_executor import CompactExecutor
from stream_app.model.files.bucket_change import BucketChange
from stream_app.model.job_epoch import Offsets
from stream_app.model.options.bucket_options import BUCKET
from stream_app.model.schema.table_only_options import with_configured
from stream_app.model.snapshot import Snapshot
from stream_app.planning.commit.schema_conflicts import adoption_conflict
from stream_app.planning.schema.schema_changes import schema_differences
from stream_app.table.commit.commit_callbacks import CallbackProblem, CommitCallbacks
from stream_app.table.compact.auto_policy import PolicyBounds
from stream_app.table.compact.compaction_metrics import CompactionMetrics, UnfinishedCompaction
from stream_app.table.compact.compaction_report import CompactionReport
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.job.checkpoint_checks import (
    check_not_behind,
    check_not_read_before,
    check_same_end,
)
from stream_app.table.job.compaction_publisher import PublishedCompactions
from stream_app.table.job.stream_table_commit import StreamTableCommit
from stream_app.table.job.table_maintenance import TableMaintenance
from stream_app.table.job.waiting_rows_check import check_no_row_waits
from stream_app.table.versions.bucket_basis import NO_BASIS, BucketBasis

_LOG = logging.getLogger(__name__)
GATHER_S = 10.0
"""The seconds for which a finished compaction waits for an epoch, or for others of its table."""


@dataclass(frozen=True, slots=True)
class IdleReport:
    """A commit of compactions between two epochs.

    Attributes:
        sorted_run_histogram: number of sorted runs → number of buckets that have it, among those
            to which this run has written.
        compactions: the reports of the published compactions.
        metrics: the figures of all compactions of this run, after the commit.
    """

    snapshot: Snapshot
    sorted_run_histogram: Mapping[int, int]
    compactions: tuple[CompactionReport, ...]
    metrics: CompactionMetrics


def with_latest_schema(table: FileStoreTable) -> FileStoreTable:
    """Return the table with its latest schema; the same object if its schema is the latest.

    Raises:
        UnsupportedTableError: a job of the older schema cannot continue with it.
    """
    schema, schemas = table.schema, table.schemas
    # One request suffices, because schema ids have no gaps.
    if not table.file_io.exists(schemas.path(schema.schema_id + 1)):
        return table
    latest_schema = schemas.latest()
    assert latest_schema is not None, "a newer schema than the job's exists"
    stored_schema = schemas.schema(schema.schema_id)
    problem = adoption_conflict(stored_schema, latest_schema, table.configured_options)
    if problem is not None:
        raise UnsupportedTableError(
            f"the job cannot continue with the table's schema {latest_schema.schema_id}: {problem}",
            where=schemas.path(latest_schema.schema_id),
            fix="take the change back, or start the job again with a configuration that fits it",
        )
    for difference in schema_differences(stored_schema, latest_schema):
        _LOG.info("schema %d of %s: %s", latest_schema.schema_id, table.location, difference)
    options = with_configured(latest_schema.options, table.configured_options)
    if schema.kind_traits.looks_up_partition:  # the number of key shares is the number of buckets
        options[BUCKET.key] = schema.options[BUCKET.key]
    return replace(table, schema=replace(latest_schema, options=options))


@dataclass(slots=True)
class TableJob:
    """One table of a job.

    Any thread may call the methods that say so: each reads `_stream_commit` only once, because
    another thread may drop it. Only one thread at a time may call the others.

    Attributes:
        make_executor: makes the executor of the table's compactions.
        is_stopping: returns whether the job is to end.
        accepts_repeats: whether to store records again that the table has from another job.
        policy_bounds: the bounds for `CompactCoordinator.adapt`; None if the table's options are
            the rules.
        identifier: the commit identifier of a job without epochs; None: each epoch's number.
        upkeep: the table's upkeep, which also runs before the first epoch.

    Raises:
        UsageError: as the constructor of `TableMaintenance`.
    """

    table: FileStoreTable
    make_executor: Callable[[FileStoreTable], CompactExecutor]
    is_stopping: Callable[[], bool] = lambda: False
    accepts_repeats: bool = False
    identifier: int | None = None
    policy_bounds: PolicyBounds | None = None
    upkeep: TableMaintenance = field(init=False)
    _stream_commit: StreamTableCommit | None = field(init=False, default=None)
    _idle_callbacks: CommitCallbacks = field(init=False)

    def __post_init__(self) -> None:
        self.upkeep = TableMaintenance(self.table)
        self._idle_callbacks = CommitCallbacks(self.table)

    @property
    def is_open(self) -> bool:
        """Whether `open` was called, because an epoch has arrived."""
        return self._stream_commit is not None

    def open(self, commit_user: str) -> None:
        """Read the table's state, before this run's first epoch and after a failure."""
        assert self._stream_commit is None, "open is called once, unless the state was forgotten"
        self._stream_commit = self._new_stream_commit(commit_user)
        self._stream_commit.callbacks.catch_up()

    def check_epochs(self, epoch: int, newest_epoch: int) -> None:
        """Check that the table and the checkpoint fit together.

        Args:
            epoch: the job's next epoch.
            newest_epoch: the newest epoch that the table must have; -1 if it need not have any.

        Raises:
            CheckpointError: they do not fit together.
        """
        check_not_behind(self.stream_commit.state, epoch, newest_epoch)

    def check_not_read_before(self, start: Offsets) -> None:
        """Check, before the job's first epoch in the table, that the table lacks its records.

        Args:
            start: the offsets at which the job begins.

        Raises:
            CheckpointError: the table has them, and would count them twice.
        """
        if self.last_epoch < 0:
            check_not_read_before(self.table, start, accepts_repeats=self.accepts_repeats)

    @property
    def last_epoch(self) -> int:
        """The job's newest epoch in the table; -1 without one."""
        last_identifier = self.stream_commit.last_identifier
        return -1 if last_identifier is None else last_identifier

    @property
    def last_source_end(self) -> str | None:
        """The end of the last epoch in the source's form; None if the table does not record it."""
        return self.stream_commit.state.last_source_end

    @property
    def next_sequence_number(self) -> int:
        """The lowest sequence number that new rows may take in any bucket."""
        return self.stream_commit.state.constraints.next_sequence_number

    @property
    def latest_snapshot(self) -> Snapshot | None:
        """The latest snapshot that the job knows; None for a table without snapshots."""
        return self.stream_commit.state.commit_history.latest_snapshot

    def seems_to_lack(self, epoch: int) -> bool:
        """Return whether the table is open and seems to lack the epoch. Any thread may call it."""
        stream_commit = self._stream_commit
        last_identifier = -1 if stream_commit is None else stream_commit.last_identifier
        return stream_commit is not None and (last_identifier is None or last_identifier < epoch)

    @property
    def bucket_basis(self) -> BucketBasis:
        """The newest index or bucket counts by which rows get their buckets; any thread may ask."""
        stream_commit = self._stream_commit
        return NO_BASIS if stream_commit is None else stream_commit.bucket_state.basis

    def follow_and_check(self, basis: BucketBasis, changes: Sequence[BucketChange]) -> bool:
        """Follow other writers, and return whether written rows fit the latest snapshot.

        A table without an index needs no follow.
        """
        bucket_state = self.stream_commit.bucket_state
        if not bucket_state.has_index_to_read:
            return True
        return bucket_state.is_current(basis, changes, self.stream_commit.state.follow())

    def forget(self) -> None:
        """Forget the table's state after a failure; `open` reads it again."""
        self._stream_commit = None

    def is_committed(self, epoch: int, source_end: str) -> bool:
        """Return whether the table already has the epoch.

        Args:
            source_end: the end of the epoch in the source's form.

        Raises:
            CheckpointError: the table's epoch has another end, or the table was rolled back since.
        """
        if not self.stream_commit.state.is_committed(epoch):
            return False
        check_same_end(self.stream_commit.state, epoch, source_end)
        return True

    def prepare_epoch(self) -> int:
        """Take the latest schema, tag ended periods, and call `StreamTableCommit.follow_and_wait`.

        Returns:
            The smallest sequence number that the rows may take.

        Raises:
            UnsupportedTableError: the job cannot write by the latest schema.
        """
        self.adopt()
        self.upkeep.before_rows()
        return self.stream_commit.follow_and_wait()

    def adopt(self) -> bool:
        """Take the table's latest schema, and return whether it has changed.

        Raises:
            UnsupportedTableError: the job cannot write by the latest schema.
        """
        table = with_latest_schema(self.table)
        if table is self.table:
            return False
        self.upkeep.adopt(table)
        self.table, previous_commit = table, self._stream_commit
        if previous_commit is not None:
            previous_commit.finish_compactions()
            self._stream_commit = self._new_stream_commit(
                previous_commit.state.commit_user, previous_commit.published_compactions
            )
        return True

    def while_idle(self) -> IdleReport | None:
        """Publish finished compactions between epochs. If there are none, run due upkeep."""
        try:
            snapshot = (
                None if self._stream_commit is None else self._stream_commit.commit_idle(GATHER_S)
            )
        except UnsupportedTableError:
            if not self.adopt():  # another writer's files have the newer schema
                raise
            snapshot = None
        if snapshot is None:
            self.upkeep.while_idle()
            self._callbacks.while_idle()
            return None
        self.upkeep.after_commit()
        return self.idle_report(snapshot)

    def publish_results(self) -> IdleReport | None:
        """Publish finished compactions before the job stops, and begin none."""
        snapshot = None if self._stream_commit is None else self._stream_commit.publish_results()
        return None if snapshot is None else self.idle_report(snapshot)

    def compact_due(self) -> Sequence[IdleReport]:
        """Wait for all due compactions and publish them, then run due upkeep."""
        self.adopt()
        snapshots = () if self._stream_commit is None else self._stream_commit.iter_compact_due()
        reports = [self.idle_report(snapshot) for snapshot in snapshots]
        self.upkeep.after_commit()
        self._callbacks.catch_up()
        return reports

    def check_no_row_waits(self) -> None:
        """Check that no row waits for a compaction. The caller first calls `compact_due`."""
        if self._stream_commit is not None:
            check_no_row_waits(self._stream_commit)

    def sorted_run_histogram(self) -> Mapping[int, int]:
        """Return number of sorted runs → number of known buckets that have it, ascending."""
        counts = self.stream_commit.coordinator.back_pressure.sorted_run_counts().values()
        return dict(sorted(Counter(counts).items()))

    def compaction_metrics(self) -> CompactionMetrics | None:
        """Return figures about compactions; None before an epoch. Any thread may call it."""
        stream_commit = self._stream_commit
        return None if stream_commit is None else stream_commit.compaction_metrics()

    def callback_problems(self) -> tuple[CallbackProblem, ...]:
        """Return the external views that lag behind the latest snapshot. Any thread may call it."""
        return self._callbacks.problems

    @property
    def _callbacks(self) -> CommitCallbacks:
        stream_commit = self._stream_commit
        return self._idle_callbacks if stream_commit is None else stream_commit.callbacks

    def unfinished_compactions(self) -> Sequence[UnfinishedCompaction]:
        """Return compactions that run or wait for a thread. Any thread may call it."""
        stream_commit = self._stream_commit
        return () if stream_commit is None else stream_commit.coordinator.unfinished_compactions()

    @property
    def stream_commit(self) -> StreamTableCommit:
        """The commit of epochs and compactions, for the job's current schema."""
        assert self._stream_commit is not None, "open comes first"
        return self._stream_commit

    def _new_stream_commit(
        self, commit_user: str, published_compactions: PublishedCompactions | None = None
    ) -> StreamTableCommit:
        stream_commit = StreamTableCommit(
            self.table,
            commit_user,
            self.make_executor(self.table),
            self.identifier,
            is_stopping=self.is_stopping,
            published_compactions=published_compactions,
        )
        if self.policy_bounds is not None:
            stream_commit.coordinator.adapt(self.policy_bounds)
        return stream_commit

    def idle_report(self, snapshot: Snapshot) -> IdleReport:
        """Return the report about a commit of compactions since the last report."""
        stream_commit = self.stream_commit
        return IdleReport(
            snapshot,
            self.sorted_run_histogram(),
            stream_commit.published_compactions.take_reports(),
            stream_commit.compaction_metrics(),
        )
