"""Finds the versions of a table that need a file, after a check finds it damaged.

Reads all manifests once more, and keeps which files each of them adds and deletes. It skips
unreadable manifests: their versions are damaged anyway.

Source: Paimon `operation/FileStoreScan.java` (the files of a version).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from stream_app.errors import CorruptFileError
from stream_app.filestore.versions.branches import branch_names
from stream_app.model.manifest_entry import FileKind
from stream_app.model.snapshot import CommitKind, Snapshot
from stream_app.model.version_kind import VersionKind
from stream_app.planning.check.needs import Needs, VersionName
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.versions.version_files import NamedVersion, named_versions

_T = TypeVar("_T")


@dataclass(slots=True)
class FileNeeds:
    """The versions that need each file; made by `file_needs`.

    Attributes:
        versions: all that exist.
    """

    table: FileStoreTable
    versions: list[VersionName] = field(default_factory=list)
    _named: defaultdict[str, list[VersionName]] = field(default_factory=lambda: defaultdict(list))
    """By the name of metadata and index files: the versions whose rows they describe."""
    _of_changes: defaultdict[str, list[VersionName]] = field(
        default_factory=lambda: defaultdict(list)
    )
    """By the name of metadata files: the versions whose changes they describe."""
    _gains: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    """By the name of a data file: how often each manifest adds it, less how often it deletes it."""
    _read: set[str] = field(default_factory=set)

    def of(self, path: str) -> Needs:
        """The versions that need a file of metadata, data or changes, by its path.

        Empty for any other file. A version needs its own file when that cannot be read.
        """
        name = path.rpartition("/")[2]
        rows = set(self._named.get(path, ())) | set(self._named.get(name, ()))
        changes = set(self._of_changes.get(path, ())) | set(self._of_changes.get(name, ()))
        live: Counter[VersionName] = Counter()
        for manifest, gained in self._gains.get(name, {}).items():
            for version in self._named.get(manifest, ()):
                live[version] += gained
            if gained > 0:
                changes |= set(self._of_changes.get(manifest, ()))
        rows |= {version for version, count in live.items() if count > 0}
        return Needs(frozenset(rows), frozenset(changes))

    def add(self, version: NamedVersion, name: VersionName, *, flushed_is_changelog: bool) -> None:
        """Add a version and the names in it."""
        self.versions.append(name)
        snapshot = version.snapshot
        if snapshot is None:
            is_changelog = version.kind is VersionKind.CHANGELOG
            (self._of_changes if is_changelog else self._named)[version.path].append(name)
        elif version.kind is VersionKind.CHANGELOG:
            changes = snapshot.changelog_manifest_list
            if changes is None and flushed_is_changelog and _is_append(snapshot):
                changes = snapshot.delta_manifest_list
            self._add_lists([changes], self._of_changes, name)
        else:
            lists = [snapshot.base_manifest_list, snapshot.delta_manifest_list]
            self._add_lists(lists, self._named, name)
            self._add_index(snapshot.index_manifest, name)
            if version.kind is VersionKind.SNAPSHOT:
                self._add_lists([snapshot.changelog_manifest_list], self._of_changes, name)

    def _add_lists(
        self,
        lists: Sequence[str | None],
        names: defaultdict[str, list[VersionName]],
        version: VersionName,
    ) -> None:
        for one in lists:
            if one is None:
                continue
            names[one].append(version)
            for meta in _unless_damaged(self.table.manifests.read_list, one):
                names[meta.file_name].append(version)
                if meta.file_name not in self._read:
                    self._read.add(meta.file_name)
                    self._add_manifest(meta.file_name)

    def _add_manifest(self, name: str) -> None:
        for entry in _unless_damaged(self.table.manifests.read_manifest, name):
            gained = 1 if entry.kind is FileKind.ADD else -1
            for file in (entry.file.file_name, *entry.file.extra_files):
                self._gains[file][name] += gained

    def _add_index(self, manifest: str | None, version: VersionName) -> None:
        if manifest is None:
            return
        self._named[manifest].append(version)
        for entry in _unless_damaged(self.table.manifests.read_index_manifest, manifest):
            self._named[entry.index_file.file_name].append(version)


def file_needs(table: FileStoreTable) -> FileNeeds:
    """Collect the needs of all versions of a table and of its branches."""
    needs = FileNeeds(table)
    for branch, there in [("", table), *_branches(table)]:
        for version in named_versions(there):
            name = _name(version, branch)
            needs.add(version, name, flushed_is_changelog=not table.options.writes_changelog)
    return needs


def _branches(table: FileStoreTable) -> Iterable[tuple[str, FileStoreTable]]:
    for name in branch_names(table.file_io, table.location):
        try:
            branch = table.open_branch(name)
        except CorruptFileError:
            continue
        if branch is not None:
            yield name, branch


def _name(version: NamedVersion, branch: str) -> VersionName:
    file = version.path.rpartition("/")[2].removeprefix(f"{version.kind.value}-")
    if version.kind is VersionKind.TAG:
        number = None if version.snapshot is None else version.snapshot.snapshot_id
        return VersionName(kind=VersionKind.TAG, number=number, tag=file, branch=branch)
    return VersionName(kind=version.kind, number=int(file), branch=branch)


def _is_append(snapshot: Snapshot) -> bool:
    return snapshot.commit_kind is CommitKind.APPEND


def _unless_damaged(read: Callable[[str], list[_T]], name: str) -> list[_T]:
    try:
        return read(name)
    except CorruptFileError:
        return []
