"""The metadata files of one commit: written, used again when it is retried, and taken back.

Used by file_store_commit. Until a snapshot names them they belong to nobody.

Source: Paimon `operation/FileStoreCommitImpl.java#tryCommitOnce`,
`operation/commit/CommitCleaner.java`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from stream_app.model.manifest_entry import FileKind, ManifestFileMeta
from stream_app.model.snapshot import Snapshot
from stream_app.planning.live_entries import compacted_entries
from stream_app.planning.manifest_merge import manifest_groups
from stream_app.table.commit_changes import CommitChanges
from stream_app.table.deletion_vectors import write_index_manifest
from stream_app.table.file_store_scan import FileStoreScan
from stream_app.table.file_store_table import FileStoreTable

ManifestList = tuple[str, int]
"""Name and size in bytes of a manifest list."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitLists:
    """What a snapshot names."""

    base: ManifestList
    delta: ManifestList
    changelog: ManifestList | None
    index: str | None


@dataclass(slots=True)
class CommitFiles:
    """Files of one commit; an attempt begins with `write` and, if lost, ends with `take_back`."""

    table: FileStoreTable
    _changes: CommitChanges | None = None
    _delta: ManifestList = ("", 0)
    _changelog: ManifestList | None = None
    _of_changes: list[str] = field(default_factory=list)
    _of_attempt: list[str] = field(default_factory=list)

    def write(self, latest: Snapshot | None, changes: CommitChanges) -> CommitLists:
        """Write what a snapshot on top of `latest` names."""
        previous, self._changes = self._changes, changes
        if previous is None or previous.entries != changes.entries:
            self._write_changes(changes)
        base = self._write_base_list(latest)
        index = write_index_manifest(self.table, latest, changes.index)
        if changes.index and index is not None:
            self._of_attempt.append(index)
        return CommitLists(base=base, delta=self._delta, changelog=self._changelog, index=index)

    def take_back(self) -> None:
        """Delete what only fits the snapshot on top of which it was written."""
        changes = self._changes
        for entry in changes.index if changes else ():
            if entry.kind is FileKind.ADD:
                self.table.deletion_vector_files.delete(entry)
        self._delete(self._of_attempt)

    def take_back_all(self) -> None:
        """Delete everything: no snapshot names it, nor will."""
        self._delete(self._of_attempt)
        self._delete(self._of_changes)

    def _write_changes(self, changes: CommitChanges) -> None:
        self._delete(self._of_changes)
        files = self.table.manifests
        delta = files.write_manifests(changes.entries)
        changelog = files.write_manifests(changes.changelog)
        self._delta = files.write_list(delta)
        self._changelog = files.write_list(changelog) if changelog else None
        self._of_changes += [meta.file_name for meta in (*delta, *changelog)]
        self._of_changes += [each[0] for each in (self._delta, self._changelog) if each]

    def _write_base_list(self, latest: Snapshot | None) -> ManifestList:
        files, options = self.table.manifests, self.table.options
        metas: list[ManifestFileMeta] = []
        groups = manifest_groups(
            FileStoreScan(self.table).manifests(latest) if latest else [],
            target_size=options.integer("manifest.target-file-size"),
            min_count=options.integer("manifest.merge-min-count"),
        )
        for group in groups:
            if len(group) == 1:
                metas.append(group[0])
                continue
            entries = [
                entry
                for meta in group
                for entry in files.read_manifest(meta.file_name, meta.file_size)
            ]
            merged = files.write_manifests(compacted_entries(entries))
            self._of_attempt += [meta.file_name for meta in merged]
            metas += merged
        base = files.write_list(metas)
        self._of_attempt.append(base[0])
        return base

    def _delete(self, names: list[str]) -> None:
        for name in names:
            self.table.manifests.delete(name)
        names.clear()
