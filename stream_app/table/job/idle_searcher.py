"""Searches between two epochs for compactions that are due or finished, and for waiting rows.

Part of `stream_table_commit`. A check of the known levels costs nothing, so it runs often. A search
for other writers' rows that wait for a compaction reads the table. So it runs rarely while it finds
none.
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass, field

from stream_app.errors import StreamAppError
from stream_app.planning.compact.waiting_rows import Visibility
from stream_app.table.job.table_state import TableState

_LOG = logging.getLogger(__name__)
CHECK_INTERVAL_S = 10.0
"""Interval of the checks for compactions that are due by time alone; the shortest of searches."""
_SEARCH_INTERVAL_MAX_S = 600.0
"""Longest interval of the searches."""


@dataclass(slots=True)
class IdleSearcher:
    """A searcher for due, finished and missing compactions of one committer."""

    state: TableState
    _checked_at_s: float = field(init=False, default=-math.inf)
    _next_search_at_s: float = field(init=False, default=math.inf)
    _search_wait_s: float = field(init=False, default=CHECK_INTERVAL_S)
    _gather_start_s: float | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Restart the intervals after an epoch or after a read of the table."""
        self._gather_start_s = None
        if self.state.table.visibility is not Visibility.ANY_LEVEL:
            self._search_wait_s = CHECK_INTERVAL_S
            self._next_search_at_s = self._now_s() + CHECK_INTERVAL_S

    def advance_gathering(self, gather_wait_s: float) -> bool:
        """Begin, continue or end the gathering of compactions; return whether to publish them now.

        Args:
            gather_wait_s: the seconds for which a finished compaction waits for others and for an
                epoch, unless readers or writers wait for it.
        """
        coordinator = self.state.coordinator
        if not coordinator.collect_finished_compactions():
            self._gather_start_s = None
            return False
        now_s = self._now_s()
        if self._gather_start_s is None:
            self._gather_start_s = now_s
        is_waited_for = (
            self.state.table.visibility is not Visibility.ANY_LEVEL
            or coordinator.back_pressure.buckets_over_stop_trigger() > 0
        )
        is_gathered = is_waited_for or now_s - self._gather_start_s >= gather_wait_s
        if is_gathered:
            self._gather_start_s = None
        return is_gathered

    def compact_if_due(self, *, skips_wait: bool) -> None:
        """Begin the compactions that are due, if it is time to check for them.

        Args:
            skips_wait: whether to check without regard to the interval.
        """
        coordinator = self.state.coordinator
        now_s = self._now_s()
        if self.state.last_identifier is not None and now_s >= self._next_search_at_s:
            self._search(now_s)
        is_due = now_s - self._checked_at_s >= CHECK_INTERVAL_S
        if skips_wait or is_due or coordinator.failures.to_be_retried():
            self._checked_at_s = now_s
            coordinator.trigger()

    def _search(self, now_s: float) -> None:
        has_loaded = False
        try:
            has_loaded = self.state.load_waiting_buckets()
        except (StreamAppError, OSError) as error:  # the next epoch reports the error
            _LOG.debug("no search for rows that wait for a compaction: %s", error)
        self._search_wait_s = (
            CHECK_INTERVAL_S if has_loaded else min(2 * self._search_wait_s, _SEARCH_INTERVAL_MAX_S)
        )
        self._next_search_at_s = now_s + self._search_wait_s

    def _now_s(self) -> float:
        return self.state.table.clock.steady_seconds()
