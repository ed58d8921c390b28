"""Counts the unresolved records of a job's quarantine, for its pages, in a thread of its own.

Pages are loaded often, and a count reads a whole folder. So a page waits only a moment for a new
count, and shows the last one until then.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping

from stream_app.app.config.job_tables.job_tables import JobTables
from stream_app.app.observe.metrics.quarantine_watch import QuarantineWatch
from stream_app.app.web.table_parts import READ_RECORDS_MAX
from stream_app.clock import Clock
from stream_app.fileio.store_registry import can_open
from stream_app.quarantine.quarantine_folder import open_quarantine

_COUNT_WAIT_S = 1.0
"""The seconds for which a page waits for a new count of the quarantine."""


class UnresolvedRecordCounter:
    """A counter of a job's unresolved records, by table. Thread-safe.

    Args:
        folder: the folder of the quarantine, or None without one.
    """

    def __init__(self, job_tables: JobTables, folder: str | None, clock: Clock) -> None:
        self._tables = job_tables
        self._clock = clock
        self._counts: Mapping[str, int] | None = {} if folder is None else None
        self._valid_until_s = float("-inf")
        self._count_lock = threading.Lock()
        self._watch: QuarantineWatch | None = None
        if folder is not None and can_open(folder):
            quarantine = open_quarantine(folder, job_tables.file_system)
            self._watch = QuarantineWatch(
                quarantine, clock, self._set_counts, count_max=READ_RECORDS_MAX
            )

    def by_table(self) -> Mapping[str, int] | None:
        """Return the last count by a table's full name, or None before the first count has ended.

        A count whose time is up is repeated. A slow count continues in its thread.
        """
        is_due = self._clock.steady_seconds() >= self._valid_until_s
        if self._watch is not None and is_due and self._count_lock.acquire(blocking=False):
            thread = threading.Thread(target=self._count, args=(self._watch,), daemon=True)
            thread.start()
            thread.join(_COUNT_WAIT_S)
        return self._counts

    def invalidate(self) -> None:
        """Make the next call count again, after records were replayed."""
        self._valid_until_s = float("-inf")

    def _count(self, watch: QuarantineWatch) -> None:
        try:
            self._valid_until_s = watch.count_records() + self._clock.steady_seconds()
        finally:
            self._count_lock.release()

    def _set_counts(self, counts: Mapping[str, int]) -> None:
        full_name = self._tables.full_name
        self._counts = {full_name(name): count for name, count in counts.items() if count}
