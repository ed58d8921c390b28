"""Finds the versions of a table that need a file, after a check finds it damaged.

It reads all manifests once more, and records which files each of them adds and deletes. It skips
unreadable manifests, because their versions are damaged anyway.

Source: Paimon `operation/FileStoreScan.java` (the files of a version).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import TypeVar

from stream_app.errors import CorruptFileError
from stream_app.filestore.versions.branch_folders import branch_names
from stream_app.model.files.manifest_entry import FileKind
from stream_app.model.snapshot import CommitKind, Snapshot, VersionKind
from stream_app.planning.check.damaged_file_needs import VersionName
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.opening import open_branch
from stream_app.table.versions.version_files import NamedVersion, named_versions

_T = TypeVar("_T")


@dataclass(slots=True)
class FileNeeds:
    """The versions that need each file; made by `file_needs`.

    Attributes:
        versions: all versions that exist.
    """

    table: FileStoreTable
    versions: list[VersionName] = field(default_factory=list)
    _versions_by_name: defaultdict[str, set[VersionName]] = field(
        init=False, default_factory=lambda: defaultdict(set)
    )
    """The name of a metadata or index file → the versions that need it."""
    _additions_by_file: defaultdict[str, Counter[str]] = field(
        init=False, default_factory=lambda: defaultdict(Counter)
    )
    """The name of a data file → for each manifest, how often it adds the file, less how often it
    deletes it."""

    def versions_with(self, path: str) -> set[VersionName]:
        """Return the versions that need the metadata, data or changelog file at a path.

        Any other path gives an empty set. A version whose own file is unreadable needs that file.
        """
        name = path.rpartition("/")[2]
        live_counts: Counter[VersionName] = Counter()
        for manifest, addition in self._additions_by_file[name].items():
            for version in self._versions_by_name[manifest]:
                live_counts[version] += addition
        return (
            self._versions_by_name[path]
            | self._versions_by_name[name]
            | {version for version in live_counts if live_counts[version] > 0}
        )

    def add(self, version: NamedVersion, branch: str) -> None:
        """Record a branch's version and the files that it names."""
        version_name, snapshot = _version_name(version, branch), version.snapshot
        self.versions.append(version_name)
        if snapshot is None:
            self._versions_by_name[version.path].add(version_name)
            return
        if version.kind is not VersionKind.CHANGELOG:
            self._add_list(snapshot.base_manifest_list, version_name)
            self._add_list(snapshot.delta_manifest_list, version_name)
            self._add_index(snapshot.index_manifest, version_name)
        if version.kind is not VersionKind.TAG:
            changelog_list = snapshot.changelog_manifest_list
            if version.kind is VersionKind.CHANGELOG and self._is_flushed_changelog(snapshot):
                changelog_list = changelog_list or snapshot.delta_manifest_list
            self._add_list(changelog_list, replace(version_name, is_changes=True))

    def _is_flushed_changelog(self, snapshot: Snapshot) -> bool:
        is_append = snapshot.commit_kind is CommitKind.APPEND
        return is_append and not self.table.options.writes_changelog

    def _add_list(self, manifest_list: str | None, version_name: VersionName) -> None:
        if manifest_list is None:
            return
        self._versions_by_name[manifest_list].add(version_name)
        for meta in _read_unless_damaged(self.table.manifests.read_list, manifest_list):
            if meta.file_name not in self._versions_by_name:
                self._add_manifest(meta.file_name)
            self._versions_by_name[meta.file_name].add(version_name)

    def _add_manifest(self, name: str) -> None:
        for entry in _read_unless_damaged(self.table.manifests.read_manifest, name):
            addition = 1 if entry.kind is FileKind.ADD else -1
            for file in (entry.file.file_name, *entry.file.extra_files):
                self._additions_by_file[file][name] += addition

    def _add_index(self, index_manifest: str | None, version_name: VersionName) -> None:
        if index_manifest is None:
            return
        self._versions_by_name[index_manifest].add(version_name)
        for entry in _read_unless_damaged(self.table.manifests.read_index_manifest, index_manifest):
            self._versions_by_name[entry.index_file.file_name].add(version_name)


def file_needs(table: FileStoreTable) -> FileNeeds:
    """Collect the needs of all versions of a table and of its branches."""
    needs = FileNeeds(table)
    for branch, branch_table in [("", table), *_branches(table)]:
        for version in named_versions(branch_table):
            needs.add(version, branch)
    return needs


def _branches(table: FileStoreTable) -> Iterable[tuple[str, FileStoreTable]]:
    for name in branch_names(table.file_io, table.location):
        try:
            branch_table = open_branch(table, name)
        except CorruptFileError:
            continue
        if branch_table is not None:
            yield name, branch_table


def _version_name(version: NamedVersion, branch: str) -> VersionName:
    kind, snapshot = version.kind, version.snapshot
    file = version.path.rpartition("/")[2].removeprefix(f"{kind.value}-")
    if kind is VersionKind.TAG:
        snapshot_id = None if snapshot is None else snapshot.snapshot_id
        return VersionName(kind=kind, snapshot_id=snapshot_id, tag=file, branch=branch)
    is_changes = kind is VersionKind.CHANGELOG
    return VersionName(kind=kind, snapshot_id=int(file), branch=branch, is_changes=is_changes)


def _read_unless_damaged(read: Callable[[str], list[_T]], name: str) -> list[_T]:
    try:
        return read(name)
    except CorruptFileError:
        return []
