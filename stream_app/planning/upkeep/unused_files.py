"""Which files nobody needs when versions of a table go.

Called by `table.upkeep.expire_snapshots`, `table.upkeep.expire_changelogs` and whoever deletes a
tag. Entries of manifests in, entries out; reading and deleting is done elsewhere.

A file that a snapshot deletes is live in all versions from the one that added it to the one before.
So when those are gone it is needed only by tags, and the nearest earlier tag decides for all: if an
earlier one has the file, that one has it as well.

Source: Paimon `operation/FileDeletionBase.java`, `operation/SnapshotDeletion.java`,
`table/ExpireSnapshotsImpl.java#findSkippingTags`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Sequence

from stream_app.model.data_file_meta import FileSource
from stream_app.model.manifest_entry import FileKind, ManifestEntry

FileKey = tuple[bytes, int, str]
"""Partition, bucket and name: one file on disk, whatever its level is."""


def file_key(entry: ManifestEntry) -> FileKey:
    """The file of an entry."""
    return entry.partition, entry.bucket, entry.file.file_name


def dropped_files(delta: Collection[ManifestEntry]) -> list[ManifestEntry]:
    """The files that a snapshot's changes take out of the table.

    A file that only changes its level is deleted and added again, and stays.
    """
    added = {file_key(entry) for entry in delta if entry.kind is FileKind.ADD}
    return [
        entry for entry in delta if entry.kind is FileKind.DELETE and file_key(entry) not in added
    ]


def unprotected(
    entries: Iterable[ManifestEntry], protected: Sequence[Collection[FileKey]]
) -> list[ManifestEntry]:
    """The entries whose file is in no set of protected ones."""
    return [entry for entry in entries if not any(file_key(entry) in each for each in protected)]


def without_flushed(entries: Iterable[ManifestEntry]) -> list[ManifestEntry]:
    """The entries of files that compaction made.

    Where the changelog outlives snapshots and has no files of its own, flushed files are the
    changelog. A file of which it is not known counts as flushed.
    """
    return [entry for entry in entries if entry.file.file_source is FileSource.COMPACT]


def tag_before(tagged: Sequence[int], snapshot_id: int) -> int | None:
    """The newest tagged snapshot before this one; `tagged` ascending."""
    place = bisect_left(tagged, snapshot_id)
    return tagged[place - 1] if place else None


def tags_of_range(tagged: Sequence[int], begin: int, end: int) -> list[int]:
    """The tagged snapshots that may share metadata with the snapshots from `begin` to before `end`.

    These are the tags in the range and the newest one before it; `tagged` ascending.
    """
    first = max(bisect_right(tagged, begin) - 1, 0)
    return list(tagged[first : bisect_left(tagged, end)])
