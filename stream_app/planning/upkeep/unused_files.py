"""Decides which files no version needs after some versions expire.

`table.upkeep.expire_snapshots`, `expire_changelogs` and the deletion of tags call it. It takes and
returns manifest entries, and neither reads nor deletes.

A file that a snapshot deletes is live in all versions from the one that added it to the one before
that snapshot. When those have expired, only tags can need it. The nearest earlier tag decides: if
any earlier tag has the file, the nearest one has it.

Source: Paimon `operation/FileDeletionBase.java`, `operation/SnapshotDeletion.java`,
`table/ExpireSnapshotsImpl.java#findSkippingTags`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Sequence

from stream_app.model.files.data_file_meta import FileSource
from stream_app.model.files.manifest_entry import FileKind, ManifestEntry

FileKey = tuple[bytes, int, str]
"""Partition, bucket and name: one file on disk, whatever its level is."""


def file_key(entry: ManifestEntry) -> FileKey:
    """Return the key that identifies a file across entries."""
    return entry.partition, entry.bucket, entry.file.file_name


def dropped_files(delta: Collection[ManifestEntry]) -> list[ManifestEntry]:
    """Return the files that a snapshot's changes remove from the table.

    A file that only changes its level is deleted and added again, and stays.
    """
    added_keys = {file_key(entry) for entry in delta if entry.kind is FileKind.ADD}
    return [
        entry
        for entry in delta
        if entry.kind is FileKind.DELETE and file_key(entry) not in added_keys
    ]


def unprotected_entries(
    entries: Iterable[ManifestEntry], protected_files: Sequence[Collection[FileKey]]
) -> list[ManifestEntry]:
    """Return the entries whose file is in no protected set."""
    return [
        entry for entry in entries if not any(file_key(entry) in keys for keys in protected_files)
    ]


def without_flushed_files(entries: Iterable[ManifestEntry]) -> list[ManifestEntry]:
    """Return the entries of files that a compaction has written.

    If the changelog outlives snapshots and has no own files, flushed files are the changelog. A
    file of unknown source counts as flushed.
    """
    return [entry for entry in entries if entry.file.file_source is FileSource.COMPACT]


def latest_tag_before(tagged_ids: Sequence[int], snapshot_id: int) -> int | None:
    """Return the latest tagged snapshot before this one; `tagged_ids` is ascending."""
    count = bisect_left(tagged_ids, snapshot_id)
    return tagged_ids[count - 1] if count else None


def tags_of_range(tagged_ids: Sequence[int], start: int, end: int) -> list[int]:
    """Return the tagged snapshots that may share metadata with snapshots in [`start`, `end`).

    These are the tags in the range and the newest one before it; `tagged_ids` is ascending.
    """
    first_index = max(bisect_right(tagged_ids, start) - 1, 0)
    return list(tagged_ids[first_index : bisect_left(tagged_ids, end)])


def nearest_ids(expiring: int, remaining_ids: Iterable[int]) -> list[int]:
    """Return the next smaller and the next larger number, if they exist."""
    ascending_ids = sorted(remaining_ids)
    earlier_ids = [snapshot_id for snapshot_id in ascending_ids if snapshot_id < expiring]
    later_ids = [snapshot_id for snapshot_id in ascending_ids if snapshot_id > expiring]
    return earlier_ids[-1:] + later_ids[:1]
