"""Writes the metadata files of one commit, reuses them in retries, and cleans up after a failure.

Until a snapshot names these files, they are orphans. Every commit adds a small
manifest. Merging manifests in groups keeps a table's base list short, however many commits follow.
A group does not remove a deleted file whose ADD and DELETE are in different large manifests; a
`full_merge` removes all of them.

Source: Paimon `operation/FileStoreCommitImpl.java#tryCommitOnce`,
`operation/commit/CommitCleaner.java`, `operation/ManifestFileLegacyMerger.java`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from stream_app.clock import utc_ms
from stream_app.errors import CommitConflictError
from stream_app.filestore.manifests.deletion_vector_files import DeletionVectorFiles
from stream_app.model.bucket_id import BucketId
from stream_app.model.files.index_file_meta import IndexManifestEntry
from stream_app.model.files.manifest_entry import (
    FileIdentity,
    FileKind,
    ManifestEntry,
    ManifestFileMeta,
)
from stream_app.model.options.file_options import (
    MANIFEST_FULL_COMPACTION_THRESHOLD_SIZE,
    MANIFEST_MERGE_MIN_COUNT,
    MANIFEST_TARGET_FILE_SIZE,
)
from stream_app.model.snapshot import Snapshot
from stream_app.planning.commit.live_entries import compacted_entries
from stream_app.planning.commit.merged_manifests import full_merge, manifest_groups
from stream_app.planning.commit.partition_statistics import (
    PartitionStatistics,
    partition_statistics,
)
from stream_app.table.commit.commit_changes import CommitChanges
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.versions.deletion_vectors import index_changes, new_index_manifest
from stream_app.table.versions.file_store_scan import FileStoreScan

ManifestList = tuple[str, int]
"""Name and size in bytes of a manifest list."""


@dataclass(frozen=True, slots=True)
class ManifestMerger:
    """The merges of one table's manifests."""

    table: FileStoreTable

    def merge(self, metas: Sequence[ManifestFileMeta]) -> list[ManifestFileMeta]:
        """Merge manifests into fewer ones; those that are not in `metas` are newly written."""
        options = self.table.options
        target_size = options[MANIFEST_TARGET_FILE_SIZE]
        rewritten = full_merge(
            metas,
            target_size=target_size,
            threshold=options[MANIFEST_FULL_COMPACTION_THRESHOLD_SIZE],
        )
        if rewritten:
            return self._merge_in_full(metas, rewritten)
        merged: list[ManifestFileMeta] = []
        for group in manifest_groups(
            metas, target_size=target_size, min_count=options[MANIFEST_MERGE_MIN_COUNT]
        ):
            if len(group) == 1:
                merged.append(group[0])
                continue
            entries = [entry for meta in group for entry in self._read(meta)]
            merged += self.table.manifests.write_manifests(compacted_entries(entries))
        return merged

    def _merge_in_full(
        self, metas: Sequence[ManifestFileMeta], rewritten: frozenset[str]
    ) -> list[ManifestFileMeta]:
        """Drop the entries of all deleted files, so that no DELETE entry remains."""
        deleted: set[FileIdentity] = {
            entry.identity
            for meta in metas
            if meta.num_deleted_files
            for entry in self._read(meta)
            if entry.kind is FileKind.DELETE
        }
        buckets = {(identity.partition, identity.bucket) for identity in deleted}
        scan = FileStoreScan(self.table)
        unchanged: list[ManifestFileMeta] = []

        def live() -> Iterator[ManifestEntry]:
            for meta in metas:
                must_change = meta.file_name in rewritten
                if not must_change and not scan.may_hold(meta, buckets):
                    unchanged.append(meta)
                    continue
                added = [entry for entry in self._read(meta) if entry.kind is FileKind.ADD]
                remaining = [entry for entry in added if entry.identity not in deleted]
                if must_change or len(remaining) < len(added):
                    yield from remaining
                else:
                    unchanged.append(meta)

        merged = self.table.manifests.write_manifests(live())
        return unchanged + merged

    def _read(self, meta: ManifestFileMeta) -> list[ManifestEntry]:
        return self.table.manifests.read_manifest(meta.file_name, meta.file_size)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitLists:
    """The manifest lists and the index manifest that a snapshot names."""

    base: ManifestList
    delta: ManifestList
    changelog: ManifestList | None
    index: str | None


@dataclass(slots=True)
class NewestManifests:
    """A cache of the manifests of the committer's last snapshot, which its next snapshot inherits.

    The key is the name of the delta manifest list. It is unique, so the value never becomes stale.
    """

    _delta: str = field(init=False, default="")
    _metas: list[ManifestFileMeta] = field(init=False, default_factory=list)

    def note(self, delta: str, metas: list[ManifestFileMeta]) -> None:
        """Cache the manifests of the snapshot with this delta list."""
        self._delta, self._metas = delta, metas

    def manifests(self, table: FileStoreTable, snapshot: Snapshot) -> list[ManifestFileMeta]:
        """Return the manifests of a snapshot, oldest first; those of our last one are cached."""
        if snapshot.delta_manifest_list == self._delta:
            return self._metas
        return FileStoreScan(table).manifests(snapshot)


