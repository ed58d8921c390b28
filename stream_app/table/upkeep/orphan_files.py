"""Finds and deletes orphans, which are files of crashes that no version of a table names.

The search first lists all files that are old enough, and then reads the names that versions use. So
a commit in between is safe, whatever the age of its files. Versions are snapshots, tags and
long-lived changelogs, of the table and its branches. If a version cannot be read completely,
nothing is deleted, because its files cannot be determined.

No version names a writer's files until they are committed. Only their age protects them, so
`orphan_cutoff_ms` computes it conservatively. The search ignores folders that are not Paimon's, and
files outside of the table's folder except Iceberg's metadata (`iceberg_orphans`).

Source: Paimon `operation/OrphanFilesClean.java`, `operation/LocalOrphanFilesClean.java`; Paimon
ignores missing manifests.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from stream_app.errors import CorruptFileError
from stream_app.fileio.store_probes import store_now_ms
from stream_app.filestore.iceberg_files import is_paimon_metadata_file
from stream_app.filestore.versions.branch_folders import version_roots
from stream_app.model.snapshot import Snapshot, VersionKind
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.map_in_threads import map_in_threads, thread_count
from stream_app.table.upkeep.iceberg_orphans import IcebergMetadataFiles
from stream_app.table.versions.version_files import (
    NamedVersion,
    named_versions,
    snapshot_restored_from_tag,
    versions_below,
)

_METADATA = ("manifest", "index", "statistics")
"""Folders whose files are named by versions."""
_NAMED_BY_NOTHING = ("", "snapshot", "changelog", "schema", "tag", "consumer")
"""Folders whose files nothing names. The first is the folder of the table or branch itself."""
_LOG = logging.getLogger(__name__)
VERSION_FOLDERS = {"snapshot": "snapshot-", "changelog": "changelog-"}
"""Folders of versions → the prefix of their files' names; the folders have hints beside."""
HINTS = ("EARLIEST", "LATEST")
CLOCKS_APART_MS = 60_000
"""The difference of clocks beyond which the log reports that one of them is wrong."""


@dataclass(frozen=True, slots=True)
class OrphanCandidate:
    """A file that may be an orphan.

    Attributes:
        modification_time_ms: the modification time, in milliseconds since 1970 in UTC.
    """

    path: str
    size: int
    modification_time_ms: int

    @property
    def name(self) -> str:
        """The name without the folder."""
        return self.path.rpartition("/")[2]


def is_temporary_file(name: str) -> bool:
    """Return whether a file was left by an interrupted rename or deletion."""
    return (name.startswith(".") and name.endswith(".tmp")) or name.startswith(".probe-")


def may_be_cleaned(folder: str, name: str) -> bool:
    """Return whether a file of a folder without data can be an orphan.

    In folders of versions, any file that is neither a version nor a hint may be an orphan. Other
    folders hold files that no version names: schemas, tags, consumers. The table's own folder has
    an empty name. In these folders only temporary files may be orphans.
    """
    prefix = VERSION_FOLDERS.get(folder)
    if prefix is not None:
        return not name.startswith(prefix) and name not in HINTS
    return is_temporary_file(name)


def orphans(
    candidates: Iterable[OrphanCandidate], used_names: Collection[str], cutoff_time_ms: int
) -> list[OrphanCandidate]:
    """Return the candidates that were written before a time and whose name is unused, by path.

    File names are never reused, so the name suffices.
    """
    removable_candidates = [
        candidate
        for candidate in candidates
        if candidate.modification_time_ms < cutoff_time_ms and candidate.name not in used_names
    ]
    return sorted(removable_candidates, key=lambda candidate: candidate.path)


def emptied_folders(
    folders: Mapping[str, int], used_folders: Collection[str], cutoff_time_ms: int
) -> list[str]:
    """Return the folders that become empty, the inner ones first.

    A young folder stays, because a writer may have created it for a file that it is about to write.

    Args:
        folders: partition and bucket folders → the time of the last change in each (milliseconds
            since 1970 in UTC). An outer folder precedes its inner folders.
        used_folders: the folders in which files stay.
    """
    kept_folders = set(used_folders)
    empty_folders = []
    for folder in reversed(list(folders)):
        if folder in kept_folders or folders[folder] >= cutoff_time_ms:
            kept_folders.add(folder.rpartition("/")[0])
        else:
            empty_folders.append(folder)
    return empty_folders


