"""What an expiry and a rollback announce before they delete anything.

Tagging, reading and other upkeep read the announcements, so that nothing depends on a disappearing
version. Bytes on disk: `filestore.versions.announcements`; consequences:
`planning.upkeep.announcements`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiryAnnouncement:
    """An expiry is deleting snapshots; they may be half deleted.

    Attributes:
        begin, end: the numbers from `begin` up to, and without, `end`.
        end_list: the delta list of the snapshot `end`, which stays: no other snapshot has it, also
            when its number is given again after a rollback.
        tagged: those of the numbers whose files stay, because they have tags.
    """

    begin: int
    end: int
    end_list: str
    tagged: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackAnnouncement:
    """A rollback is deleting everything behind one version.

    Attributes:
        target: the number of that version.
        going: the delta lists of the expiring snapshots, by number; "" for an unreadable one.
    """

    target: int
    going: Mapping[int, str]
