"""Describes the cost of simulated compactions, and formats its row for the pages' tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The cost of a simulated day.

    Attributes:
        write_amplification: bytes that flushes and compactions wrote ÷ bytes that flushes wrote.
        space_max, space_mean: bytes of live files ÷ their bytes if they were fully merged.
        runs_max, runs_mean: the number of sorted runs that a reader of a new epoch merges.
        delayed_count: the number of flushes that the stop trigger delayed.
        waited_s_max: the longest of these delays.
        files: the number of live files at the end.
        reasons: the rule that picked compactions → their number.
    """

    flushes: int
    write_amplification: float
    space_max: float
    space_mean: float
    runs_max: int
    runs_mean: float
    compactions: int
    delayed_count: int
    waited_s_max: float
    files: int
    reasons: Mapping[str, int]

    def markdown(self, load: str, options: str) -> str:
        """Return the row of a table with the head `HEAD`."""
        cells = [
            load,
            options,
            f"{self.write_amplification:.1f}",
            f"{self.space_mean:.2f}",
            f"{self.space_max:.2f}",
            f"{self.runs_mean:.1f}",
            self.runs_max,
            f"{self.compactions:,}",
            f"{self.delayed_count:,}",
            f"{self.waited_s_max:.0f}",
        ]
        return f"| {' | '.join(str(cell) for cell in cells)} |"


HEAD = (
    "| load | options | writes × | space × | at most | sorted runs | at most | compactions "
    "| waits | longest, s |",
    f"| --- | --- |{' ---: |' * 8}",
)
