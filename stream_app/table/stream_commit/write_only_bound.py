"""Limits how far a write-only job runs ahead of the job that compacts its table.

`stream_table_commit` asks it before each epoch. Without a bound, level 0 would grow unnoticed, and
each read would merge more files.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from dataclasses import dataclass, field

from stream_app.errors import CompactionError, StoppedError
from stream_app.model.options.compaction_options import WRITE_ONLY_COMPACTOR_TIMEOUT
from stream_app.table.stream_commit.table_state import TableState

_LOG = logging.getLogger(__name__)
POLL_S = 1.0
WARNING_EVERY_S = 60.0


@dataclass(slots=True)
class WriteOnlyBound:
    """The bound of ``write-only.stop-trigger`` and ``write-only.compactor-timeout``.

    Attributes:
        state: the job's state of the table.
        stopping: returns whether the job is to end.
    """

    state: TableState
    stopping: Callable[[], bool] = lambda: False
    _waits_since: float | None = field(init=False, default=None)
    _warned_at: float = field(init=False, default=-math.inf)
    _warned_of_waiting: bool = field(init=False, default=False)

    def wait(self) -> float:
        """Wait while a bucket has too many sorted runs, and return the seconds waited.

        Raises:
            CompactionError: a bucket still has too many sorted runs, and no job compacts the table.
            StoppedError: the job is to end.
        """
        clock = self.state.table.clock
        start_s = clock.steady_seconds()
        while self.must_wait():
            if self.stopping():
                raise StoppedError("the job is stopping")
            clock.sleep(POLL_S)
        return clock.steady_seconds() - start_s

    def must_wait(self) -> bool:
        """Return whether a bucket has too many sorted runs, even after other writers' newest
        commits.

        Raises:
            CompactionError: no job has compacted the table for the timeout.
        """
        options, back_pressure = self.state.table.options, self.state.coordinator.back_pressure
        limit = options.write_only_stop_trigger
        if back_pressure.most_sorted_runs() > limit:
            self.state.follow()
        runs = back_pressure.most_sorted_runs()
        if runs > limit // 2:
            self._warn(runs, limit)
        if runs <= limit:
            self._waits_since = None
            return False
        now, patience = (
            self.state.table.clock.steady_seconds(),
            options[WRITE_ONLY_COMPACTOR_TIMEOUT],
        )
        if self._waits_since is None:
            self._waits_since = now
        if now - max(self._waits_since, self.state.compaction_seen) > patience / 1000:
            raise CompactionError(
                f"a bucket has {runs} sorted runs, a write-only job stops at {limit}, and "
                f"no job has compacted the table for {patience / 1000:.0f} s",
                where=self.state.table.location,
                fix="run `stream-app compact TABLE --follow` beside the job, or raise "
                "'write-only.stop-trigger'",
            )
        return True

    def _warn(self, runs: int, limit: int) -> None:
        now = self.state.table.clock.steady_seconds()
        waits = runs > limit
        if now - self._warned_at >= WARNING_EVERY_S or waits > self._warned_of_waiting:
            self._warned_at, self._warned_of_waiting = now, waits
            _LOG.warning(
                "a bucket has %d sorted runs; this job is write-only and %s: does another job "
                "compact the table?",
                runs,
                "waits" if waits else f"waits beyond {limit}",
            )
