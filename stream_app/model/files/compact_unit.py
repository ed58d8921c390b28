"""Defines a unit: a decided compaction."""

from __future__ import annotations

from dataclasses import dataclass

from stream_app.model.files.data_file_meta import DataFileMeta


@dataclass(frozen=True, slots=True)
class CompactUnit:
    """The decision to merge files into a level, before its execution.

    Attributes:
        reason: names the rule, for logs and for `inspect`.
        is_forced: whether the unit moves level 0 up although no universal rule asks for it.
    """

    output_level: int
    files: tuple[DataFileMeta, ...]
    reason: str
    is_forced: bool = False

    @property
    def levels(self) -> tuple[int, ...]:
        """The levels of the sorted runs, newest first."""
        level0 = [0 for file in self.files if file.level == 0]
        return (*level0, *sorted({file.level for file in self.files if file.level > 0}))

    @property
    def total_size(self) -> int:
        """The bytes of the files that the compaction reads."""
        return sum(file.file_size for file in self.files)
