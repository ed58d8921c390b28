"""Lists the files of a table, and those that a version names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from stream_app.filestore.manifests.manifest_files import ManifestFiles
from stream_app.filestore.versions.branch_folders import branch_names
from stream_app.model.snapshot import CommitKind, Snapshot
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.opening import open_branch
from stream_app.table.versions.file_store_scan import FileStoreScan
from tests.support.files.memory_file_io import MemoryFileIO

_VERSIONS = ("schema", "snapshot", "changelog", "tag", "consumer", "branch")
"""Folders whose files nobody names."""


def files_of(table: FileStoreTable) -> dict[str, int]:
    """Names and sizes of all files of a table but those that tell versions."""
    files = table.file_io
    assert isinstance(files, MemoryFileIO)
    sizes: dict[str, int] = {}
    folders = [table.location]
    while folders:
        folder = folders.pop()
        for status in files.list_status(folder):
            if not status.is_folder:
                sizes[status.name] = status.size
            elif status.name not in _VERSIONS:
                folders.append(f"{folder}/{status.name}")
    return sizes


def named_files(table: FileStoreTable) -> dict[str, int]:
    """Names and sizes of all files that must be there; an index manifest's is not told."""
    rows: dict[str, int] = {}
    for number in table.snapshots.ids():
        snapshot = table.snapshots.snapshot(number)
        rows |= _rows_of(table, snapshot)
        rows |= _changelog_of(table, snapshot)
    for tag in table.tags.tags():
        rows |= _rows_of(table, tag.snapshot)
    for branch in branches_of(table):
        for number in branch.snapshots.ids():
            rows |= _rows_of(table, branch.snapshots.snapshot(number))
    for number in table.changelogs.ids():
        changelog = table.changelogs.changelog(number)
        if changelog.changelog_manifest_list is not None:
            rows |= _changelog_of(table, changelog)
        elif not table.options.writes_changelog:
            rows |= _flushed(table, changelog)
    return rows


def branches_of(table: FileStoreTable) -> list[FileStoreTable]:
    """The branches that there are, as tables."""
    names = branch_names(table.file_io, table.location)
    return [branch for name in names if (branch := open_branch(table, name)) is not None]


def files_left(table: FileStoreTable) -> set[str]:
    """Names of the files that nobody needs, and that no expiry will find."""
    return files_of(table).keys() - named_files(table).keys() - _may_stay(table)


def _may_stay(table: FileStoreTable) -> set[str]:
    """Return the files of long-lived changelogs: old lists, and files that left the table.

    The files that one version removes are the changelog of those before it, and go with it. A
    branch's version keeps its changelog if this existed when the branch was made.
    """
    versions = [table.changelogs.changelog(number) for number in table.changelogs.ids()]
    lists = {version.base_manifest_list for version in versions} & files_of(table).keys()
    names = lists | {meta.file_name for name in lists for meta in table.manifests.read_list(name)}
    for branch in branches_of(table):
        of_branch = map(branch.snapshots.snapshot, branch.snapshots.ids())
        for version in of_branch:
            if version.changelog_manifest_list in files_of(table):
                names |= _changelog_of(table, version).keys()
    earliest = table.snapshots.earliest_id()
    if versions and earliest is not None and not table.options.writes_changelog:
        for version in (*versions, table.snapshots.snapshot(earliest)):
            names |= {entry.file.file_name for entry in FileStoreScan(table).delta(version)}
    return names


def _rows_of(table: FileStoreTable, version: Snapshot) -> dict[str, int]:
    sizes = _listed(table, version.base_manifest_list, version.base_manifest_list_size)
    sizes |= _listed(table, version.delta_manifest_list, version.delta_manifest_list_size)
    if version.index_manifest is not None:
        path = table.paths.manifest(version.index_manifest)
        sizes[version.index_manifest] = table.file_io.size(path)
        for entry in table.manifests.read_index_manifest(version.index_manifest):
            sizes[entry.index_file.file_name] = entry.index_file.file_size
    live = FileStoreScan(table).live(version)
    return sizes | {entry.file.file_name: entry.file.file_size for entry in live}


def _changelog_of(table: FileStoreTable, version: Snapshot) -> dict[str, int]:
    if version.changelog_manifest_list is None:
        return {}
    size = version.changelog_manifest_list_size
    sizes = _listed(table, version.changelog_manifest_list, size)
    entries = FileStoreScan(table).changelog(version)
    return sizes | {entry.file.file_name: entry.file.file_size for entry in entries}


def _flushed(table: FileStoreTable, version: Snapshot) -> dict[str, int]:
    """Return the files that an epoch added; without another changelog they are its changes."""
    sizes = _listed(table, version.delta_manifest_list, version.delta_manifest_list_size)
    if version.commit_kind is CommitKind.APPEND:
        for entry in FileStoreScan(table).delta(version):
            sizes[entry.file.file_name] = entry.file.file_size
    return sizes


def _listed(table: FileStoreTable, name: str, size: int | None) -> dict[str, int]:
    manifests = {meta.file_name: meta.file_size for meta in table.manifests.read_list(name)}
    return manifests if size is None else {name: size, **manifests}


@dataclass
class _RememberedManifests:
    """Decodes each manifest once: that they are there, and as long as they were, is seen apart."""

    manifests: ManifestFiles
    contents: dict[str, list[Any]] = field(default_factory=dict)

    def read_list(self, name: str, size: int | None = None) -> list[Any]:
        return self._once(name, lambda: self.manifests.read_list(name, size))

    def read_manifest(self, name: str, size: int | None = None) -> list[Any]:
        return self._once(name, lambda: self.manifests.read_manifest(name, size))

    def read_index_manifest(self, name: str | None) -> list[Any]:
        return self._once(name or "", lambda: self.manifests.read_index_manifest(name))

    def _once(self, name: str, read: Callable[[], list[Any]]) -> list[Any]:
        if name not in self.contents:
            self.contents[name] = read()
        return self.contents[name]


def with_memory(table: FileStoreTable) -> FileStoreTable:
    """The table, which reads each manifest once."""
    remembering = replace(table)
    remembering.__dict__["manifests"] = _RememberedManifests(table.manifests)
    return remembering
