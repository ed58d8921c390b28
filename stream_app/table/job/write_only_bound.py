"""Limits how far a write-only job runs ahead of the job that compacts its table.

`stream_table_commit` asks before each epoch. Without a bound, level 0 would grow unnoticed, and
each read would merge more files.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from dataclasses import dataclass, field

from stream_app.errors import CompactionError, StoppedError
from stream_app.model.options.compaction_options import WRITE_ONLY_COMPACTOR_TIMEOUT
from stream_app.table.job.table_state import TableState

_LOG = logging.getLogger(__name__)
POLL_S = 1.0
"""Pause between two looks for commits of the job that compacts."""
WARNING_EVERY_S = 60.0


@dataclass(slots=True)
class WriteOnlyBound:
    """The bound of ``write-only.stop-trigger`` and ``write-only.compactor-timeout``.

    Attributes:
        state: the job's state of the table.
        is_stopping: returns whether the job is to end.
    """

    state: TableState
    is_stopping: Callable[[], bool] = lambda: False
    _wait_start_s: float | None = field(init=False, default=None)
    _warned_at_s: float = field(init=False, default=-math.inf)
    _has_warned_of_wait: bool = field(init=False, default=False)

    def wait(self) -> float:
        """Wait while a bucket has too many sorted runs, and return the seconds waited.

        Raises:
            CompactionError: a bucket still has too many sorted runs, and no job compacts the table.
            StoppedError: the job is to end.
        """
        clock = self.state.table.clock
        start_s = clock.steady_seconds()
        while not self.follow():
            if self.is_stopping():
                raise StoppedError("the job is stopping")
            clock.sleep(POLL_S)
        return clock.steady_seconds() - start_s

    def follow(self) -> bool:
        """Follow other writers if a bucket has too many sorted runs, and warn of many.

        Returns:
            Whether the table keeps the bound, so that an epoch need not wait.

        Raises:
            CompactionError: no job has compacted the table for the timeout.
        """
        options = self.state.table.options
        back_pressure = self.state.coordinator.back_pressure
        sorted_runs_max = options.write_only_stop_trigger
        if back_pressure.sorted_run_count_max() > sorted_runs_max:
            self.state.follow()
        sorted_run_count = back_pressure.sorted_run_count_max()
        if sorted_run_count > sorted_runs_max // 2:
            self._warn(sorted_run_count, sorted_runs_max)
        if sorted_run_count <= sorted_runs_max:
            self._wait_start_s = None
            return True
        now_s = self.state.table.clock.steady_seconds()
        timeout_s = options[WRITE_ONLY_COMPACTOR_TIMEOUT] / 1000
        if self._wait_start_s is None:
            self._wait_start_s = now_s
        if now_s - max(self._wait_start_s, self.state.compaction_seen_at_s) > timeout_s:
            raise CompactionError(
                f"a bucket has {sorted_run_count} sorted runs, a write-only job stops at "
                f"{sorted_runs_max}, and no job has compacted the table for {timeout_s:.0f} s",
                where=self.state.table.location,
                fix="run `stream-app compact TABLE --follow` beside the job, or raise "
                "'write-only.stop-trigger'",
            )
        return False

    def _warn(self, sorted_run_count: int, sorted_runs_max: int) -> None:
        now_s = self.state.table.clock.steady_seconds()
        is_waiting = sorted_run_count > sorted_runs_max
        if now_s - self._warned_at_s >= WARNING_EVERY_S or (
            is_waiting and not self._has_warned_of_wait
        ):
            self._warned_at_s = now_s
            self._has_warned_of_wait = is_waiting
            _LOG.warning(
                "a bucket has %d sorted runs; this job is write-only and %s: does another job "
                "compact the table?",
                sorted_run_count,
                "waits" if is_waiting else f"waits beyond {sorted_runs_max}",
            )
