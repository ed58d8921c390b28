"""Decides how much of a file is read to look up keys in it.

`table.lookup.lookup_reader` calls it. It uses only numbers and sizes: no files, no clock.

Source: Paimon `mergetree/LookupLevels.java`, which copies each file.
"""

from __future__ import annotations

import enum

_ROWS_PER_KEY_MIN = 8
"""Rows of a file for each key: with fewer, reading all rows is cheaper than searching for keys."""
_COPY_BYTES_MIN, _COPY_ROWS_MIN = 4 << 20, 100_000
"""The bytes or rows from which on a file is copied: smaller files are read and merged quickly."""


class LookupSource(enum.Enum):
    """The source of the rows that a lookup reads in a file."""

    WHOLE = "all rows, in the order of keys"
    PARTS = "row groups and pages that may have one of the keys"
    COPY = "the rows of the keys, in a copy on local disk"


def source_to_read(
    *, key_count: int, file_row_count: int, file_size: int, has_copies: bool
) -> LookupSource:
    """Return the source in which to look up keys of a file.

    Args:
        has_copies: whether the table may have local copies.
    """
    if key_count * _ROWS_PER_KEY_MIN > file_row_count:
        return LookupSource.WHOLE
    is_large = file_size >= _COPY_BYTES_MIN or file_row_count >= _COPY_ROWS_MIN
    return LookupSource.COPY if has_copies and is_large else LookupSource.PARTS
