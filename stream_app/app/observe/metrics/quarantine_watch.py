"""Counts the unresolved records of a job's quarantine.

Counting reads all files of the folder. So it counts again only when the folder has changed, and
asks for a rest of twenty times as long as counting took. `watched_job` repeats it.
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
    """A counter of the records of one quarantine.

    Attributes:
        counted: called with table → count after all were counted; '' means the folder itself.
        most: the number at which counting a folder stops.
    """

    quarantine: Quarantine
    clock: Clock
    counted: Callable[[Mapping[str, int]], None]
    most: int = COUNTED_MAX
    _seen: dict[str, frozenset[FileStatus]] = field(init=False, default_factory=dict)
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
            self.counted(dict(self._counts))
        return pause_after(self.clock.steady_seconds() - start_s)

    def _count(self, name: str, folder: Quarantine) -> None:
        statuses = folder.files.list_status(folder.location)
        files = frozenset(status for status in statuses if not status.is_folder)
        if self._seen.get(name) != files:
            self._counts[name] = folder.unresolved_count(self.most)
            self._seen[name] = files
