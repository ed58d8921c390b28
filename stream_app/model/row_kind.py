"""Lists the changes that a row can make to its key.

Source: Paimon `types/RowKind.java`. The numbers are the bytes of `_VALUE_KIND` in data files.
"""

from __future__ import annotations

import enum


class RowKind(enum.IntEnum):
    """The kind of a change. Data files store the values, which must never change."""

    INSERT = 0
    UPDATE_BEFORE = 1
    UPDATE_AFTER = 2
    DELETE = 3

    @property
    def short(self) -> str:
        """``+I``, ``-U``, ``+U`` or ``-D``."""
        return ("+I", "-U", "+U", "-D")[self.value]

    @property
    def is_add(self) -> bool:
        """Whether the key has this row after the change."""
        return self in (RowKind.INSERT, RowKind.UPDATE_AFTER)
