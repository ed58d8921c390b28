"""Whether a snapshot that was just made has come too late, by the numbers that are there alone.

A number is taken by creating a file that must not exist yet. But expiry frees numbers. A committer
may be delayed between reading the newest snapshot and creating the next one. If others commit and
expire meanwhile, it may reuse a number whose turn is over. Paimon's committers do not look for
that.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum, auto


class Standing(Enum):
    """Of a snapshot in its table."""

    IN_LINE = auto()
    """It follows the one that it was made on top of."""
    LATE = auto()
    """It stands apart: its number had been given, or the table had gone back meanwhile."""
    ASK_NEXT = auto()
    """Its base is gone, and the next snapshot exists, whose base decides."""
    UNKNOWN = auto()
    """It is gone itself, with whatever would tell."""


def standing(number: int, present: Collection[int]) -> Standing:
    """How a snapshot that we have created stands now.

    Expiry deletes from the oldest on and keeps one, and a rollback deletes the newest first. So
    while the snapshot before exists, ours did not exist earlier.

    Args:
        number: ours; it was made on top of the one before, or is the first one.
        present: the numbers of all snapshots that are there, looked up after ours was created.
    """
    if number - 1 in present:
        return Standing.IN_LINE
    if any(other < number for other in present):
        return Standing.LATE
    if number not in present:
        return Standing.UNKNOWN
    if number + 1 in present:
        return Standing.ASK_NEXT
    return Standing.IN_LINE if max(present) == number else Standing.LATE
