"""What the announcements of expiries and rollbacks forbid others to do.

Two actors run independently and never block. Each first announces its intent and then reads the
other's, so at least one of them sees the conflict. An expiry announces the versions that it
deletes, then reads the tags; a tagger creates the tag, then reads the announcements.

An expiry's announcement holds while the snapshot `end` is the one it names. Without that snapshot
the expiry is done, or the table was rolled back: numbers that come again are other versions.

A rollback deletes the newest snapshot first, so its announcement holds while the newest snapshot is
one of the deleted ones. Otherwise it is done, or it died and another committer continued.

Source: none; Paimon has no means against these races.
"""

from __future__ import annotations

from collections.abc import Iterable

from stream_app.model.announcements import ExpiryAnnouncement, RollbackAnnouncement


def expiry_holds(announcement: ExpiryAnnouncement, end_list: str | None) -> bool:
    """Whether an expiry's announcement is about the table as it is.

    Args:
        end_list: the delta list of the snapshot that has the number `end`; None: there is none.
    """
    return end_list == announcement.end_list


def expiry_is_over(
    announcement: ExpiryAnnouncement, end_list: str | None, earliest: int | None
) -> bool:
    """Whether an expiry's announcement has become obsolete.

    Args:
        end_list: as `expiry_holds`.
        earliest: the number of the first snapshot; None: there is none.
    """
    is_done = earliest is None or earliest >= announcement.end
    return is_done or not expiry_holds(announcement, end_list)


def is_expiring(number: int, holding: Iterable[ExpiryAnnouncement]) -> bool:
    """Whether a version may be half deleted, so that no new tag can keep it.

    A version that was tagged before the announcement stays whole, whatever other tags it gets.
    """
    return any(
        announcement.begin <= number < announcement.end and number not in announcement.tagged
        for announcement in holding
    )


def rollback_holds(
    announcement: RollbackAnnouncement, newest: int | None, newest_list: str | None
) -> bool:
    """Whether a rollback is running, or has died and no commit followed.

    Args:
        newest: the number of the newest snapshot; None: there is none.
        newest_list: its delta list; None: it cannot be read.
    """
    if newest is None or newest not in announcement.going:
        return False
    return newest_list in (None, announcement.going[newest])


def rollback_has_begun(announcement: RollbackAnnouncement, newest: int | None) -> bool:
    """Whether a rollback that holds has deleted a snapshot; `newest` as `rollback_holds`."""
    return newest is None or newest < max(announcement.going, default=0)


def expiry_in_the_way(
    target: int,
    expiries: Iterable[ExpiryAnnouncement],
    rollbacks: Iterable[RollbackAnnouncement],
    newest: int | None,
) -> ExpiryAnnouncement | None:
    """The expiry that forbids a rollback, because it may delete files that the target needs.

    That is one that ends behind the target. An expiry that came after another rollback had begun
    has seen that rollback, and has deleted nothing.

    Args:
        expiries, rollbacks: those that hold.
        newest: as `rollback_holds`.
    """
    begun = [rollback.target for rollback in rollbacks if rollback_has_begun(rollback, newest)]
    for expiry in expiries:
        if expiry.end > target and not any(expiry.end > behind for behind in begun):
            return expiry
    return None
