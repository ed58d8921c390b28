"""Who may do something beside a rollback: what follows from what it has announced.

As with expiries (`planning.upkeep.announced_expiry`), each side first says what it does and then
looks what the other has said. The newest snapshots go first; so an announcement holds as long as
the newest one is among those that go. Behind another one the rollback is done, or it has died and
somebody has gone on with what it had left.

Source: none; Paimon has no means against these races.
"""

from __future__ import annotations

from collections.abc import Iterable

from stream_app.model.announcements import ExpiryAnnouncement, RollbackAnnouncement


def holds(announcement: RollbackAnnouncement, newest: int | None, newest_list: str | None) -> bool:
    """Whether a rollback goes on, or has died and nothing has happened since.

    Args:
        newest: the number of the newest snapshot; None: there is none.
        newest_list: its delta list; None: it cannot be read.
    """
    if newest is None or newest not in announcement.going:
        return False
    return newest_list in (None, announcement.going[newest])


def has_begun(announcement: RollbackAnnouncement, newest: int | None) -> bool:
    """Whether a rollback that goes on, or has died, has taken a snapshot away.

    Args:
        newest: the number of the newest snapshot.
    """
    return newest is None or newest < max(announcement.going, default=0)


def in_the_way(
    target: int,
    expiries: Iterable[ExpiryAnnouncement],
    rollbacks: Iterable[RollbackAnnouncement],
    newest: int | None,
) -> ExpiryAnnouncement | None:
    """The expiry that forbids a rollback, because it may have deleted what must be whole then.

    One that ends behind the target may have taken files of it, or of what comes before, and when
    its end is gone, what it has announced means nothing any more. But an expiry that came while
    another rollback had begun has seen that, and has deleted nothing.

    Args:
        expiries, rollbacks: those that hold.
        newest: as `has_begun`.
    """
    begun = [each.target for each in rollbacks if has_begun(each, newest)]
    for expiry in expiries:
        if expiry.end > target and not any(expiry.end > behind for behind in begun):
            return expiry
    return None
