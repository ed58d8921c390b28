"""What a compaction of a table without keys changes about deletion vectors, in its own snapshot.

The rows that a vector deletes are not in the rewritten files, so the vectors of the files that go
must go with them. A vector only ever grows: when as many rows are missing from the new files as the
latest vectors delete, no row was deleted meanwhile that the new files would bring back.

Source: Paimon `append/AppendCompactTask.java`, `operation/commit/ConflictDetection.java`.
"""

from __future__ import annotations

from collections.abc import Sequence

from stream_app.errors import CommitConflictError
from stream_app.filestore.manifests.deletion_vector_files import DeletionVectorFiles
from stream_app.model.bucket_id import BucketId
from stream_app.model.index_file_meta import IndexManifestEntry
from stream_app.model.manifest_entry import FileKind, ManifestEntry
from stream_app.model.snapshot import Snapshot
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.versions.deletion_vectors import index_changes


def compacted_index(
    table: FileStoreTable, latest: Snapshot | None, changes: Sequence[ManifestEntry]
) -> tuple[IndexManifestEntry, ...]:
    """Write the index files that are left without the vectors of the files that `changes` delete.

    Raises:
        CommitConflictError: rows of these files were deleted since they were read; then nothing is
            written.
    """
    if latest is None or table.kind.merges_by_key:
        return ()
    # Without vectors it is looked at as well: the table may have gone back behind those that the
    # compaction has read.
    name = latest.index_manifest
    live = [] if name is None else table.manifests.read_index_manifest(name)
    found: list[IndexManifestEntry] = []
    try:
        for bucket in dict.fromkeys((entry.partition, entry.bucket) for entry in changes):
            of_bucket = [each for each in changes if (each.partition, each.bucket) == bucket]
            gone = {each.file.file_name for each in of_bucket if each.kind is FileKind.DELETE}
            _check_deleted(table, latest, live, of_bucket)
            found += index_changes(table, live, bucket, gone=gone)
    except BaseException:
        for entry in found:
            if entry.kind is FileKind.ADD:
                table.deletion_vector_files.delete(entry)
        raise
    return tuple(found)


def _check_deleted(
    table: FileStoreTable,
    latest: Snapshot,
    live: Sequence[IndexManifestEntry],
    changes: Sequence[ManifestEntry],
) -> None:
    bucket = (changes[0].partition, changes[0].bucket)
    gone = {each.file.file_name for each in changes if each.kind is FileKind.DELETE}
    missing = sum(
        each.file.row_count * (1 if each.kind is FileKind.DELETE else -1) for each in changes
    )
    deleted = deleted_rows(table.deletion_vector_files, live, bucket, gone)
    if deleted != missing:
        error = CommitConflictError(
            f"{deleted} rows of the files are deleted in snapshot {latest.snapshot_id}, "
            f"the compaction left {missing} out",
            where=table.paths.bucket(*bucket),
            fix="nothing: the files are compacted again",
        )
        error.files = frozenset(each.file.file_name for each in changes)
        raise error


def deleted_rows(
    files: DeletionVectorFiles,
    live: Sequence[IndexManifestEntry],
    bucket: BucketId,
    names: set[str],
) -> int:
    """Rows of these data files that the vectors of a snapshot delete."""
    found = 0
    for entry in live:
        if not entry.holds_deletion_vectors or (entry.partition, entry.bucket) != bucket:
            continue
        for meta in entry.index_file.deletion_vectors or ():
            if meta.data_file_name not in names:
                continue
            cardinality = meta.cardinality
            if cardinality is None:  # an older writer did not say
                vectors = files.read(entry, {meta.data_file_name})
                cardinality = vectors[meta.data_file_name].cardinality
            found += cardinality
    return found
