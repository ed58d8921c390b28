"""The range of versions that may expire when some of their files cannot be read.

An expiring version need not be read: the files that it alone names become orphans. The earliest
retained one must be, because it names the metadata that the others share with it. So where that one
cannot be read, the last readable one before it stays as well.

Used by `expire_snapshots` and `expire_changelogs`. Source: none; Paimon's expiry stops there.
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from stream_app.errors import CorruptFileError
from stream_app.model.snapshot import Snapshot
from stream_app.table.map_in_threads import each

_LOG = logging.getLogger(__name__)
Read = Callable[[int], Snapshot]
"""Reads a version by its number; raises `FileNotFoundError` and `CorruptFileError`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadableRange:
    """Versions that expire.

    Attributes:
        versions: those of them that can be read, by number.
        unreadable: the numbers of the others.
        kept: the first that stays; None: none does, or none goes.
        kept_id: its number, also when none goes.
        held_by: the version that cannot be read and keeps others; None: there is no such one.
    """

    versions: tuple[Snapshot, ...] = ()
    unreadable: tuple[int, ...] = ()
    kept: Snapshot | None = None
    kept_id: int | None = None
    held_by: int | None = None

    @property
    def numbers(self) -> tuple[int, ...]:
        """The numbers of all that expire, ascending."""
        return tuple(sorted([*(one.snapshot_id for one in self.versions), *self.unreadable]))


def readable_range(ids: Sequence[int], end: int, read: Read, threads: int) -> ReadableRange:
    """The versions below a number that expire.

    Args:
        ids: of all versions, ascending.

    Raises:
        FileNotFoundError: the earliest retained version has expired meanwhile.
    """
    numbers = [number for number in ids if number < end]
    kept_id = next((number for number in ids if number >= end), None)
    if not numbers:
        return ReadableRange(kept_id=kept_id)
    snapshots = each(threads, lambda number: _found(read, number), numbers)
    kept: Snapshot | CorruptFileError | None = None
    if kept_id is not None:
        try:
            kept = read(kept_id)
        except CorruptFileError as error:
            kept = error
    held_by = None
    while isinstance(kept, CorruptFileError):
        held_by = kept_id
        if not numbers:
            return ReadableRange(kept_id=kept_id, held_by=held_by)
        kept_id, kept = numbers.pop(), snapshots.pop()
    return ReadableRange(
        versions=tuple(one for one in snapshots if isinstance(one, Snapshot)),
        unreadable=tuple(
            number
            for number, one in zip(numbers, snapshots, strict=True)
            if isinstance(one, CorruptFileError)
        ),
        kept=kept,
        kept_id=kept_id,
        held_by=held_by,
    )


def time_of(ids: Sequence[int], number: int, read: Read) -> int | None:
    """When a version was committed, in milliseconds; None when it is gone.

    Of one that cannot be read the time of the next that can: it was committed no later.
    """
    place = bisect_left(ids, number)
    if place == len(ids) or ids[place] != number:
        return None
    for later in ids[place:]:
        snapshot = _found(read, later)
        if not isinstance(snapshot, CorruptFileError):
            return None if snapshot is None else snapshot.time_millis
    return None


def tell_what_stays(numbers: Sequence[int], what: str) -> None:
    """Log that the files of unreadable expired versions are orphans."""
    for number in numbers:
        _LOG.warning(
            "the file of %s %d could not be read, and has expired: its own files are orphans for "
            "stream-app remove-orphan-files",
            what,
            number,
        )


def _found(read: Read, number: int) -> Snapshot | CorruptFileError | None:
    """None: it is gone; another expiry may run too."""
    try:
        return read(number)
    except FileNotFoundError:
        return None
    except CorruptFileError as error:
        return error
