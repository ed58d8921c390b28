"""How far a write-only job may run ahead of whoever compacts its table.

Asked by stream_commit before each epoch. Without a bound level 0 would grow for as long as nobody
looks: every read merges all of it.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from dataclasses import dataclass

from stream_app.errors import CompactionError
from stream_app.table.file_store_table import FileStoreTable

_LOG = logging.getLogger(__name__)
POLL_S = 1.0
WARNING_EVERY_S = 60.0


@dataclass(slots=True)
class WriteOnlyBound:
    """``write-only.stop-trigger`` and ``write-only.compactor-timeout``."""

    table: FileStoreTable
    _compaction_seen: float = -math.inf
    _warned_at: float = -math.inf

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
        """
        options, clock = self.table.options, self.table.clock
        limit = options.write_only_stop_trigger
        patience = options.integer("write-only.compactor-timeout") / 1000
        began = clock.steady_seconds()
        while (runs := sorted_runs()) > limit // 2:
            self._warn(runs, limit)
            if runs <= limit:
                break
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
        if now - self._warned_at >= WARNING_EVERY_S:
            self._warned_at = now
            _LOG.warning(
                "a bucket has %d sorted runs; this job is write-only and %s: does another job "
                "compact the table?",
                runs,
                f"waits beyond {limit}" if runs <= limit else "waits",
            )
