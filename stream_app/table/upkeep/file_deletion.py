"""Collects the files that no retained version needs, and deletes them in a crash-safe order.

Expiry of snapshots and changelogs, deletion of tags, and rollback use it. They collect a
`FilesToDelete`, which a dry run prints and `delete_files` deletes. A file is deleted after the
files that it names, so a rerun after a crash can still find the rest. `ProtectedVersions` are tags
and all versions of other branches, whose files are retained. If the table is opened at a branch,
the main branch is one of these other branches.

Source: Paimon `operation/FileDeletionBase.java`, `utils/TagManager.java#taggedSnapshots`,
`utils/BranchManager.java`. Paimon's expiry ignores other branches.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field

from stream_app.errors import CorruptFileError
from stream_app.fileio.recent_files import RecentFiles
from stream_app.filestore.versions.branch_folders import version_roots
from stream_app.model.files.manifest_entry import ManifestEntry
from stream_app.model.snapshot import Snapshot, VersionKind
from stream_app.planning.upkeep.unused_files import FileKey, latest_tag_before, tags_of_range
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.map_in_threads import map_in_threads, thread_count
from stream_app.table.upkeep.manifest_cache import ManifestCache
from stream_app.table.versions.version_files import NamedVersion, versions_below

_CACHED_FILES_MAX = 1_000_000
"""The number of files that the cache keeps, of all versions."""


@dataclass(frozen=True, slots=True)
class NeededFiles:
    """The files that a version needs: data files, and the names of metadata and index files."""

    data_files: frozenset[FileKey]
    names: frozenset[str]


NeededFilesCache = RecentFiles[NeededFiles]
"""The files that versions need by their delta lists, kept from one expiry to the next."""


def needed_files_cache() -> NeededFilesCache:
    """Return an empty cache of the files that versions need."""
    return RecentFiles(
        _CACHED_FILES_MAX,
        lambda needed_files: len(needed_files.data_files) + len(needed_files.names),
    )


@dataclass(frozen=True, slots=True)
class ProtectedVersions:
    """The tags of a branch and all versions of the table's other branches, at one moment.

    Attributes:
        tags: the tagged snapshots by number, ascending.
        other_branches: for each other branch, all of its snapshots, tags and long-lived changelogs.
            A branch shares the snapshots up to its beginning with the branch from which it was
            created. After a fast-forward the main branch shares all snapshots of the other branch,
            and each expires them on its own.
    """

    tags: dict[int, Snapshot]
    other_branches: tuple[tuple[NamedVersion, ...], ...]

    @property
    def others_changelogs(self) -> frozenset[str]:
        """The changelog lists of other branches; a tag does not keep its changelog."""
        versions = (version for branch in self.other_branches for version in branch)
        untagged_versions = (version for version in versions if version.kind is not VersionKind.TAG)
        lists = (_snapshot_of(version).changelog_manifest_list for version in untagged_versions)
        return frozenset(name for name in lists if name is not None)

    def snapshots_of_others(self) -> Iterator[Snapshot]:
        """Yield all versions of other branches."""
        for branch in self.other_branches:
            yield from map(_snapshot_of, branch)

    def files_needed(
        self, snapshot_id: int, manifest_cache: ManifestCache, cache: NeededFilesCache
    ) -> list[Collection[FileKey]]:
        """Return sets of retained files, which may include files that the snapshot's delta deletes.

        Raises:
            CorruptFileError: a version's metadata is incomplete, so its files cannot be determined.
        """
        tagged_id = latest_tag_before(tuple(self.tags), snapshot_id)
        needed_files = self.needed_by_others(manifest_cache, cache)
        if tagged_id is not None:
            needed_files.append(_files_of_version(self.tags[tagged_id], manifest_cache, cache))
        return [version_files.data_files for version_files in needed_files]

    def needed_by_others(
        self, manifest_cache: ManifestCache, cache: NeededFilesCache
    ) -> list[NeededFiles]:
        """Return the files of other branches.

        Raises:
            CorruptFileError: as `files_needed`.
        """
        return [
            needed_files
            for branch in self.other_branches
            for needed_files in _files_of_branch(branch, manifest_cache, cache)
        ]

    def of_range(self, start: int, end: int, *, includes_next: bool = False) -> list[Snapshot]:
        """Return tagged versions that may share metadata with snapshots in [`start`, `end`).

        Args:
            includes_next: whether to add the first tag from `end` on. The version at `end` may have
                lost its metadata, and then its shared files are unknown.
        """
        tagged_ids = tuple(self.tags)
        snapshot_ids = tags_of_range(tagged_ids, start, end)
        if includes_next:
            snapshot_ids += [snapshot_id for snapshot_id in tagged_ids if snapshot_id >= end][:1]
        return [self.tags[snapshot_id] for snapshot_id in snapshot_ids]


def _files_of_branch(
    versions: Iterable[NamedVersion], manifest_cache: ManifestCache, cache: NeededFilesCache
) -> Iterator[NeededFiles]:
    """Yield the files of a branch; for consecutive snapshots only the added files."""
    previous_id: int | None = None
    for version in versions:
        snapshot = _snapshot_of(version)
        try:
            if version.kind is VersionKind.CHANGELOG:
                yield _files_added_by(snapshot, manifest_cache, cache, may_be_gone=True)
            elif version.kind is VersionKind.TAG or snapshot.snapshot_id - 1 != previous_id:
                yield _files_of_version(snapshot, manifest_cache, cache)
            else:
                yield _files_added_by(snapshot, manifest_cache, cache)
        except CorruptFileError:
            if manifest_cache.table.file_io.exists(version.path):
                raise
            continue  # the version expired after it was listed
        if version.kind is VersionKind.SNAPSHOT:
            previous_id = snapshot.snapshot_id


def _files_of_version(
    snapshot: Snapshot, manifest_cache: ManifestCache, cache: NeededFilesCache
) -> NeededFiles:
    def read() -> NeededFiles:
        return NeededFiles(
            manifest_cache.live_files(snapshot), frozenset(manifest_cache.names(snapshot))
        )

    return cache.get(f"whole {snapshot.delta_manifest_list}", read)


def _files_added_by(
    snapshot: Snapshot,
    manifest_cache: ManifestCache,
    cache: NeededFilesCache,
    *,
    may_be_gone: bool = False,
) -> NeededFiles:
    def read() -> NeededFiles:
        names = manifest_cache.names(snapshot, may_be_gone=may_be_gone)
        added_files = manifest_cache.added_files(snapshot, may_be_gone=may_be_gone)
        return NeededFiles(added_files, frozenset(names))

    return cache.get(f"added {snapshot.delta_manifest_list}", read)


def _snapshot_id(version: NamedVersion) -> int:
    return _snapshot_of(version).snapshot_id


def _snapshot_of(version: NamedVersion) -> Snapshot:
    if version.snapshot is None:
        raise CorruptFileError(
            version.problem,
            where=version.path,
            fix="restore the file from a backup, or delete it: stream-app remove-orphan-files "
            "then finds what it alone has named",
        )
    return version.snapshot


def protected_versions_of(
    table: FileStoreTable, names: Iterable[str] | None = None
) -> ProtectedVersions:
    """Read the existing tags, and the versions of the table's other branches.

    Args:
        names: the tags' names, if the caller has just listed them.

    Raises:
        CorruptFileError: a tag or a branch's snapshot cannot be read.
    """
    roots = version_roots(table.file_io, table.location)

    def read_versions(root: str) -> tuple[NamedVersion, ...]:
        return tuple(sorted(versions_below(table.file_io, root), key=_snapshot_id))

    other_roots = [root for root in roots if root != table.version_root]
    other_versions = map_in_threads(thread_count(table), read_versions, other_roots)
    tags = table.tags.tags() if names is None else table.tags.tags_named(names)
    snapshots_by_id = {tag.snapshot.snapshot_id: tag.snapshot for tag in tags}
    return ProtectedVersions(dict(sorted(snapshots_by_id.items())), tuple(other_versions))


@dataclass(slots=True)
class FilesToDelete:
    """Files by kind, as path → bytes, or 0 if the size is unknown.

    Attributes:
        lists: manifest lists and index manifests, which name other metadata.
        folders: the folders of buckets and partitions with deleted files, the inner ones first.
        settled_names: names of metadata and index files that are already collected or retained.
    """

    data_files: dict[str, int] = field(default_factory=dict)
    changelog_files: dict[str, int] = field(default_factory=dict)
    manifests: dict[str, int] = field(default_factory=dict)
    index_files: dict[str, int] = field(default_factory=dict)
    lists: dict[str, int] = field(default_factory=dict)
    statistics: dict[str, int] = field(default_factory=dict)
    folders: dict[str, None] = field(default_factory=dict)
    settled_names: set[str] = field(default_factory=set)

    def retain(self, names: Iterable[str]) -> None:
        """Never collect metadata and index files of these names."""
        self.settled_names.update(names)

    @property
    def count(self) -> int:
        """The number of files."""
        return sum(len(step) for step in self.steps())

    @property
    def byte_count(self) -> int:
        """The bytes of the files whose size is known."""
        return sum(sum(step.values()) for step in self.steps())

    def steps(self) -> tuple[dict[str, int], ...]:
        """Return all files by kind, in the order of deletion."""
        return (
            self.data_files,
            self.changelog_files,
            self.manifests,
            self.index_files,
            self.statistics,
            self.lists,
        )


@dataclass(slots=True)
class FileCollector:
    """A collector of the files to delete.

    Attributes:
        files: the collected files. Retain names before you add files.
    """

    manifest_cache: ManifestCache
    files: FilesToDelete = field(default_factory=FilesToDelete)

    @property
    def _table(self) -> FileStoreTable:
        return self.manifest_cache.table

    def keep_metadata_of(self, snapshots: Iterable[Snapshot], *, may_be_gone: bool = False) -> None:
        """Retain metadata and index files of versions; see `ManifestCache.names`.

        Raises:
            CorruptFileError: a version's metadata is incomplete, so its files cannot be determined.
        """
        for snapshot in snapshots:
            self.files.retain(self.manifest_cache.names(snapshot, may_be_gone=may_be_gone))

    def keep_files_of_others(
        self, protected_versions: ProtectedVersions, cache: NeededFilesCache
    ) -> list[Collection[FileKey]]:
        """Retain metadata and index files of other branches, and return their data files.

        Raises:
            CorruptFileError: as `keep_metadata_of`.
        """
        needed_files = protected_versions.needed_by_others(self.manifest_cache, cache)
        for version_files in needed_files:
            self.files.retain(version_files.names)
        return [version_files.data_files for version_files in needed_files]

    def add_data_files(self, entries: Iterable[ManifestEntry]) -> None:
        """Add data files and the files beside them.

        Raises:
            UnsupportedTableError: a file is on another file system than the table.
        """
        self._add_files(self.files.data_files, entries)

    def add_changelog_files(self, entries: Iterable[ManifestEntry]) -> None:
        """Add changelog files."""
        self._add_files(self.files.changelog_files, entries)

    def add_manifest_list(self, name: str | None, size: int | None) -> None:
        """Add a manifest list and its manifests, unless the list is gone."""
        metas = None if name is None else self.manifest_cache.metas(name)
        if name is None or metas is None:
            return
        for meta in metas:
            if self._is_new(meta.file_name):
                path = self._table.paths.manifest(meta.file_name)
                self.files.manifests[path] = meta.file_size
        if self._is_new(name):
            self.files.lists[self._table.paths.manifest(name)] = size or 0

    def add_manifest_lists(self, snapshot: Snapshot) -> None:
        """Add a version's base and delta lists, and their manifests."""
        self.add_manifest_list(snapshot.base_manifest_list, snapshot.base_manifest_list_size)
        self.add_manifest_list(snapshot.delta_manifest_list, snapshot.delta_manifest_list_size)

    def add_indexes(self, snapshot: Snapshot) -> None:
        """Add a snapshot's index files, index manifest and statistics."""
        paths = self._table.paths
        name = snapshot.index_manifest
        if name is not None:
            for entry in self.manifest_cache.index_entries(name) or ():
                file = entry.index_file
                if self._is_new(file.file_name):
                    path = paths.index_file(entry.partition, entry.bucket, file)
                    self.files.index_files[path] = file.file_size
            if self._is_new(name):
                self.files.lists[paths.manifest(name)] = 0
        if snapshot.statistics is not None and self._is_new(snapshot.statistics):
            self.files.statistics[paths.statistics(snapshot.statistics)] = 0

    def _add_files(self, sizes: dict[str, int], entries: Iterable[ManifestEntry]) -> None:
        paths = self._table.paths
        for entry in entries:
            path = paths.data_file(entry.partition, entry.bucket, entry.file)
            sizes[path] = entry.file.file_size
            folder = path.rpartition("/")[0]
            for extra_path in paths.extra_files(entry.partition, entry.bucket, entry.file):
                sizes[extra_path] = 0
            if folder not in self.files.folders:
                self.files.folders[folder] = None

    def _is_new(self, name: str) -> bool:
        if name in self.files.settled_names:
            return False
        self.files.settled_names.add(name)
        return True


