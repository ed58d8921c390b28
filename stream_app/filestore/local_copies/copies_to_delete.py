"""Decides which local copies of files are deleted.

`lookup_copies` calls it, and has the copies. It uses only names, sizes and times: no
files, no clock.

Source: Paimon `mergetree/LookupFile.java`, whose cache has the same two bounds.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


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


def copies_to_delete(
    copies: Iterable[KeptCopy], *, now_ms: int, bytes_max: int | None
) -> list[KeptCopy]:
    """Return the copies to delete: those unused for the retention, and the least recently used.

    Args:
        bytes_max: the maximum bytes of the remaining copies; None: no limit.
    """
    due_copies: list[KeptCopy] = []
    total_bytes = 0
    for copy in sorted(copies, key=lambda copy: (-copy.good_until_ms, copy.name)):
        total_bytes += copy.size
        if copy.good_until_ms <= now_ms or (bytes_max is not None and total_bytes > bytes_max):
            due_copies.append(copy)
    return due_copies
