"""From which version on a table's changes can be replayed, so that they must lead to its rows.

A replay begins with the rows of a snapshot or tag, or with the table before its first snapshot. It
needs the changes of all later snapshots. `table.check.changelog_check` does it.

Source: none; `follow_up` decides which files are the changes of a snapshot.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

EMPTY_TABLE = 0
"""Number of the version before the first snapshot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionChanges:
    """A snapshot or long-lived changelog, whose changes can be read.

    Attributes:
        untold: why no changes tell what it did; empty: they do.
        producer: the ``changelog-producer`` of its schema.
    """

    snapshot_id: int
    untold: str
    producer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayRange:
    """The changes after `base`, up to `last`."""

    base: int
    last: int

    def __str__(self) -> str:
        first = self.base + 1
        what = f"snapshots {first} to {self.last}" if first < self.last else f"snapshot {first}"
        on = "" if self.base == EMPTY_TABLE else f", on top of the rows of snapshot {self.base}"
        return what + on


def replay_range(changes: Sequence[VersionChanges], bases: Collection[int]) -> ReplayRange | str:
    """As much as can be replayed up to the newest snapshot; or why nothing can, in words.

    Args:
        changes: by number, ascending; the last one is of the newest snapshot.
        bases: numbers of snapshots and tags, whose rows can be read.
    """
    if not changes:
        return "there are no snapshots"
    last = changes[-1]
    if last.untold:
        return f"snapshot {last.snapshot_id} {last.untold}"
    first = last
    for before in reversed(changes[:-1]):
        is_next = before.snapshot_id + 1 == first.snapshot_id
        if not is_next or before.untold or before.producer != last.producer:
            break
        first = before
    floor = first.snapshot_id - 1
    starts = [base for base in (EMPTY_TABLE, *sorted(bases)) if floor <= base < last.snapshot_id]
    if not starts:
        return "there is no earlier version whose rows it could begin with"
    return ReplayRange(base=starts[0], last=last.snapshot_id)
