"""The changes that a snapshot has for followers of the table.

With a changelog they are the changelog files, for every kind of snapshot. ``input`` has them in
APPEND snapshots, the producers of other engines in COMPACT ones. Without one it is the new files of
APPEND snapshots: a compaction changes no row. The changes of an OVERWRITE snapshot count only when
the table asks for them.

Source: Paimon `table/source/DataTableStreamScan.java#nextPlan`,
`table/source/snapshot/DeltaFollowUpScanner.java`, `ChangelogFollowUpScanner.java`.
"""

from __future__ import annotations

import enum

from stream_app.model.options.changelog_producer import ProducerTraits
from stream_app.model.snapshot import CommitKind, Snapshot


class FollowUp(enum.Enum):
    """Which files of a snapshot are its changes."""

    NOTHING = "nothing"
    DELTA = "delta"
    CHANGELOG = "changelog"


def follow_up(snapshot: Snapshot, *, has_changelog: bool, reads_overwrites: bool) -> FollowUp:
    """Where the changes of a snapshot are.

    Args:
        has_changelog: whether the table has a ``changelog-producer``.
        reads_overwrites: ``streaming-read-append-overwrite`` of a table without a primary key.
    """
    if reads_overwrites and snapshot.commit_kind is CommitKind.OVERWRITE:
        return FollowUp.DELTA
    if has_changelog:
        has_files = snapshot.changelog_manifest_list is not None
        return FollowUp.CHANGELOG if has_files else FollowUp.NOTHING
    return FollowUp.DELTA if snapshot.commit_kind is CommitKind.APPEND else FollowUp.NOTHING


def least_full_level(producer: ProducerTraits, num_levels: int) -> int:
    """The lowest level that belongs to the rows that are read first.

    Levels below have no changelog yet; their rows become changes once they are compacted.

    Source: Paimon `table/source/DataTableStreamScan.java#tryFirstPlan`.
    """
    if producer.by_lookup:
        return 1
    return num_levels - 1 if producer.by_full_compaction else 0
