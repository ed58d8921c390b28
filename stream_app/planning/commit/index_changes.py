"""Decides how a snapshot's index files change if data files or their rows are deleted.

A change is a list of entries as for data files: DELETE of an index file, ADD of another. But an
index manifest is complete. So each commit with a change rewrites the whole index manifest
(`combine_index`), on top of other commits (`index_conflict`).

Source: Paimon `deletionvectors/append/AppendDeleteFileMaintainer.java`,
`deletionvectors/BucketedDvMaintainer.java`, `manifest/IndexManifestFileHandler.java`,
`operation/commit/ConflictDetection.java`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from stream_app.model.files.index_file_meta import IndexManifestEntry
from stream_app.model.files.manifest_entry import FileKind


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexFileRewrite:
    """An index file to remove.

    Attributes:
        moved_names: the names of the data files whose deletion vectors move to a new index file.
    """

    entry: IndexManifestEntry
    moved_names: tuple[str, ...]


def choose_rewrites(
    live_entries: Iterable[IndexManifestEntry],
    *,
    deleted_names: Collection[str],
    changed_names: Collection[str],
    needs_one_file: bool,
) -> list[IndexFileRewrite]:
    """Choose the index files of one bucket to rewrite.

    An index file without changes is kept, and an empty one is removed.

    Args:
        live_entries: the index files of the bucket.
        deleted_names: the names of the deleted data files.
        changed_names: the names of the data files that get a new deletion vector.
        needs_one_file: whether the bucket's vectors must be in one file, so any change affects all.
    """
    affected_names = {*deleted_names, *changed_names}
    vector_entries = [entry for entry in live_entries if entry.holds_deletion_vectors]
    rewritten_entries = [
        entry
        for entry in vector_entries
        if not affected_names.isdisjoint(entry.index_file.data_file_names)
    ]
    if needs_one_file and (rewritten_entries or changed_names):
        rewritten_entries = vector_entries
    return [
        IndexFileRewrite(
            entry=entry,
            moved_names=tuple(
                name for name in entry.index_file.data_file_names if name not in affected_names
            ),
        )
        for entry in rewritten_entries
    ]


def combine_index(
    live_entries: Sequence[IndexManifestEntry], changes: Sequence[IndexManifestEntry]
) -> list[IndexManifestEntry]:
    """Return the index files of all types after changes without an `index_conflict`."""
    files = {entry.index_file.file_name: entry for entry in live_entries}
    for change in changes:
        if change.kind is FileKind.DELETE:
            del files[change.index_file.file_name]
    files |= {
        change.index_file.file_name: change for change in changes if change.kind is FileKind.ADD
    }
    return list(files.values())


def index_conflict(
    live_entries: Sequence[IndexManifestEntry],
    changes: Sequence[IndexManifestEntry],
    *,
    deleted_names: Collection[str],
    live_names: Collection[str],
    needs_one_file: bool,
) -> str | None:
    """Describe the conflict of committing `changes` on top of `live_entries`; None without one.

    There are four rules. A removed index file must exist. A bucket has one file of hashes. No row
    of a deleted file was deleted meanwhile, because the replacing file would restore it. An added
    vector belongs to a live file, and is its only one.

    Args:
        live_entries: the index files of the whole table before the commit.
        deleted_names: the names of the data files that the commit deletes.
        live_names: the names of the data files after the commit, of at least the partitions with
            changed vectors.
        needs_one_file: whether the vectors of a bucket must be in one file.
    """
    live_index_names = {entry.index_file.file_name for entry in live_entries}
    for change in changes:
        if change.kind is FileKind.DELETE and change.index_file.file_name not in live_index_names:
            return f"index file {change.index_file.file_name} is gone"
    combined_entries = combine_index(live_entries, changes)
    if crowded_buckets := _buckets_with_several(
        entry for entry in combined_entries if entry.holds_hashes
    ):
        return f"bucket {crowded_buckets[0]} would have two files of hashes"
    vector_entries = [entry for entry in combined_entries if entry.holds_deletion_vectors]
    if problem := _vector_conflict(vector_entries, live_index_names, deleted_names, live_names):
        return problem
    if needs_one_file and (crowded_buckets := _buckets_with_several(vector_entries)):
        return f"bucket {crowded_buckets[0]} would have two files of deletion vectors"
    return None


def _vector_conflict(
    vector_entries: Sequence[IndexManifestEntry],
    live_index_names: Collection[str],
    deleted_names: Collection[str],
    live_names: Collection[str],
) -> str | None:
    """Describe the first deletion vector that is superseded or lacks its file; None without one."""
    marked_names: set[str] = set()
    for entry in vector_entries:
        is_new = entry.index_file.file_name not in live_index_names
        for data_file in entry.index_file.data_file_names:
            if data_file in marked_names:
                return f"rows of {data_file} were deleted meanwhile: it has two deletion vectors"
            if data_file in deleted_names:
                return f"rows of {data_file}, which the commit replaces, were deleted meanwhile"
            if is_new and data_file not in live_names:
                return f"{data_file}, whose rows the commit deletes, is gone"
            marked_names.add(data_file)
    return None


def _buckets_with_several(entries: Iterable[IndexManifestEntry]) -> list[int]:
    """Return the buckets with more than one of these files."""
    buckets = Counter(entry.bucket_id for entry in entries)
    return [bucket for (_, bucket), files in buckets.items() if files > 1]
