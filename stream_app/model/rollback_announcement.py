"""What a rollback says before it takes anything away, so that nobody keeps or follows what goes.

Bytes on disk: `filestore.versions.announcements`; what follows from it:
`planning.upkeep.announced_rollback`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackAnnouncement:
    """All behind one version is going.

    Attributes:
        target: the number of that version.
        going: the delta lists of the snapshots that go, by number; "" where nobody can read it.
    """

    target: int
    going: Mapping[int, str]
