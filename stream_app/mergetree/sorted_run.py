"""Files in key order whose key ranges do not overlap.

Used by levels, interval_partition and the pick of a compaction. Sees metadata only.

Source: Paimon `mergetree/SortedRun.java`, `mergetree/LevelSortedRun.java`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from stream_app.errors import CorruptFileError
from stream_app.model.data_file_meta import DataFileMeta

KeyOrder = Callable[[bytes], Any]
"""Turns a serialized key into something that compares as the table orders its keys."""


@dataclass(frozen=True, slots=True)
class SortedRun:
    """Files in key order; at most one row of a key in all of them."""

    files: tuple[DataFileMeta, ...]

    @property
    def total_size(self) -> int:
        """Bytes of all files."""
        return sum(file.file_size for file in self.files)


@dataclass(frozen=True, slots=True)
class LevelSortedRun:
    """A sorted run and the level at which it lives."""

    level: int
    run: SortedRun


def sorted_run(files: Iterable[DataFileMeta], key_of: KeyOrder) -> SortedRun:
    """Put files into key order.

    Raises:
        CorruptFileError: two files overlap. Reading such a run would return a key twice, and
            compacting it would lose the newer version, so nothing may go on from it.
    """
    ordered = tuple(sorted(files, key=lambda file: key_of(file.min_key)))
    for left, right in pairwise(ordered):
        if key_of(left.max_key) >= key_of(right.min_key):
            raise CorruptFileError(
                f"files {left.file_name} and {right.file_name} of level {left.level} overlap",
                fix="another writer broke this bucket; roll the table back to an earlier snapshot",
            )
    return SortedRun(ordered)
