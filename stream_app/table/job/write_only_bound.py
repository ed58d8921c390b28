"""How far a write-only job may run ahead of whoever compacts its table.

Asked by stream_commit before each epoch. Without a bound level 0 would grow for as long as nobody
looks: every read merges all of it.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from dataclasses import dataclass

from stream_app.errors import CompactionError, StoppedError
from stream_app.model.options.compaction_options import WRITE_ONLY_COMPACTOR_TIMEOUT
from stream_app.table.file_store_table import FileStoreTable

_LOG = logging.getLogger(__name__)
POLL_S = 1.0
WARNING_EVERY_S = 60.0


@dataclass(slots=True)
class WriteOnlyBound:
    """``write-only.stop-trigger`` and ``write-only.compactor-timeout``.

    Attributes:
        stopping: whether the job is asked to end.
    """

    table: FileStoreTable
    stopping: Callable[[], bool] = lambda: False
    _compaction_seen: float = -math.inf
    _warned_at: float = -math.inf
    _warned_of_waiting: bool = False

    def note_compaction(self) -> None:
        """Somebody has committed a compaction."""
        self._compaction_seen = self.table.clock.steady_seconds()

    def wait(self, sorted_runs: Callable[[], int], look: Callable[[], object]) -> float:
        """Return when the bucket with the most sorted runs has not too many; seconds waited.

        Args:
            sorted_runs: their number.
            look: takes in what others have committed.

        Raises:
            CompactionError: it has, and nobody compacts the table.
            StoppedError: the job is asked to end.
        """
        options, clock = self.table.options, self.table.clock
        limit = options.write_only_stop_trigger
        patience = options[WRITE_ONLY_COMPACTOR_TIMEOUT] / 1000
        began = clock.steady_seconds()
        while (runs := sorted_runs()) > limit // 2:
            self._warn(runs, limit)
            if runs <= limit:
                break
            if self.stopping():
                raise StoppedError("the job is stopping")
            if clock.steady_seconds() - max(began, self._compaction_seen) > patience:
                raise CompactionError(
                    f"a bucket has {runs} sorted runs, a write-only job stops at {limit}, and "
                    f"nobody has compacted the table for {patience:.0f} s",
                    where=self.table.location,
                    fix="run `stream-app compact TABLE --follow` beside the job, or raise "
                    "'write-only.stop-trigger'",
                )
            clock.sleep(POLL_S)
            look()
        return clock.steady_seconds() - began

    def _warn(self, runs: int, limit: int) -> None:
        now = self.table.clock.steady_seconds()
        waits = runs > limit
        if now - self._warned_at >= WARNING_EVERY_S or waits > self._warned_of_waiting:
            self._warned_at, self._warned_of_waiting = now, waits
            _LOG.warning(
                "a bucket has %d sorted runs; this job is write-only and %s: does another job "
                "compact the table?",
                runs,
                "waits" if waits else f"waits beyond {limit}",
            )
