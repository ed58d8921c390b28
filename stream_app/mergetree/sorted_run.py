"""Defines a sorted run: files in key order whose key ranges do not overlap.

Used by levels, interval_partition and the pick of a compaction. Sees metadata only.

Source: Paimon `mergetree/SortedRun.java`, `mergetree/LevelSortedRun.java`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from stream_app.errors import CorruptFileError
from stream_app.model.files.data_file_meta import DataFileMeta, KeyOrder


@dataclass(frozen=True, slots=True)
class SortedRun:
    """Files in key order, with at most one row of each key."""

    files: tuple[DataFileMeta, ...]

    @property
    def total_size(self) -> int:
        """Bytes of all files."""
        return sum(file.file_size for file in self.files)


@dataclass(frozen=True, slots=True)
class LevelSortedRun:
    """A sorted run and its level."""

    level: int
    run: SortedRun


def sorted_run(files: Iterable[DataFileMeta], key_of: KeyOrder) -> SortedRun:
    """Put files into key order.

    Raises:
        CorruptFileError: two files overlap. Reading such a run would return a key twice, and
            compacting it would lose the newer version, so nothing may continue from it.
    """
    keyed = [(key_of(file.min_key), key_of(file.max_key), file) for file in files]
    keyed.sort(key=lambda item: item[:2])
    for (_, left_max, left), (right_min, _, right) in pairwise(keyed):
        if left_max >= right_min:
            raise CorruptFileError(
                f"files {left.file_name} and {right.file_name} of level {left.level} overlap",
                fix="another writer broke this bucket; roll the table back to an earlier snapshot",
            )
    return SortedRun(tuple(file for _, _, file in keyed))
