"""Gives new files the number of their snapshot (``sequence.snapshot-ordering``).

In such a table the row of the later snapshot is the newer one, so that several writers need no
common sequence numbers. A commit sets both sequence bounds of each appended file to its number.
Readers use that number for all rows of the file (`data_file_reader`), and so do compactions. The
files of compactions have the numbers in their rows.

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
    """Return the name prefix of changelog files, whose rows keep their own numbers.

    None means that snapshots do not order rows, so the rows of all files keep their numbers.
    """
    return options[CHANGELOG_FILE_PREFIX] if options[SEQUENCE_SNAPSHOT_ORDERING] else None


def number_entries(entries: Iterable[ManifestEntry], snapshot_id: int) -> tuple[ManifestEntry, ...]:
    """Return the entries, with the snapshot's number in each added file."""
    return tuple(
        replace(entry, file=_number_file(entry.file, snapshot_id))
        if entry.kind is FileKind.ADD
        else entry
        for entry in entries
    )


def number_changes(changes: Iterable[BucketChange], snapshot_id: int) -> tuple[BucketChange, ...]:
    """Return the changes with the snapshot's number; see `number_entries`."""
    return tuple(
        replace(
            change,
            added_files=tuple(_number_file(file, snapshot_id) for file in change.added_files),
        )
        for change in changes
    )


def _number_file(file: DataFileMeta, snapshot_id: int) -> DataFileMeta:
    return replace(file, min_sequence_number=snapshot_id, max_sequence_number=snapshot_id)