@dataclass(frozen=True, slots=True, kw_only=True)
class OrphanPlan:
    """Files and folders that no version needs.

    Attributes:
        folders: the folders of buckets and partitions that may be empty, the inner ones first.
        version_count: the number of versions that were read.
    """

    files: tuple[OrphanCandidate, ...]
    folders: tuple[str, ...]
    version_count: int


def orphan_cutoff_ms(table: FileStoreTable, age_ms: int) -> int:
    """Return the time before which files have an age, by the local clock and the file system's.

    The slower clock decides. A fast clock would make the fresh files of a running writer look old.
    The log reports clocks that are far apart.

    Returns:
        Milliseconds since 1970 in UTC.

    Raises:
        OSError: the probe file, which shows the file system's time, cannot be written or deleted.
    """
    local_time_ms = table.clock.now_ms()
    store_time_ms = store_now_ms(table.file_io, table.location)
    if abs(local_time_ms - store_time_ms) > CLOCKS_APART_MS:
        _LOG.warning(
            "the clock of this machine is %d s %s that of the file system at %s: the slower "
            "clock decides the age of files; set the wrong clock",
            abs(local_time_ms - store_time_ms) // 1000,
            "ahead of" if local_time_ms > store_time_ms else "behind",
            table.location,
        )
    return min(local_time_ms, store_time_ms) - age_ms


def plan_orphans(table: FileStoreTable, cutoff_time_ms: int) -> OrphanPlan:
    """Return the files written before a time (ms since 1970 in UTC) that no version names.

    Raises:
        CorruptFileError: a version cannot be read completely, so its files cannot be determined.
    """
    roots = version_roots(table.file_io, table.location)
    candidates = [
        candidate for root in roots for candidate in _files_of_version_folders(table, root)
    ]
    for folder in _METADATA:
        candidates += _files(table, f"{table.location}/{folder}")
    iceberg = IcebergMetadataFiles.of_table(table)
    iceberg_files = (
        [] if iceberg is None else _iceberg_candidates(table, iceberg.iceberg_files.folder)
    )
    candidates += iceberg_files
    change_times, bucket_folders = _data_folders(table)
    listings = map_in_threads(
        thread_count(table), lambda folder: _files(table, folder), bucket_folders
    )
    candidates += [candidate for listing in listings for candidate in listing]
    name_collector = _UsedNameCollector(table)
    version_count = 0
    for root in roots:
        for version in versions_below(table.file_io, root):
            name_collector.add(version, is_of_branch=root != table.location)
            version_count += 1
    if iceberg is not None:
        name_collector.names |= iceberg.used_names({candidate.name for candidate in iceberg_files})
    removable_files = orphans(candidates, name_collector.names, cutoff_time_ms)
    removable_paths = {file.path for file in removable_files}
    used_folders = {
        candidate.path.rpartition("/")[0]
        for candidate in candidates
        if candidate.path not in removable_paths
    }
    return OrphanPlan(
        files=tuple(removable_files),
        folders=tuple(emptied_folders(change_times, used_folders, cutoff_time_ms)),
        version_count=version_count,
    )


def delete_orphans(table: FileStoreTable, plan: OrphanPlan) -> None:
    """Delete the orphans, and then the empty folders of buckets and partitions.

    Raises:
        OSError: the file system refused; the next run finds the rest.
    """
    threads = thread_count(table)
    map_in_threads(threads, table.file_io.delete, [file.path for file in plan.files])
    # One after another: a partition's folder is empty only when its buckets are deleted.
    for folder in plan.folders:
        table.file_io.delete_empty_folder(folder)


