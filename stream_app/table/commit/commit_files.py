"""Writes the metadata files of one commit, reuses them in retries, and cleans up after a failure.

Until a snapshot names these files, they are orphans. `manifest_merger` merges older manifests on
the way.

Source: Paimon `operation/FileStoreCommitImpl.java#tryCommitOnce`,
`operation/commit/CommitCleaner.java`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from stream_app.clock import utc_ms
from stream_app.model.files.index_file_meta import IndexManifestEntry
from stream_app.model.files.manifest_entry import (
    FileKind,
    ManifestFileMeta,
)
from stream_app.model.snapshot import Snapshot
from stream_app.planning.commit.partition_statistics import (
    PartitionStatistics,
    partition_statistics,
)
from stream_app.table.commit.commit_changes import CommitChanges
from stream_app.table.commit.manifest_merger import ManifestMerger
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.versions.deletion_vectors import new_index_manifest
from stream_app.table.versions.file_store_scan import FileStoreScan

ManifestList = tuple[str, int]
"""Name and size in bytes of a manifest list."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitLists:
    """The manifest lists and the index manifest that a snapshot names."""

    base_list: ManifestList
    delta_list: ManifestList
    changelog_list: ManifestList | None
    index_manifest: str | None


@dataclass(slots=True)
class NewestManifestCache:
    """A cache of the manifests of the committer's last snapshot, which its next snapshot inherits.

    The key is the name of the delta manifest list. It is unique, so the value never becomes stale.
    """

    _delta_manifest_list: str = field(init=False, default="")
    _metas: list[ManifestFileMeta] = field(init=False, default_factory=list)

    def note(self, delta_manifest_list: str, metas: list[ManifestFileMeta]) -> None:
        """Cache the manifests of the snapshot with this delta manifest list."""
        self._delta_manifest_list = delta_manifest_list
        self._metas = metas

    def manifests(self, table: FileStoreTable, snapshot: Snapshot) -> list[ManifestFileMeta]:
        """Return the manifests of a snapshot, oldest first; this writer's last are cached."""
        if snapshot.delta_manifest_list == self._delta_manifest_list:
            return self._metas
        return FileStoreScan(table).manifests(snapshot)


class _FirstMerge:
    """The manifest merge of a commit's first attempt. A retry reuses its result, or does not merge.

    A second merge would take time, in which the committer would lose the next race.
    """

    def __init__(self, table: FileStoreTable) -> None:
        self._table = table
        self._input_metas: list[ManifestFileMeta] | None = None
        self._result: list[ManifestFileMeta] = []
        self._merged_names: list[str] = []

    def manifests(self, metas: list[ManifestFileMeta]) -> list[ManifestFileMeta]:
        """Return the manifests that an attempt lists: `metas`, merged as far as possible."""
        if self._input_metas is None:
            self._result = ManifestMerger(self._table).merge(metas)
            inherited_names = {meta.file_name for meta in metas}
            self._merged_names = [
                meta.file_name for meta in self._result if meta.file_name not in inherited_names
            ]
            self._input_metas = metas
            return self._result
        count = len(self._input_metas)
        if metas[:count] == self._input_metas:
            return self._result + metas[count:]
        self.delete_merged_manifests()
        self._input_metas, self._result = [], []
        return metas

    def delete_merged_manifests(self) -> None:
        """Delete the manifests that the merge wrote."""
        _delete(self._table, self._merged_names)


class CommitFiles:
    """The metadata files of one commit.

    An attempt begins with `write`; a lost one ends with `delete_attempt_files`.
    """

    def __init__(self, table: FileStoreTable, manifest_cache: NewestManifestCache) -> None:
        self.table = table
        self.manifest_cache = manifest_cache
        self._merge = _FirstMerge(table)
        # These files serve all attempts with the same changes.
        self._changes: CommitChanges | None = None
        self._delta_list: ManifestList = ("", 0)
        self._delta_metas: list[ManifestFileMeta] = []
        self._changelog_list: ManifestList | None = None
        self._change_files: list[str] = []
        # These belong to the last attempt.
        self._base_metas: list[ManifestFileMeta] = []
        self._computed_index: tuple[IndexManifestEntry, ...] = ()
        self._attempt_files: list[str] = []

    @property
    def name(self) -> str:
        """The name of the delta manifest list, which is unique to this commit."""
        return self._delta_list[0]

    def write(
        self,
        base_snapshot: Snapshot | None,
        changes: CommitChanges,
        computed_index: tuple[IndexManifestEntry, ...] = (),
    ) -> CommitLists:
        """Write the files that a snapshot on top of `base_snapshot` names.

        Args:
            computed_index: changes of index files that are valid on top of `base_snapshot` only;
                `delete_attempt_files` deletes the added files.
        """
        self._computed_index = computed_index
        previous_changes, self._changes = self._changes, changes
        if previous_changes is None or previous_changes.entries != changes.entries:
            self._write_changes(changes)
        base_list = self._write_base_list(base_snapshot)
        index_changes = (*changes.index_entries, *computed_index)
        index_manifest = new_index_manifest(self.table, base_snapshot, index_changes)
        if index_changes and index_manifest is not None:
            self._attempt_files.append(index_manifest)
        return CommitLists(
            base_list=base_list,
            delta_list=self._delta_list,
            changelog_list=self._changelog_list,
            index_manifest=index_manifest,
        )

    def read_partition_statistics(self) -> Sequence[PartitionStatistics]:
        """Return the last attempt's changes to each partition's statistics."""
        return partition_statistics(
            self._changes.entries if self._changes else (),
            spec_of=self.table.paths.partition_spec,
            utc_ms_of=utc_ms,
        )

    def note_created_snapshot(self) -> None:
        """Note that a published snapshot names the files of the last attempt."""
        self.manifest_cache.note(self.name, self._base_metas + self._delta_metas)

    def delete_attempt_files(self) -> None:
        """Delete the files that are valid only on top of the last attempt's base."""
        for entry in self._computed_index:
            if entry.kind is FileKind.ADD:
                self.table.deletion_vector_files.delete(entry)
        _delete(self.table, self._attempt_files)

    def delete_all_files(self) -> None:
        """Delete all files, because no snapshot names them or will name them."""
        _delete(self.table, self._attempt_files)
        self._merge.delete_merged_manifests()
        _delete(self.table, self._change_files)

    def _write_changes(self, changes: CommitChanges) -> None:
        _delete(self.table, self._change_files)
        files = self.table.manifests
        self._delta_metas = files.write_manifests(changes.entries)
        changelog_metas = files.write_manifests(changes.changelog)
        self._delta_list = files.write_list(self._delta_metas)
        self._changelog_list = files.write_list(changelog_metas) if changelog_metas else None
        self._change_files += [meta.file_name for meta in (*self._delta_metas, *changelog_metas)]
        self._change_files += [
            manifest_list[0]
            for manifest_list in (self._delta_list, self._changelog_list)
            if manifest_list
        ]

    def _write_base_list(self, base_snapshot: Snapshot | None) -> ManifestList:
        metas = self.manifest_cache.manifests(self.table, base_snapshot) if base_snapshot else []
        self._base_metas = self._merge.manifests(metas)
        base_list = self.table.manifests.write_list(self._base_metas)
        self._attempt_files.append(base_list[0])
        return base_list


def _delete(table: FileStoreTable, names: list[str]) -> None:
    """Delete metadata files, and forget their names."""
    for name in names:
        table.manifests.delete(name)
    names.clear()
