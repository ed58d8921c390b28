"""Full compactions that are due by time or size, whatever the universal rules say.

Asked by universal_compaction before its own rules. One sorted run alone is never compacted.

Source: seed document 000, Paimon `mergetree/compact/EarlyFullCompaction.java`.
"""

from __future__ import annotations

from dataclasses import dataclass

from stream_app.mergetree.compact.compact_strategy import PickTime
from stream_app.mergetree.compact.compact_unit import CompactUnit, unit_from_runs
from stream_app.mergetree.sorted_run import LevelSortedRun


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlyFullCompaction:
    """The thresholds; None: the rule is off.

    Attributes:
        interval_ms: a bucket that was last merged whole longer ago than this is merged whole, so
            that its highest level, which is read without merging, is no older.
        total_size: bytes; a bucket that is smaller is merged whole each time: that costs little,
            and its readers find one run.
        incremental_size: bytes; a bucket that holds more below the highest level is merged whole.
    """

    interval_ms: int | None = None
    total_size: int | None = None
    incremental_size: int | None = None

    def pick(
        self, num_levels: int, runs: tuple[LevelSortedRun, ...], time: PickTime
    ) -> CompactUnit | None:
        """Everything into the highest level, or None when no rule says so."""
        max_level = num_levels - 1
        if len(runs) < 2:
            return None
        if self.interval_ms is not None and (
            time.full_age_ms is None or time.full_age_ms > self.interval_ms
        ):
            return unit_from_runs(max_level, runs, "interval")
        if self.total_size is not None:
            total = sum(run.run.total_size for run in runs)
            if total < self.total_size:
                return unit_from_runs(max_level, runs, "small in total")
        if self.incremental_size is not None:
            increment = sum(run.run.total_size for run in runs if run.level != max_level)
            if increment > self.incremental_size:
                return unit_from_runs(max_level, runs, "increment too large")
        return None
