"""Who may still tag a version while others expire: what follows from the announcements there are.

Two who do not know of each other, and neither waits. Each first says what he does and then looks
what the other has said: the expiry announces which versions go, and then reads the tags; whoever
tags gives the tag, and then reads the announcements. So at least one of them sees the other: the
expiry leaves the version alone, or the tag is taken back.

An announcement holds as long as the snapshot before which it stops is the one that it means. When
that is gone, or another one has its number, then what was going is gone, or the table was rolled
back behind it: numbers that come again are other versions.

Source: none; Paimon has no means against this race.
"""

from __future__ import annotations

from collections.abc import Iterable

from stream_app.model.announcements import ExpiryAnnouncement


def holds(announcement: ExpiryAnnouncement, end_list: str | None) -> bool:
    """Whether an announcement is about the table as it is.

    Args:
        end_list: the delta list of the snapshot that has the number `end`; None: there is none.
    """
    return end_list == announcement.end_list


def is_over(announcement: ExpiryAnnouncement, end_list: str | None, earliest: int | None) -> bool:
    """Whether nobody needs an announcement any more.

    Args:
        end_list: as `holds`.
        earliest: the number of the first snapshot; None: there is none.
    """
    is_done = earliest is None or earliest >= announcement.end
    return is_done or not holds(announcement, end_list)


def is_going(number: int, holding: Iterable[ExpiryAnnouncement]) -> bool:
    """Whether a version may be half gone, by the announcements that hold.

    No tag can keep it then. What had a tag before stays whole, whatever other names it gets.
    """
    return any(each.begin <= number < each.end and number not in each.tagged for each in holding)
