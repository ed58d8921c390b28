"""The unit of compaction.

Source: Paimon `mergetree/compact/CompactUnit.java`.
"""

from __future__ import annotations

from dataclasses import dataclass

from stream_app.mergetree.sorted_run import LevelSortedRun
from stream_app.model.data_file_meta import DataFileMeta


@dataclass(frozen=True, slots=True)
class CompactUnit:
    """A decision: merge these files into that level. Nothing has happened yet.

    `reason` says in words which rule picked it, for logs and for `inspect`.
    """

    output_level: int
    files: tuple[DataFileMeta, ...]
    reason: str

    @property
    def levels(self) -> tuple[int, ...]:
        """The levels of the sorted runs, newest first."""
        level0 = [0 for file in self.files if file.level == 0]
        return (*level0, *sorted({file.level for file in self.files if file.level > 0}))

    @property
    def total_size(self) -> int:
        """Bytes of the files that the compaction reads."""
        return sum(file.file_size for file in self.files)


def unit_from_runs(output_level: int, runs: tuple[LevelSortedRun, ...], reason: str) -> CompactUnit:
    """A unit of all files of the runs, to be merged into `output_level`."""
    files = tuple(file for run in runs for file in run.run.files)
    return CompactUnit(output_level, files, reason)
