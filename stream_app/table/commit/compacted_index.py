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
    table: FileStoreTable, base_snapshot: Snapshot | None, entries: Sequence[ManifestEntry]
) -> tuple[IndexManifestEntry, ...]:
    """Write index files without the deletion vectors of the files that `entries` delete.

    A vector only ever grows. If the new files lack exactly the rows that the latest vectors mark,
    the compaction restores no deleted row.

    Raises:
        CommitConflictError: rows of these files were deleted after the compaction read them. No
            index file remains.
    """
    if base_snapshot is None or table.kind_traits.merges_by_key:
        return ()
    # Check even without vectors: a rollback may have removed vectors that the compaction read.
    name = base_snapshot.index_manifest
    live_entries = [] if name is None else table.manifests.read_index_manifest(name)
    index_entries: list[IndexManifestEntry] = []
    try:
        for bucket_id in dict.fromkeys(entry.bucket_id for entry in entries):
            bucket_entries = [entry for entry in entries if entry.bucket_id == bucket_id]
            deleted_names = {
                entry.file.file_name for entry in bucket_entries if entry.kind is FileKind.DELETE
            }
            _check_deleted_rows(table, base_snapshot, live_entries, bucket_entries)
            index_entries += index_changes(
                table, live_entries, bucket_id, deleted_names=deleted_names
            )
    except BaseException:
        for entry in index_entries:
            if entry.kind is FileKind.ADD:
                table.deletion_vector_files.delete(entry)
        raise
    return tuple(index_entries)


def _check_deleted_rows(
    table: FileStoreTable,
    base_snapshot: Snapshot,
    live_entries: Sequence[IndexManifestEntry],
    entries: Sequence[ManifestEntry],
) -> None:
    """Check that a compaction left out as many rows as the deletion vectors mark."""
    bucket_id = entries[0].bucket_id
    deleted_names = {entry.file.file_name for entry in entries if entry.kind is FileKind.DELETE}
    omitted_row_count = sum(
        entry.file.row_count * (1 if entry.kind is FileKind.DELETE else -1) for entry in entries
    )
    deleted_count = deleted_row_count(
        table.deletion_vector_files, live_entries, bucket_id, deleted_names
    )
    if deleted_count != omitted_row_count:
        error = CommitConflictError(
            f"{deleted_count} rows of the files are deleted in snapshot "
            f"{base_snapshot.snapshot_id}, the compaction left {omitted_row_count} out",
            where=table.paths.bucket_folder(*bucket_id),
            fix="do nothing: the job compacts the files again",
        )
        raise error.about_files(entry.file.file_name for entry in entries)


def deleted_row_count(
    vector_files: DeletionVectorFiles,
    live_entries: Sequence[IndexManifestEntry],
    bucket_id: BucketId,
    deleted_names: set[str],
) -> int:
    """Count the rows of these data files that deletion vectors mark."""
    count = 0
    for entry in live_entries:
        if not entry.holds_deletion_vectors or entry.bucket_id != bucket_id:
            continue
        for meta in entry.index_file.deletion_vectors or ():
            if meta.data_file_name not in deleted_names:
                continue
            cardinality = meta.cardinality
            if cardinality is None:  # older writers do not record it
                vectors = vector_files.read(entry, {meta.data_file_name})
                cardinality = vectors[meta.data_file_name].cardinality
            count += cardinality
    return count
