"""Merges level 0 upwards whenever the universal rules leave it alone.

For tables whose readers or changelog look at the levels above 0 only. Every flush is lifted
(radical), or every few flushes (gentle: less is rewritten, what is new is seen later). A bucket at
rest is lifted in either case: no further flush may come.

Source: Paimon `mergetree/compact/ForceUpLevel0Compaction.java`.
"""

from __future__ import annotations

from dataclasses import dataclass

from stream_app.mergetree.compact.compact_strategy import PickTime
from stream_app.mergetree.compact.compact_unit import CompactUnit
from stream_app.mergetree.compact.universal_compaction import (
    Runs,
    UniversalCompaction,
    create_unit,
    extend_by_ratio,
)

LEVEL0_UPWARDS = "level 0 upwards"
"""Reason of a unit that no universal rule has asked for."""


@dataclass(frozen=True, slots=True)
class ForceUpLevel0Compaction:
    """The universal rules first.

    Attributes:
        max_interval: flushes without a pick after which level 0 is lifted; None: after each one.
    """

    universal: UniversalCompaction
    max_interval: int | None = None

    def pick(self, num_levels: int, runs: Runs, time: PickTime) -> CompactUnit | None:
        """The universal rules' unit, else all of level 0 and what its size takes in."""
        unit = self.universal.pick(num_levels, runs, time)
        if unit is not None:
            return unit
        level0 = sum(1 for run in runs if run.level == 0)
        early = self.max_interval is not None and time.idle_flushes < self.max_interval
        if not level0 or (early and not time.rests):
            return None
        count = extend_by_ratio(runs, level0, self.universal.ratio_at(time))
        return create_unit(runs, num_levels - 1, count, LEVEL0_UPWARDS)