def delete_files(table: FileStoreTable, files: FilesToDelete, *, cleans_folders: bool) -> None:
    """Delete the files, kind after kind. A missing file is not an error.

    First it syncs the deletions of versions and tags. Otherwise a machine crash could restore a
    version whose files are already deleted. Data files that reappear after a crash are orphans.

    Args:
        cleans_folders: whether to delete empty folders too (``snapshot.clean-empty-directories``).

    Raises:
        OSError: the file system refused; a repetition deletes the rest.
    """
    if not files.count:
        return
    for versions in (table.snapshots, table.changelogs, table.tags):
        versions.sync_deletions()
    threads = thread_count(table)
    for step in files.steps():
        if step is files.manifests and cleans_folders:  # their names are still known
            _delete_empty_folders(table, files.folders)
        map_in_threads(threads, table.file_io.delete, step)


def _delete_empty_folders(table: FileStoreTable, folders: Iterable[str]) -> None:
    """Delete empty bucket folders first, then their partitions' folders, the innermost first."""
    root = table.paths.data_root
    level = {folder for folder in folders if folder.startswith(f"{root}/")}
    depth = len(table.schema.partition_keys)
    for _ in range(depth + 1):
        map_in_threads(thread_count(table), table.file_io.delete_empty_folder, sorted(level))
        level = {folder.rpartition("/")[0] for folder in level} - {root}