class _FirstMerge:
    """The manifest merge of a commit's first attempt. A retry reuses its result, or does not merge.

    A second merge would take time, in which the committer would lose the next race.
    """

    def __init__(self, table: FileStoreTable) -> None:
        self._table = table
        self._merged: list[ManifestFileMeta] | None = None
        self._result: list[ManifestFileMeta] = []
        self._written: list[str] = []

    def manifests(self, metas: list[ManifestFileMeta]) -> list[ManifestFileMeta]:
        """Return the manifests that an attempt lists: `metas`, merged as far as possible."""
        if self._merged is None:
            self._result = ManifestMerger(self._table).merge(metas)
            inherited = {meta.file_name for meta in metas}
            self._written = [
                meta.file_name for meta in self._result if meta.file_name not in inherited
            ]
            self._merged = metas
            return self._result
        count = len(self._merged)
        if metas[:count] == self._merged:
            return self._result + metas[count:]
        self.take_back()
        self._merged, self._result = [], []
        return metas

    def take_back(self) -> None:
        """Delete the manifests that the merge wrote."""
        _delete(self._table, self._written)


class CommitFiles:
    """The metadata files of one commit.

    An attempt begins with `write`; a lost one ends with `take_back`."""

    def __init__(self, table: FileStoreTable, newest: NewestManifests) -> None:
        self.table = table
        self.newest = newest
        self._merge = _FirstMerge(table)
        # These files serve all attempts with the same changes.
        self._changes: CommitChanges | None = None
        self._delta: ManifestList = ("", 0)
        self._delta_metas: list[ManifestFileMeta] = []
        self._changelog: ManifestList | None = None
        self._of_changes: list[str] = []
        # These belong to the last attempt.
        self._base_metas: list[ManifestFileMeta] = []
        self._computed: tuple[IndexManifestEntry, ...] = ()
        self._of_attempt: list[str] = []

    @property
    def name(self) -> str:
        """The name of the delta manifest list, which is unique to this commit."""
        return self._delta[0]

    def write(
        self,
        latest: Snapshot | None,
        changes: CommitChanges,
        computed: tuple[IndexManifestEntry, ...] = (),
    ) -> CommitLists:
        """Write the files that a snapshot on top of `latest` names.

        Args:
            computed: changes of index files that are valid on top of `latest` only; `take_back`
                deletes the added files.
        """
        self._computed = computed
        previous, self._changes = self._changes, changes
        if previous is None or previous.entries != changes.entries:
            self._write_changes(changes)
        base = self._write_base_list(latest)
        index_changes = (*changes.index, *computed)
        index = new_index_manifest(self.table, latest, index_changes)
        if index_changes and index is not None:
            self._of_attempt.append(index)
        return CommitLists(base=base, delta=self._delta, changelog=self._changelog, index=index)

    def statistics(self) -> Sequence[PartitionStatistics]:
        """Return the last attempt's changes to each partition's statistics."""
        return partition_statistics(
            self._changes.entries if self._changes else (),
            spec_of=self.table.paths.partition_spec,
            utc_ms=utc_ms,
        )

    def note_created(self) -> None:
        """Note that a published snapshot names the files of the last attempt."""
        self.newest.note(self.name, self._base_metas + self._delta_metas)

    def take_back(self) -> None:
        """Delete the files that are valid only on top of the last attempt's base."""
        for entry in self._computed:
            if entry.kind is FileKind.ADD:
                self.table.deletion_vector_files.delete(entry)
        _delete(self.table, self._of_attempt)

    def take_back_all(self) -> None:
        """Delete all files, because no snapshot names them or will name them."""
        _delete(self.table, self._of_attempt)
        self._merge.take_back()
        _delete(self.table, self._of_changes)

    def _write_changes(self, changes: CommitChanges) -> None:
        _delete(self.table, self._of_changes)
        files = self.table.manifests
        delta = files.write_manifests(changes.entries)
        changelog = files.write_manifests(changes.changelog)
        self._delta, self._delta_metas = files.write_list(delta), delta
        self._changelog = files.write_list(changelog) if changelog else None
        self._of_changes += [meta.file_name for meta in (*delta, *changelog)]
        self._of_changes += [written[0] for written in (self._delta, self._changelog) if written]

    def _write_base_list(self, latest: Snapshot | None) -> ManifestList:
        metas = self.newest.manifests(self.table, latest) if latest else []
        self._base_metas = self._merge.manifests(metas)
        base = self.table.manifests.write_list(self._base_metas)
        self._of_attempt.append(base[0])
        return base


def _delete(table: FileStoreTable, names: list[str]) -> None:
    """Delete metadata files, and forget their names."""
    for name in names:
        table.manifests.delete(name)
    names.clear()


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
            fix="nothing: the files are compacted again",
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
