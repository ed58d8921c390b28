"""Detects proofs that other processes record in a job's tables, which no commit of the job reports.

`check --source --record` publishes a snapshot. A table without changes has no later commit of the
job. So `job_observers` looks at the latest snapshots again and again, with pauses that are twenty
times as long as a look.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from stream_app.app.observe.metrics.job_metrics import JobMetrics
from stream_app.app.observe.metrics.repeated_checks import pause_after
from stream_app.clock import Clock
from stream_app.errors import StreamAppError
from stream_app.table.file_store_table import FileStoreTable

_LOG = logging.getLogger(__name__)


@dataclass(slots=True)
class ProofWatch:
    """A watch of each table's newest proof, whose time it exports."""

    clock: Clock
    _tables: dict[str, tuple[JobMetrics, FileStoreTable]] = field(init=False, default_factory=dict)

    def add(self, metrics: JobMetrics, table: FileStoreTable) -> None:
        """Watch a table from now on. Any thread may call it."""
        self._tables[table.location] = metrics, table

    def check_tables(self) -> float:
        """Check all tables, and return the seconds until the next check."""
        start_s = self.clock.steady_seconds()
        for location, (metrics, table) in list(self._tables.items()):
            try:
                latest_snapshot = table.snapshots.latest()
            except (OSError, StreamAppError) as error:
                _LOG.debug("no look at the proof of %s: %s", location, error)
            else:
                metrics.note_proof(latest_snapshot)
        return pause_after(self.clock.steady_seconds() - start_s)
