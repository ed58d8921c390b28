"""Gives new files the number of their snapshot (``sequence.snapshot-ordering``).

In such a table the row of the later snapshot is the newer one, so that several writers need no
common sequence numbers. A commit notes its number in both sequence bounds of each file that it
appends. Readers take that number for all rows of the file (`data_file_reader`). A compaction reads
its input so. The files that it writes have the numbers in their rows.

Source: Paimon 2.0 `operation/FileStoreCommitImpl.java#stampSequenceWithSnapshotId`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from stream_app.model.files.bucket_change import BucketChange
from stream_app.model.files.data_file_meta import DataFileMeta
from stream_app.model.files.manifest_entry import FileKind, ManifestEntry
from stream_app.model.options.core_options import CoreOptions
from stream_app.model.options.file_options import CHANGELOG_FILE_PREFIX
from stream_app.model.options.merge_options import SEQUENCE_SNAPSHOT_ORDERING


def prefix_of_own_numbers(options: CoreOptions) -> str | None:
    """The beginning of the names of files whose rows keep their own numbers: changelog files.

    None: snapshots do not order rows, and all files are such.
    """
    return options[CHANGELOG_FILE_PREFIX] if options[SEQUENCE_SNAPSHOT_ORDERING] else None


def numbered_entries(
    entries: Iterable[ManifestEntry], snapshot_id: int
) -> tuple[ManifestEntry, ...]:
    """The same entries; each file that is added has the number of the snapshot."""
    return tuple(
        replace(entry, file=_numbered(entry.file, snapshot_id))
        if entry.kind is FileKind.ADD
        else entry
        for entry in entries
    )


def numbered_changes(changes: Iterable[BucketChange], snapshot_id: int) -> tuple[BucketChange, ...]:
    """The changes as the snapshot has them; see `numbered_entries`."""
    return tuple(
        replace(change, added=tuple(_numbered(file, snapshot_id) for file in change.added))
        for change in changes
    )


def _numbered(file: DataFileMeta, snapshot_id: int) -> DataFileMeta:
    return replace(file, min_sequence_number=snapshot_id, max_sequence_number=snapshot_id)
