"""Records database snapshots: after an epoch that ends between transactions, all tables at once.

`spark.ingest.epoch_committer` calls it when the tables have an epoch, under its lock. A snapshot
that cannot be written fails no epoch: the next one is recorded again.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field

from stream_app.clock import Clock
from stream_app.errors import StreamAppError
from stream_app.model.database.database_snapshot import DatabaseSnapshot, TableAt
from stream_app.spark.ingest.epoch_tables import COMMIT_THREADS, EpochTables
from stream_app.spark.ingest.job_state import JobWarning
from stream_app.spark.ingest.table_feed import TableFeed
from stream_app.spark.stream.border_log import BorderLog
from stream_app.table.api.database_snapshots import DatabaseSnapshots
from stream_app.table.api.paimon_database import is_kept
from stream_app.table.map_in_threads import map_in_threads

_LOG = logging.getLogger("stream_app")
_PRUNES_AFTER_S = 60.0


@dataclass(slots=True, kw_only=True)
class DatabaseRecord:
    """Records the snapshots of one job, and deletes those that have expired.

    Attributes:
        tables: the tables of the job.
    """

    tables: EpochTables
    borders: BorderLog
    snapshots: DatabaseSnapshots
    clock: Clock
    _pruned_at: float = field(init=False, default=float("-inf"))

    def __call__(self, epoch: int) -> None:
        """Record the tables as they are, if the epoch ends between transactions.

        Args:
            epoch: the newest one of the tables.
        """
        border = self.borders.border(epoch)
        if border is None:
            return
        if border.doubt is not None and border.doubt.fix:
            what = f"no database snapshot is recorded: {border.doubt.what}"
            self.tables.state_file.warn([JobWarning(what=what, fix=border.doubt.fix)])
        if not border.is_whole:
            return
        try:
            tables, left_out = self._tables()
            self.snapshots.add(
                DatabaseSnapshot(
                    epoch=epoch,
                    job=self.tables.epoch_log.query_id(),
                    time_ms=self.clock.now_ms(),
                    sources=border.progress.positions,
                    tables=tables,
                    left_out=left_out,
                )
            )
            self._prune()
        except (StreamAppError, OSError) as error:
            _LOG.warning("the database snapshot of epoch %d is not recorded: %s", epoch, error)

    def _tables(self) -> tuple[Mapping[str, TableAt], Mapping[str, str]]:
        """The newest snapshot of each table, and why other tables have none."""
        held = self.tables.held.by_name
        left_out = {name: f"it was held back: {table.reason}" for name, table in held.items()}
        ready = self.tables.ready()
        for feed in ready:
            table = feed.job.table
            if table.skips_level_0 or table.kind.postpones:
                left_out[feed.name] = "its readers get rows only after a compaction"
        chosen = [feed for feed in ready if feed.name not in left_out]
        newest = map_in_threads(COMMIT_THREADS, _newest, chosen)
        tables = {feed.name: at for feed, at in zip(chosen, newest, strict=True) if at is not None}
        return tables, left_out

    def _prune(self) -> None:
        now = self.clock.steady_seconds()
        if now - self._pruned_at < _PRUNES_AFTER_S:
            return
        self._pruned_at = now
        user, earliest = self.tables.epoch_log.query_id(), {}
        for feed in self.tables.feeds:
            earliest[feed.name] = feed.job.table.snapshots.earliest_id()
        for snapshot in self.snapshots.all():
            if snapshot.job == user and not is_kept(snapshot, earliest):
                self.snapshots.delete(snapshot)


def _newest(feed: TableFeed) -> TableAt | None:
    """The newest snapshot of a table; None: it has none so far."""
    latest = feed.job.table.snapshots.latest()
    return None if latest is None else TableAt(latest.snapshot_id, latest.time_millis)
