"""Reads a snapshot's deletion vectors, and computes how a commit changes them.

A commit that deletes data files, or some of their rows, calls in this order:

1. `index_changes`, once for each bucket. It writes index files and returns ADD and DELETE entries.
   Until a snapshot names the files they are orphans.
2. `planning.commit.index_changes.index_conflict`, on top of the latest snapshot.
3. `new_index_manifest`, whose name goes into the snapshot.

Source: Paimon `deletionvectors/append/AppendDeleteFileMaintainer.java`,
`deletionvectors/BucketedDvMaintainer.java`, `append/AppendCompactTask.java`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from stream_app.filestore.manifests.deletion_vector_files import BucketVectors
from stream_app.format.deletion_vector import DeletionVector
from stream_app.model.bucket_id import BucketId
from stream_app.model.files.index_file_meta import IndexManifestEntry
from stream_app.model.snapshot import Snapshot
from stream_app.planning.commit.index_changes import choose_rewrites, combine_index
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.versions.index_manifests import index_manifest, write_index_manifest


def deletion_vectors(
    table: FileStoreTable, snapshot: Snapshot, buckets: Collection[BucketId] | None = None
) -> dict[BucketId, BucketVectors]:
    """Return a snapshot's deletion vectors, of all buckets or of some.

    A bucket without vectors is absent, or empty after some of Paimon's compactions.

    Raises:
        CorruptFileError: the index manifest or a file of vectors is missing or unreadable.
    """
    entries = table.manifests.read_index_manifest(snapshot.index_manifest)
    if buckets is not None:
        wanted_buckets = set(buckets)
        entries = [entry for entry in entries if entry.bucket_id in wanted_buckets]
    return table.deletion_vector_files.read_buckets(entries)


def index_changes(
    table: FileStoreTable,
    live_entries: Sequence[IndexManifestEntry],
    bucket_id: BucketId,
    *,
    deleted_names: Collection[str] = (),
    deleted_rows: Mapping[str, DeletionVector] | None = None,
) -> list[IndexManifestEntry]:
    """Write the changed index files of a bucket, and return DELETE entries, then ADD entries.

    Args:
        live_entries: the live index files of the table, or of the bucket.
        deleted_names: names of data files that a compaction or an overwrite deletes.
        deleted_rows: data file → rows to delete, in addition to those already deleted.

    Raises:
        CorruptFileError: a file of vectors is missing or unreadable.
    """
    deleted_rows = deleted_rows or {}
    assert deleted_rows.keys().isdisjoint(deleted_names), "no rows are deleted from a deleted file"
    plan = choose_rewrites(
        [entry for entry in live_entries if entry.bucket_id == bucket_id],
        deleted_names=deleted_names,
        changed_names=deleted_rows.keys(),
        needs_one_file=table.kind_traits.has_buckets,
    )
    files = table.deletion_vector_files
    moved_vectors: BucketVectors = {}
    changed_vectors = dict(deleted_rows)
    for rewrite in plan:
        names = {*rewrite.moved_names, *deleted_rows}
        for name, vector in files.read(rewrite.entry, names).items():
            if name in changed_vectors:
                changed_vectors[name] = changed_vectors[name].union(vector)
            else:
                moved_vectors[name] = vector
    changes = [rewrite.entry.as_delete() for rewrite in plan]
    vectors = moved_vectors | changed_vectors
    return changes + files.write(*bucket_id, vectors, shares_file=table.kind_traits.has_buckets)


def new_index_manifest(
    table: FileStoreTable, base_snapshot: Snapshot | None, changes: Sequence[IndexManifestEntry]
) -> str | None:
    """Write the next index manifest, and return its name; without changes the old name."""
    previous_name = base_snapshot.index_manifest if base_snapshot else None
    if not changes:
        return previous_name
    live_entries = index_manifest(table, previous_name).entries
    return write_index_manifest(table, combine_index(live_entries, changes))
