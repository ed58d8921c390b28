"""Writes the index files that a commit of a compaction needs in a table with deletion vectors.

Source: Paimon `operation/FileStoreCommitImpl.java#tryCommitOnce`.
"""

from __future__ import annotations

from collections.abc import Sequence

from stream_app.errors import CommitConflictError
from stream_app.filestore.manifests.deletion_vector_files import DeletionVectorFiles
from stream_app.model.bucket_id import BucketId
from stream_app.model.files.index_file_meta import IndexManifestEntry
from stream_app.model.files.manifest_entry import (
    FileKind,
    ManifestEntry,
)
from stream_app.model.snapshot import Snapshot
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.versions.deletion_vectors import index_changes


def compacted_index(
    table: FileStoreTable, latest: Snapshot | None, changes: Sequence[ManifestEntry]
) -> tuple[IndexManifestEntry, ...]:
    """Write index files without the deletion vectors of the files that `changes` delete.

    A vector only ever grows. If the new files lack exactly the rows that the latest vectors mark,
    the compaction restores no deleted row.

    Raises:
        CommitConflictError: rows of these files were deleted after the compaction read them. No
            index file remains.
    """
    if latest is None or table.kind.merges_by_key:
        return ()
    # Check even without vectors: a rollback may have removed vectors that the compaction read.
    name = latest.index_manifest
    live = [] if name is None else table.manifests.read_index_manifest(name)
    new_entries: list[IndexManifestEntry] = []
    try:
        for bucket in dict.fromkeys((entry.partition, entry.bucket) for entry in changes):
            bucket_changes = [
                change for change in changes if (change.partition, change.bucket) == bucket
            ]
            deleted_names = {
                change.file.file_name for change in bucket_changes if change.kind is FileKind.DELETE
            }
            _check_deleted(table, latest, live, bucket_changes)
            new_entries += index_changes(table, live, bucket, deleted_files=deleted_names)
    except BaseException:
        for entry in new_entries:
            if entry.kind is FileKind.ADD:
                table.deletion_vector_files.delete(entry)
        raise
    return tuple(new_entries)


def _check_deleted(
    table: FileStoreTable,
    latest: Snapshot,
    live: Sequence[IndexManifestEntry],
    changes: Sequence[ManifestEntry],
) -> None:
    """Check that a compaction left out as many rows as the deletion vectors mark."""
    bucket = (changes[0].partition, changes[0].bucket)
    deleted_names = {entry.file.file_name for entry in changes if entry.kind is FileKind.DELETE}
    missing = sum(
        entry.file.row_count * (1 if entry.kind is FileKind.DELETE else -1) for entry in changes
    )
    deleted = deleted_rows(table.deletion_vector_files, live, bucket, deleted_names)
    if deleted != missing:
        error = CommitConflictError(
            f"{deleted} rows of the files are deleted in snapshot {latest.snapshot_id}, "
            f"the compaction left {missing} out",
            where=table.paths.bucket(*bucket),
            fix="do nothing: the job compacts the files again",
        )
        raise error.about_files(entry.file.file_name for entry in changes)


def deleted_rows(
    files: DeletionVectorFiles,
    live: Sequence[IndexManifestEntry],
    bucket: BucketId,
    names: set[str],
) -> int:
    """Count the rows of these data files that deletion vectors mark."""
    count = 0
    for entry in live:
        if not entry.holds_deletion_vectors or (entry.partition, entry.bucket) != bucket:
            continue
        for meta in entry.index_file.deletion_vectors or ():
            if meta.data_file_name not in names:
                continue
            cardinality = meta.cardinality
            if cardinality is None:  # older writers do not record it
                vectors = files.read(entry, {meta.data_file_name})
                cardinality = vectors[meta.data_file_name].cardinality
            count += cardinality
    return count
