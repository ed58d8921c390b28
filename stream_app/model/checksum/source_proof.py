"""The record of a comparison in which a table was equal to its source.

`check --source … --record` writes it into a snapshot, and later snapshots copy it. So each copy of
the table shows when it was last proven equal.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceProof:
    """A comparison without a difference.

    Attributes:
        source: the source and its position.
        rows: the checksum of both sides, as text.
        time_millis: the time at which the comparison ended.
    """

    source: str
    rows: str
    time_millis: int

    @property
    def position(self) -> str:
        """The source's position: a database's log position, or a table's snapshot."""
        _, sign, of_log = self.source.rpartition(", at ")
        return of_log if sign else self.source.rpartition(", ")[2]

    def text(self, now_ms: int) -> str:
        """Return the proof as text."""
        age = max(0, now_ms - self.time_millis) // 1000
        return f"equal to {self.source}, {age:,} s ago: {self.rows}"
