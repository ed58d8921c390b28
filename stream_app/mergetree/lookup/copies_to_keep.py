"""Decides how keys are looked up in a file, and which local copies of files are kept.

`filestore.local_copies` calls it, and has the copies. It uses only names, sizes and times: no
files, no clock.

Source: Paimon `mergetree/LookupFile.java`, whose cache has the same two bounds.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass

_ROWS_PER_KEY_MIN = 8
"""Rows of a file for each key: with fewer, reading all rows is cheaper than searching for keys."""
_COPY_BYTES_MIN, _COPY_ROWS_MIN = 4 << 20, 100_000
"""A file with less of both is read quickly, and compactions soon merge it into another one."""


class LookupSource(enum.Enum):
    """The source of the rows that a lookup reads in a file."""

    WHOLE = "all rows, in the order of keys"
    PARTS = "row groups and pages that may have one of the keys"
    COPY = "the rows of the keys, in a copy on local disk"


@dataclass(frozen=True, slots=True)
class KeptCopy:
    """A copy of a data file.

    Attributes:
        size: the size in bytes.
        good_until_ms: the end of its retention if it stays unused.
    """

    name: str
    size: int
    good_until_ms: int


def source_to_read(*, keys: int, file_rows: int, file_size: int, has_copies: bool) -> LookupSource:
    """Return the source in which to look up keys of a file.

    Args:
        has_copies: whether the table may have local copies.
    """
    if keys * _ROWS_PER_KEY_MIN > file_rows:
        return LookupSource.WHOLE
    is_large = file_size >= _COPY_BYTES_MIN or file_rows >= _COPY_ROWS_MIN
    return LookupSource.COPY if has_copies and is_large else LookupSource.PARTS


def copies_to_delete(
    copies: Iterable[KeptCopy], *, now_ms: int, bytes_max: int | None
) -> list[KeptCopy]:
    """Return the copies to delete: those unused for the retention, and the least recently used.

    Args:
        bytes_max: the maximum bytes of the remaining copies; None: no limit.
    """
    deleted: list[KeptCopy] = []
    total_bytes = 0
    for copy in sorted(copies, key=lambda copy: (-copy.good_until_ms, copy.name)):
        total_bytes += copy.size
        if copy.good_until_ms <= now_ms or (bytes_max is not None and total_bytes > bytes_max):
            deleted.append(copy)
    return deleted
