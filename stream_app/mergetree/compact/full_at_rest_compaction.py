"""Merges a bucket whole when no flush is expected.

For tables whose changelog is written by full compactions: what lies below the highest level has not
been told yet. While flushes come, full compactions are those of ``full-compaction.delta-commits``.

Source: Paimon `flink/sink/GlobalFullCompactionSinkWrite.java`, which compacts whole at the end of
the input too.
"""

from __future__ import annotations

from dataclasses import dataclass

from stream_app.mergetree.compact.compact_strategy import PickTime
from stream_app.mergetree.compact.compact_unit import CompactUnit
from stream_app.mergetree.compact.universal_compaction import (
    Runs,
    UniversalCompaction,
    pick_full,
)


@dataclass(frozen=True, slots=True)
class FullAtRestCompaction:
    """The universal rules while flushes come."""

    universal: UniversalCompaction

    def pick(self, num_levels: int, runs: Runs, time: PickTime) -> CompactUnit | None:
        """Everything into the highest level at rest, else the universal rules' unit."""
        if time.rests and (unit := pick_full(num_levels, runs)) is not None:
            return unit
        return self.universal.pick(num_levels, runs, time)
