"""Hours in which compaction may be more eager, because nobody else wants the machine.

Source: seed document 000, Paimon `mergetree/compact/OffPeakHours.java`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class OffPeakHours:
    """From `start` (inclusive) to `end` (exclusive), hours of the day; over midnight if it is less.

    Attributes:
        ratio: percent that are added to ``compaction.size-ratio`` in these hours.
    """

    start: int
    end: int
    ratio: int

    def ratio_at(self, hour: int) -> int:
        """What is added at this hour of the day. The same start and end mean: never."""
        if self.start <= self.end:
            is_off_peak = self.start <= hour < self.end
        else:
            is_off_peak = hour >= self.start or hour < self.end
        return self.ratio if is_off_peak else 0
