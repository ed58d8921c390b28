"""Records a database snapshot after each epoch that ends between transactions.

A database snapshot names one snapshot of each table. `ingest_job` passes the recorder to the
committer, which calls it under its lock once the tables have an epoch. An error here never fails
the epoch, and the next epoch records a snapshot again.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field

from stream_app.checkpoint.border_log import BorderLog
from stream_app.checkpoint.job_state import JobWarning
from stream_app.clock import Clock
from stream_app.epochs.rounds.epoch_tables import COMMIT_THREAD_COUNT, EpochTables
from stream_app.epochs.rounds.table_feed import TableFeed
from stream_app.errors import StreamAppError
from stream_app.model.database_snapshot import DatabaseSnapshot, SourcePosition, TableSnapshot
from stream_app.table.api.database_snapshots import DatabaseSnapshots
from stream_app.table.api.paimon_database import is_kept
from stream_app.table.map_in_threads import map_in_threads

_LOG = logging.getLogger(__name__)
_PRUNE_INTERVAL_S = 60.0


@dataclass(slots=True, kw_only=True)
class DatabaseSnapshotRecorder:
    """The recorder of one job's database snapshots, which also deletes expired ones.

    Attributes:
        epoch_tables: the tables of the job.
    """

    epoch_tables: EpochTables
    borders: BorderLog
    snapshots: DatabaseSnapshots
    clock: Clock
    _pruned_at_s: float = field(init=False, default=float("-inf"))
    _prune_thread: threading.Thread | None = field(init=False, default=None)
    _known_snapshots: dict[str, DatabaseSnapshot] = field(init=False, default_factory=dict)

    def __call__(self, epoch: int) -> None:
        """Record the tables' latest snapshots if the epoch ends between transactions.

        Args:
            epoch: the newest epoch that the tables have.
        """
        border = self.borders.border(epoch)
        if border is None:
            return
        if border.doubt is not None and border.doubt.fix:
            problem = f"no database snapshot is recorded: {border.doubt.reason}"
            self.epoch_tables.state_file.write_warnings(
                [JobWarning(problem=problem, fix=border.doubt.fix)]
            )
        if not border.is_whole:
            return
        try:
            self._record(epoch, border.progress.positions)
        except (StreamAppError, OSError) as error:
            _LOG.warning("the database snapshot of epoch %d is not recorded: %s", epoch, error)
        now_s = self.clock.steady_seconds()
        is_due = now_s - self._pruned_at_s >= _PRUNE_INTERVAL_S
        if is_due and (self._prune_thread is None or not self._prune_thread.is_alive()):
            self._pruned_at_s = now_s
            # If the job ends during the deletion, its next run deletes the rest.
            self._prune_thread = threading.Thread(target=self._prune, name="prune", daemon=True)
            self._prune_thread.start()

    def _record(self, epoch: int, sources: Mapping[str, SourcePosition]) -> None:
        tables, left_out = self._tables()
        self.snapshots.add(
            DatabaseSnapshot(
                epoch=epoch,
                job=self.epoch_tables.epoch_log.query_id(),
                time_ms=self.clock.now_ms(),
                sources=sources,
                tables=tables,
                left_out=left_out,
            )
        )

    def _tables(self) -> tuple[Mapping[str, TableSnapshot], Mapping[str, str]]:
        """Return each table's latest known snapshot, and why other tables have none."""
        held_tables = self.epoch_tables.held_by_name
        left_out = {
            name: f"it was held back: {table.reason}" for name, table in held_tables.items()
        }
        tables = {}
        for feed in self.epoch_tables.ready():
            table = feed.table
            latest_snapshot = feed.table_job.latest_snapshot
            if table.skips_level0 or table.kind_traits.postpones:
                left_out[feed.name] = "its readers get rows only after a compaction"
            elif latest_snapshot is not None:
                tables[feed.name] = TableSnapshot(
                    latest_snapshot.snapshot_id, latest_snapshot.time_ms
                )
        return tables, left_out

    def _prune(self) -> None:
        """Delete the job's expired database snapshots, in a thread that does not hold the lock."""
        try:
            names = self.snapshots.names(self.epoch_tables.epoch_log.query_id())
            unread_names = [name for name in names if name not in self._known_snapshots]
            read_snapshots = zip(
                unread_names,
                map_in_threads(COMMIT_THREAD_COUNT, self.snapshots.read, unread_names),
                strict=True,
            )
            snapshots = {
                **self._known_snapshots,
                **{name: snapshot for name, snapshot in read_snapshots if snapshot is not None},
            }
            table_names = {table for snapshot in snapshots.values() for table in snapshot.tables}
            feeds = [feed for feed in list(self.epoch_tables.feeds) if feed.name in table_names]
            ids = map_in_threads(COMMIT_THREAD_COUNT, _earliest_id, feeds)
            earliest_ids = {
                feed.name: earliest_id for feed, earliest_id in zip(feeds, ids, strict=True)
            }
            expired_names = [
                name for name, snapshot in snapshots.items() if not is_kept(snapshot, earliest_ids)
            ]
            map_in_threads(COMMIT_THREAD_COUNT, self.snapshots.delete, expired_names)
            for name in expired_names:
                del snapshots[name]
            self._known_snapshots = snapshots
        except (StreamAppError, OSError) as error:
            _LOG.warning("expired database snapshots are not deleted: %s", error)


def _earliest_id(feed: TableFeed) -> int | None:
    return feed.table.snapshots.earliest_id()
