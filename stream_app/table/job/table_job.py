"""All that one table of a job has on the driver: state, commits, compactions and upkeep.

A job is a loop over its tables, each with a `TableJob` of its own; none knows of the others.
Nothing here knows Spark or the source.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from stream_app.mergetree.compact.compact_executor import CompactExecutor
from stream_app.model.bucket_change import BucketChange
from stream_app.model.snapshot import Snapshot
from stream_app.table.compact.metrics import CompactionMetrics
from stream_app.table.compact.report import CompactionReport
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.job.checkpoint_checks import check_not_behind, check_same_end
from stream_app.table.job.stream_commit import EpochCommit, StreamTableCommit
from stream_app.table.job.table_maintenance import TableMaintenance


@dataclass(frozen=True, slots=True)
class IdleReport:
    """A commit of compactions between two epochs.

    Attributes:
        sorted_runs: number of sorted runs → number of buckets that have so many; of the buckets
            that this run of the job has touched.
        compactions: that the snapshot has published.
        metrics: of all compactions of this run of the job, after the commit.
    """

    snapshot: Snapshot
    sorted_runs: Mapping[int, int]
    compactions: tuple[CompactionReport, ...]
    metrics: CompactionMetrics


@dataclass(slots=True)
class TableJob:
    """One table of a job. `compaction_metrics` is called by any thread, all else by one at a time.

    Attributes:
        executor: runs the table's compactions.
        stopping: whether the job is asked to end.
        upkeep: of the table; it runs also before the first epoch.

    Raises:
        UsageError: when it is made: as `TableMaintenance`.
    """

    table: FileStoreTable
    executor: CompactExecutor
    stopping: Callable[[], bool] = lambda: False
    upkeep: TableMaintenance = field(init=False)
    _commit: StreamTableCommit | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.upkeep = TableMaintenance(self.table)

    @property
    def is_open(self) -> bool:
        """Whether `open` was called: an epoch has come."""
        return self._commit is not None

    def open(self, commit_user: str, epoch: int) -> None:
        """Get to know the table, before the first epoch of this run.

        Raises:
            CheckpointError: the table and the checkpoint do not fit together.
        """
        assert self._commit is None, "once in a run"
        commit = StreamTableCommit(self.table, commit_user, self.executor, stopping=self.stopping)
        check_not_behind(commit.state, epoch)
        self._commit = commit

    def is_committed(self, epoch: int, source_end: str) -> bool:
        """Whether the epoch is in the table already.

        Args:
            source_end: where the epoch ends, in the source's own words.

        Raises:
            CheckpointError: it is, and ends elsewhere; or the table has gone back since.
        """
        if not self._opened.is_committed(epoch):
            return False
        check_same_end(self._opened.state, epoch, source_end)
        return True

    def begin_epoch(self) -> int:
        """See `StreamTableCommit.begin_epoch`; periods that have ended get their tags first."""
        self.upkeep.before_rows()
        return self._opened.begin_epoch()

    def commit_epoch(
        self, epoch: int, changes: Sequence[BucketChange], properties: Mapping[str, str]
    ) -> EpochCommit:
        """See `StreamTableCommit.commit_epoch`."""
        return self._opened.commit_epoch(epoch, changes, properties=properties)

    def while_idle(self) -> IdleReport | None:
        """Publish finished compactions; where there are none, do upkeep."""
        snapshot = None if self._commit is None else self._commit.commit_idle()
        if snapshot is None:
            self.upkeep.while_idle()
            return None
        self.upkeep.after_commit()
        return self._idle_report(snapshot)

    def drain(self) -> Sequence[IdleReport]:
        """Wait for all compactions that are due and publish them; upkeep, also without an epoch."""
        draining = () if self._commit is None else self._commit.draining()
        reports = [self._idle_report(snapshot) for snapshot in draining]
        self.upkeep.after_commit()
        return reports

    def sorted_runs(self) -> Mapping[int, int]:
        """Number of sorted runs → number of known buckets that have so many, in that order."""
        return dict(
            sorted(Counter(self._opened.coordinator.back_pressure.sorted_runs().values()).items())
        )

    def compaction_metrics(self) -> CompactionMetrics | None:
        """Numbers about the compactions; None before the first epoch. Any thread may ask."""
        return None if self._commit is None else self._commit.compaction_metrics()

    def close(self) -> None:
        """Wait for upkeep that is being done beside the job."""
        self.upkeep.close()

    @property
    def _opened(self) -> StreamTableCommit:
        assert self._commit is not None, "open comes first"
        return self._commit

    def _idle_report(self, snapshot: Snapshot) -> IdleReport:
        return IdleReport(
            snapshot,
            self.sorted_runs(),
            self._opened.take_reports(),
            self._opened.compaction_metrics(),
        )
