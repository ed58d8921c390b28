"""Which snapshots, and which long-lived changelogs, expire: a range of numbers.

Called by `table.upkeep.expire_snapshots` and `table.upkeep.expire_changelogs`. Numbers and times
in, numbers out; `unused_files` decides which files they take along.

Source: Paimon `table/ExpireSnapshotsImpl.java`, `table/ExpireChangelogImpl.java`,
`options/ExpireConfig.java`. In one point the rule is that of Paimon after 1.4: ``time-retained``
counts from the commit of the next snapshot, not of its own. So a reader of the newest version has
that time, even if the table was idle before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

TimeOf = Callable[[int], int | None]
"""When a version was committed, in milliseconds; None when it is gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """What is kept of a chain of versions.

    Attributes:
        num_max: more go, however young they are.
        num_min: snapshots to keep, however old.
        time_ms: milliseconds for which a version is kept.
    """

    num_max: int
    num_min: int
    time_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireRange:
    """The numbers from `begin` up to, and without, `end`; nothing when they are equal.

    Attributes:
        kept_by: why `end` is not later, for people.
    """

    begin: int
    end: int
    kept_by: str

    @property
    def is_empty(self) -> bool:
        """Whether nothing expires."""
        return self.end <= self.begin


def snapshot_range(
    ids: Sequence[int],
    retention: Retention,
    *,
    older_than_ms: int,
    limit: int,
    time_of: TimeOf,
) -> ExpireRange:
    """The snapshots that expire, unless a consumer needs them (`but_for_consumer`).

    Args:
        ids: of all snapshots, ascending; at least one.
        older_than_ms: the time from which on snapshots are kept.
        limit: most that may expire.
        time_of: is asked only for what lies between the two numbers of the retention, and ends.
    """
    begin, latest = ids[0], ids[-1]
    end, kept_by = _bounded(begin, latest, retention, limit=limit, protected_from=None)
    # Beyond `num_max` age does not count; the newest snapshot is followed by none.
    for number in range(max(latest - retention.num_max + 1, begin), end):
        followed = time_of(number + 1)
        if followed is not None and older_than_ms <= followed:
            end, kept_by = number, "the time that is retained"
            break
    return ExpireRange(begin=begin, end=max(begin, end), kept_by=kept_by)


def but_for_consumer(going: ExpireRange, protected_from: int | None) -> ExpireRange:
    """What expires when a consumer has yet to read the snapshots from a number on; None: none."""
    if protected_from is None or protected_from >= going.end:
        return going
    return replace(going, end=max(going.begin, protected_from), kept_by="a consumer")


def changelog_range(
    ids: Sequence[int],
    retention: Retention,
    *,
    latest_snapshot: int,
    older_than_ms: int,
    limit: int,
    protected_from: int | None,
    time_of: TimeOf,
) -> ExpireRange:
    """The long-lived changelogs that expire; as Paimon's, the newest of them stays.

    Args:
        ids: of all long-lived changelogs, ascending; at least one.
        latest_snapshot: number of the table's newest snapshot, from which numbers are counted.
    """
    begin = ids[0]
    end, kept_by = _bounded(
        begin, latest_snapshot, retention, limit=limit, protected_from=protected_from
    )
    if end > ids[-1]:
        end, kept_by = ids[-1], "the newest long-lived changelog stays"
    for number in range(max(latest_snapshot - retention.num_max + 1, begin), end):
        made = time_of(number)
        if made is not None and older_than_ms <= made:
            end, kept_by = number, "the time that is retained"
            break
    return ExpireRange(begin=begin, end=max(begin, end), kept_by=kept_by)


def _bounded(
    begin: int, latest: int, retention: Retention, *, limit: int, protected_from: int | None
) -> tuple[int, str]:
    """The end by everything but time, and what set it."""
    bounds = [(latest - retention.num_min + 1, "the number that is retained")]
    if protected_from is not None:
        bounds.append((protected_from, "a consumer"))
    bounds.append((begin + limit, "the limit of one expiry"))
    return min(bounds, key=lambda bound: bound[0])
