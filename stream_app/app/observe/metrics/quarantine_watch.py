"""Counts the unresolved records of a job's quarantine.

A count reads all files of a folder. So the watch counts again only after the folder has changed,
with pauses that are twenty times as long as a count. `job_observers` and the pages repeat it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from stream_app.app.observe.metrics.repeated_checks import pause_after
from stream_app.clock import Clock
from stream_app.errors import StreamAppError
from stream_app.fileio.file_io import FileStatus
from stream_app.quarantine.quarantine_folder import COUNTED_MAX, Quarantine

_LOG = logging.getLogger(__name__)


@dataclass(slots=True)
class QuarantineWatch:
    """A watch of one quarantine, which counts its unresolved records.

    Attributes:
        on_counts: receives table → count, after each round; '' means the folder itself.
        count_max: the number at which the count of a folder stops.
    """

    quarantine: Quarantine
    clock: Clock
    on_counts: Callable[[Mapping[str, int]], None]
    count_max: int = COUNTED_MAX
    _counted_files: dict[str, frozenset[FileStatus]] = field(init=False, default_factory=dict)
    _counts: dict[str, int] = field(init=False, default_factory=dict)

    def count_records(self) -> float:
        """Count the records of changed folders, and return the seconds until the next count."""
        start_s = self.clock.steady_seconds()
        try:
            self._count("", self.quarantine)
            for name in self.quarantine.tables():
                self._count(name, self.quarantine.of_table(name))
        except (OSError, StreamAppError) as error:
            _LOG.warning("the quarantine cannot be counted: %s", error)
        else:
            self.on_counts(dict(self._counts))
        return pause_after(self.clock.steady_seconds() - start_s)

    def _count(self, name: str, quarantine: Quarantine) -> None:
        statuses = quarantine.file_io.list_status(quarantine.location)
        files = frozenset(status for status in statuses if not status.is_folder)
        if self._counted_files.get(name) != files:
            self._counts[name] = quarantine.unresolved_count(self.count_max)
            self._counted_files[name] = files
