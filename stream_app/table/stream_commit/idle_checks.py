"""Searches between two epochs for compactions that are due or finished, and for waiting rows.

Part of `stream_table_commit`. A check of the known levels costs nothing, so it runs often. A search
for other writers' rows that wait for a compaction reads the table. So it runs seldom while it finds
none.
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass, field

from stream_app.errors import StreamAppError
from stream_app.planning.compact.waiting_rows import Visibility
from stream_app.table.stream_commit.table_state import TableState

_LOG = logging.getLogger(__name__)
CHECK_INTERVAL_S = 10.0
"""Interval of the checks for compactions that are due by time alone; the least one of searches."""
_SEARCH_S = 600.0
"""Longest interval of the searches."""


@dataclass(slots=True)
class IdleChecks:
    """The searches of one committer."""

    state: TableState
    _looked_at: float = field(init=False, default=-math.inf)
    _search_at: float = field(init=False, default=math.inf)
    _search_wait_s: float = field(init=False, default=CHECK_INTERVAL_S)
    _gathers_since: float | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Restart the intervals after an epoch or after a read of the table."""
        self._gathers_since = None
        if self.state.table.visibility is not Visibility.ANY_LEVEL:
            self._search_wait_s = CHECK_INTERVAL_S
            self._search_at = self._now() + CHECK_INTERVAL_S

    def gather(self, gathers_s: float) -> bool:
        """Wait for more finished compactions; return whether to publish them without an epoch.

        Args:
            gathers_s: the seconds for which they wait for other compactions and for an epoch,
                unless readers or writers wait for them.
        """
        coordinator, now = self.state.coordinator, self._now()
        if not coordinator.finished():
            self._gathers_since = None
            return False
        since = now if self._gathers_since is None else self._gathers_since
        self._gathers_since = since
        is_waited_for = (
            self.state.table.visibility is not Visibility.ANY_LEVEL
            or coordinator.back_pressure.over_stop_trigger() > 0
        )
        is_gathered = is_waited_for or now - since >= gathers_s
        if is_gathered:
            self._gathers_since = None
        return is_gathered

    def compact_if_due(self, *, at_once: bool) -> None:
        """Start the compactions that are due, if it is time to check for them.

        Args:
            at_once: whether to check without regard to the interval.
        """
        now, coordinator = self._now(), self.state.coordinator
        if self.state.last_identifier is not None and now >= self._search_at:
            self._search(now)
        is_due = now - self._looked_at >= CHECK_INTERVAL_S
        if at_once or is_due or coordinator.failures.to_be_retried():
            self._looked_at = now
            coordinator.trigger()

    def _search(self, now: float) -> None:
        is_any = False
        try:
            is_any = self.state.load_waiting()
        except (StreamAppError, OSError) as error:  # the next epoch reports the error
            _LOG.debug("no search for rows that wait for a compaction: %s", error)
        self._search_wait_s = (
            CHECK_INTERVAL_S if is_any else min(2 * self._search_wait_s, _SEARCH_S)
        )
        self._search_at = now + self._search_wait_s

    def _now(self) -> float:
        return self.state.table.clock.steady_seconds()
