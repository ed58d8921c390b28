"""The record of a comparison in which a table was equal to its source, in the compared columns.

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
        checksum: the checksum of both sides, as text.
        time_ms: the time at which the comparison ended.
        left_out_columns: the columns that were not compared, each with the reason.
    """

    source: str
    checksum: str
    time_ms: int
    left_out_columns: tuple[str, ...] = ()

    @property
    def position(self) -> str:
        """The source's position: a database's log position, or a table's snapshot."""
        _, separator, log_position = self.source.rpartition(", at ")
        return log_position if separator else self.source.rpartition(", ")[2]

    @property
    def left_out_text(self) -> str | None:
        """The columns that were not compared, as text; None if all were."""
        return ", ".join(self.left_out_columns) or None

    def text(self, now_ms: int) -> str:
        """Return the proof as text."""
        age = max(0, now_ms - self.time_ms) // 1000
        columns = f"; without {self.left_out_text}" if self.left_out_columns else ""
        return f"equal to {self.source}, {age:,} s ago: {self.checksum}{columns}"