class _UsedNameCollector:
    """A collector of the names of all files that versions need; it reads each manifest once."""

    def __init__(self, table: FileStoreTable) -> None:
        self.names: set[str] = set()
        self._table = table
        self._restored_snapshot = snapshot_restored_from_tag(named_versions(table))

    def add(self, version: NamedVersion, *, is_of_branch: bool) -> None:
        """Add all names that a version uses, unless the version has expired meanwhile.

        Args:
            is_of_branch: whether the version is a branch's, and not the main branch's.
        """
        try:
            self._add_version(version, is_of_branch=is_of_branch)
        except CorruptFileError as error:
            if not self._table.file_io.exists(version.path):
                return
            raise CorruptFileError(
                f"nothing is deleted, because {version.path.rpartition('/')[2]} cannot be read "
                f"completely: {error.problem}",
                where=error.where,
                fix="if an expiry is running, try again after it; if one was interrupted, finish "
                "it: stream-app expire-snapshots; else restore the file, or roll the table "
                "back or delete the tag",
            ) from error

    def _add_version(self, version: NamedVersion, *, is_of_branch: bool) -> None:
        snapshot = version.snapshot
        if snapshot is None:
            raise CorruptFileError(version.problem, where=version.path)
        # Expiry deletes what a long-lived changelog or a tag's changelog no longer needs. Paimon's
        # expiry of the main table also deletes changelogs that a branch began with.
        is_partial = version.kind is VersionKind.CHANGELOG
        may_lack_changelog = (
            version.kind is VersionKind.TAG or is_of_branch or snapshot == self._restored_snapshot
        )
        self._add_list(snapshot.base_manifest_list, may_be_gone=is_partial)
        self._add_list(snapshot.delta_manifest_list, may_be_gone=is_partial)
        self._add_list(snapshot.changelog_manifest_list, may_be_gone=may_lack_changelog)
        self._add_index(snapshot, may_be_gone=is_partial)
        if snapshot.statistics is not None:
            self.names.add(snapshot.statistics)

    def _add_list(self, name: str | None, *, may_be_gone: bool) -> None:
        """Add the names of a manifest list, of its manifests and of their files."""
        if name is None or name in self.names or (may_be_gone and not self._exists(name)):
            return
        manifests = self._table.manifests
        metas = [meta for meta in manifests.read_list(name) if meta.file_name not in self.names]
        if may_be_gone:
            metas = [meta for meta in metas if self._exists(meta.file_name)]
        entry_lists = map_in_threads(
            thread_count(self._table),
            lambda meta: manifests.read_manifest(meta.file_name, meta.file_size),
            metas,
        )
        for entries in entry_lists:
            for entry in entries:
                self.names.add(entry.file.file_name)
                self.names.update(entry.file.extra_files)
        # Add the names last, because a name here means that the file was read.
        self.names.update(meta.file_name for meta in metas)
        self.names.add(name)

    def _add_index(self, snapshot: Snapshot, *, may_be_gone: bool) -> None:
        name = snapshot.index_manifest
        if name is None or name in self.names or (may_be_gone and not self._exists(name)):
            return
        entries = self._table.manifests.read_index_manifest(name)
        self.names.update(entry.index_file.file_name for entry in entries)
        self.names.add(name)

    def _exists(self, name: str) -> bool:
        return self._table.file_io.exists(self._table.paths.manifest(name))


def _files_of_version_folders(table: FileStoreTable, root: str) -> Iterator[OrphanCandidate]:
    for folder in _NAMED_BY_NOTHING:
        for candidate in _files(table, f"{root}/{folder}".rstrip("/")):
            if may_be_cleaned(folder, candidate.name):
                yield candidate


def _iceberg_candidates(table: FileStoreTable, folder: str) -> list[OrphanCandidate]:
    return [
        candidate
        for candidate in _files(table, folder)
        if is_paimon_metadata_file(candidate.name) or is_temporary_file(candidate.name)
    ]


def _files(table: FileStoreTable, folder: str) -> list[OrphanCandidate]:
    return [
        OrphanCandidate(f"{folder}/{status.name}", status.size, status.modification_time_ms)
        for status in table.file_io.list_status(folder)
        if not status.is_folder
    ]


def _data_folders(table: FileStoreTable) -> tuple[dict[str, int], list[str]]:
    """Return the change times of partition and bucket folders, and the bucket folders alone.

    An outer folder precedes its inner folders.
    """

    def inner_folders(folders: Iterable[str], pattern: str) -> dict[str, int]:
        return {
            f"{folder}/{status.name}": status.modification_time_ms
            for folder in folders
            for status in table.file_io.list_status(folder)
            if status.is_folder and re.match(pattern, status.name)
        }

    change_times: dict[str, int] = {}
    folders = [table.paths.data_root]
    for pattern in (*("[^=]*=" for _ in table.schema.partition_keys), "bucket-"):
        times = inner_folders(folders, pattern)
        change_times |= times
        folders = list(times)
    return change_times, folders
