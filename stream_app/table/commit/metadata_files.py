"""The metadata files of one commit: written, reused by its retries, and taken back.

Used by file_store_commit. Until a snapshot names them they are orphans.

Source: Paimon `operation/FileStoreCommitImpl.java#tryCommitOnce`,
`operation/commit/CommitCleaner.java`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from stream_app.model.index_file_meta import IndexManifestEntry
from stream_app.model.manifest_entry import FileKind, ManifestFileMeta
from stream_app.model.snapshot import Snapshot
from stream_app.table.commit.commit_changes import CommitChanges
from stream_app.table.commit.manifest_merger import ManifestMerger
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.versions.deletion_vectors import new_index_manifest
from stream_app.table.versions.file_store_scan import FileStoreScan

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
class NewestManifests:
    """The manifests of the snapshot that a committer made last, which its next one inherits.

    The key is the name of the delta list. It is unique, so the value never becomes stale.
    """

    _delta: str = ""
    _metas: list[ManifestFileMeta] = field(default_factory=list)

    def note(self, delta: str, metas: list[ManifestFileMeta]) -> None:
        """A snapshot with this delta list has these manifests."""
        self._delta, self._metas = delta, metas

    def of(self, table: FileStoreTable, snapshot: Snapshot) -> list[ManifestFileMeta]:
        """The manifests of a snapshot, oldest first; cached for the last one that we made."""
        if snapshot.delta_manifest_list == self._delta:
            return self._metas
        return FileStoreScan(table).manifests(snapshot)


@dataclass(slots=True)
class CommitFiles:
    """Files of one commit. An attempt begins with `write` and, when lost, ends with `take_back`."""

    table: FileStoreTable
    newest: NewestManifests
    _changes: CommitChanges | None = None
    _computed: tuple[IndexManifestEntry, ...] = ()
    _delta: ManifestList = ("", 0)
    _base_metas: list[ManifestFileMeta] = field(default_factory=list)
    _delta_metas: list[ManifestFileMeta] = field(default_factory=list)
    _changelog: ManifestList | None = None
    _of_changes: list[str] = field(default_factory=list)
    _of_attempt: list[str] = field(default_factory=list)
    _of_merge: list[str] = field(default_factory=list)
    _before: list[ManifestFileMeta] | None = None
    _after: list[ManifestFileMeta] = field(default_factory=list)

    @property
    def name(self) -> str:
        """Name of the delta list; unique to this commit."""
        return self._delta[0]

    def write(
        self,
        latest: Snapshot | None,
        changes: CommitChanges,
        computed: tuple[IndexManifestEntry, ...] = (),
    ) -> CommitLists:
        """Write the files that a snapshot on top of `latest` names.

        Args:
            computed: changes of index files that fit `latest` alone; `take_back` deletes those that
                were added.
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

    def note_made(self) -> None:
        """A snapshot names the files of the last attempt."""
        self.newest.note(self.name, self._base_metas + self._delta_metas)

    def take_back(self) -> None:
        """Delete the files that only fit the base of the last attempt."""
        for entry in self._computed:
            if entry.kind is FileKind.ADD:
                self.table.deletion_vector_files.delete(entry)
        self._delete(self._of_attempt)

    def take_back_all(self) -> None:
        """Delete everything: no snapshot names it, nor will."""
        self._delete(self._of_attempt)
        self._delete(self._of_merge)
        self._delete(self._of_changes)

    def _write_changes(self, changes: CommitChanges) -> None:
        self._delete(self._of_changes)
        files = self.table.manifests
        delta = files.write_manifests(changes.entries)
        changelog = files.write_manifests(changes.changelog)
        self._delta, self._delta_metas = files.write_list(delta), delta
        self._changelog = files.write_list(changelog) if changelog else None
        self._of_changes += [meta.file_name for meta in (*delta, *changelog)]
        self._of_changes += [written[0] for written in (self._delta, self._changelog) if written]

    def _write_base_list(self, latest: Snapshot | None) -> ManifestList:
        metas = self.newest.of(self.table, latest) if latest else []
        self._base_metas = self._merged(metas)
        base = self.table.manifests.write_list(self._base_metas)
        self._of_attempt.append(base[0])
        return base

    def _merged(self, metas: list[ManifestFileMeta]) -> list[ManifestFileMeta]:
        """Merge in the first attempt. A retry reuses the result, or does without.

        Merging takes time, in which the committer would lose the next race.
        """
        if self._before is None:
            merged = ManifestMerger(self.table).merge(metas)
            inherited = {meta.file_name for meta in metas}
            self._of_merge = [m.file_name for m in merged if m.file_name not in inherited]
            self._before, self._after = metas, merged
            return merged
        count = len(self._before)
        if metas[:count] == self._before:
            return self._after + metas[count:]
        self._delete(self._of_merge)
        self._before, self._after = [], []
        return metas

    def _delete(self, names: list[str]) -> None:
        for name in names:
            self.table.manifests.delete(name)
        names.clear()
