"""What an expiry says before it deletes anything, so that nobody tags what is going.

Bytes on disk: `filestore.versions.announcements`; what follows from it:
`planning.upkeep.announced_expiry`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiryAnnouncement:
    """Snapshots are going, and may be half gone.

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
