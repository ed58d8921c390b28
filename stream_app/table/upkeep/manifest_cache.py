"""Reads manifests for deletions: each at most once, in parallel and without statistics.

An earlier expiry may have crashed after it deleted some of these lists and manifests. They name no
more files to delete, because an expiry deletes files before the manifests that name them. A partly
readable list proves nothing, because the ADD that protects a file may be in the missing part.

Source: Paimon `operation/FileDeletionBase.java`, `manifest/ExpireFileEntry.java`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import TypeVar

from stream_app.errors import CorruptFileError
from stream_app.model.files.data_file_meta import EMPTY_ROW, EMPTY_STATS
from stream_app.model.files.index_file_meta import IndexManifestEntry
from stream_app.model.files.manifest_entry import FileKind, ManifestEntry, ManifestFileMeta
from stream_app.model.snapshot import Snapshot
from stream_app.planning.commit.live_entries import live_entries
from stream_app.planning.upkeep.unused_files import FileKey, file_key
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.map_in_threads import map_in_threads, thread_count

_LOG = logging.getLogger(__name__)
_T = TypeVar("_T")


@dataclass(slots=True)
class ManifestCache:
    """A cache of one table's manifests, for one expiry.

    A list is None if it is gone or unreadable; an unreadable one is logged.
    """

    table: FileStoreTable
    _lists: dict[str, list[ManifestFileMeta] | None] = field(init=False, default_factory=dict)
    _manifests: dict[str, list[ManifestEntry] | None] = field(init=False, default_factory=dict)
    _indexes: dict[str, list[IndexManifestEntry] | None] = field(init=False, default_factory=dict)

    def prefetch(self, lists: Iterable[str | None], *, includes_manifests: bool) -> None:
        """Read lists, and the manifests that they name, in parallel."""
        names = [name for name in dict.fromkeys(lists) if name]
        unread_names = [name for name in names if name not in self._lists]
        threads = thread_count(self.table)
        meta_lists = map_in_threads(threads, self._read_list, unread_names)
        self._lists.update(zip(unread_names, meta_lists, strict=True))
        if includes_manifests:
            metas = {meta.file_name: meta for name in names for meta in self._lists[name] or ()}
            unread_metas = [meta for name, meta in metas.items() if name not in self._manifests]
            entry_lists = map_in_threads(threads, self._read_manifest, unread_metas)
            self._manifests.update(
                zip((meta.file_name for meta in unread_metas), entry_lists, strict=True)
            )

    def metas(self, name: str) -> list[ManifestFileMeta] | None:
        """Return the manifests of a list."""
        if name not in self._lists:
            self._lists[name] = self._read_list(name)
        return self._lists[name]

    def entries(self, name: str) -> list[ManifestEntry] | None:
        """Return the entries of all manifests of a list, in order, without statistics."""
        metas = self.metas(name)
        if metas is None:
            return None
        entries: list[ManifestEntry] = []
        for meta in metas:
            if meta.file_name not in self._manifests:
                self._manifests[meta.file_name] = self._read_manifest(meta)
            manifest_entries = self._manifests[meta.file_name]
            if manifest_entries is None:
                return None
            entries += manifest_entries
        return entries

    def added_entries(self, name: str) -> list[ManifestEntry]:
        """Return the ADD entries of a list's manifests, as far as the manifests still exist."""
        manifests = [self._manifests.get(meta.file_name) for meta in self.metas(name) or ()]
        entries = [entry for manifest_entries in manifests for entry in manifest_entries or ()]
        return [entry for entry in entries if entry.kind is FileKind.ADD]

    def index_entries(self, name: str) -> list[IndexManifestEntry] | None:
        """Return the index files of an index manifest."""
        if name not in self._indexes:
            read = self.table.manifests.read_index_manifest
            self._indexes[name] = self._read_unless_gone(name, read)
        return self._indexes[name]

    def live_files(self, snapshot: Snapshot) -> frozenset[FileKey]:
        """Return the data files of a retained version.

        Raises:
            CorruptFileError: a manifest is missing or unreadable, so the files to keep are unknown.
        """
        lists = (snapshot.base_manifest_list, snapshot.delta_manifest_list)
        entries = self._entries_of(lists, may_be_gone=False)
        return frozenset(file_key(entry) for entry in live_entries(entries))

    def added_files(self, snapshot: Snapshot, *, may_be_gone: bool = False) -> frozenset[FileKey]:
        """Return the data files that a version has added to the table.

        Args:
            may_be_gone: as `names`.

        Raises:
            CorruptFileError: as `live_files`, unless `may_be_gone`.
        """
        entries = self._entries_of((snapshot.delta_manifest_list,), may_be_gone=may_be_gone)
        return frozenset(file_key(entry) for entry in entries if entry.kind is FileKind.ADD)

    def _entries_of(self, lists: Iterable[str], *, may_be_gone: bool) -> list[ManifestEntry]:
        self.prefetch(lists, includes_manifests=True)
        entries: list[ManifestEntry] = []
        for name in lists:
            listed_entries = self.entries(name)
            if listed_entries is None and not may_be_gone:
                for meta in self.table.manifests.read_list(name):
                    self.table.manifests.read_manifest(meta.file_name, meta.file_size)
            entries += listed_entries or ()
        return entries

    def names(self, snapshot: Snapshot, *, may_be_gone: bool = False) -> set[str]:
        """Return the names of all metadata and index files of a retained version.

        The result omits the files of its changelog.

        Args:
            may_be_gone: whether files may be missing, as those of a long-lived changelog may be.

        Raises:
            CorruptFileError: a list or the index manifest is missing or unreadable.
        """
        names = {snapshot.base_manifest_list, snapshot.delta_manifest_list}
        for name in tuple(names):
            metas = self.metas(name)
            if metas is None and not may_be_gone:
                metas = self.table.manifests.read_list(name)
            names |= {meta.file_name for meta in metas or ()}
        if snapshot.index_manifest is not None:
            names.add(snapshot.index_manifest)
            entries = self.index_entries(snapshot.index_manifest)
            if entries is None and not may_be_gone:
                entries = self.table.manifests.read_index_manifest(snapshot.index_manifest)
            names |= {entry.index_file.file_name for entry in entries or ()}
        if snapshot.statistics is not None:
            names.add(snapshot.statistics)
        return names

    def _read_list(self, name: str) -> list[ManifestFileMeta] | None:
        return self._read_unless_gone(name, self.table.manifests.read_list)

    def _read_manifest(self, meta: ManifestFileMeta) -> list[ManifestEntry] | None:
        read = self.table.manifests.read_manifest
        entries = self._read_unless_gone(meta.file_name, lambda name: read(name, meta.file_size))
        return None if entries is None else [_without_statistics(entry) for entry in entries]

    def _read_unless_gone(self, name: str, read: Callable[[str], list[_T]]) -> list[_T] | None:
        try:
            return read(name)
        except CorruptFileError as error:
            path = self.table.paths.manifest(name)
            if self.table.file_io.exists(path):
                _LOG.warning("files that %s names stay on disk: %s", path, error.problem)
            return None


def _without_statistics(entry: ManifestEntry) -> ManifestEntry:
    """Return the entry without large fields that do not locate its file."""
    file = replace(
        entry.file,
        min_key=EMPTY_ROW,
        max_key=EMPTY_ROW,
        key_stats=EMPTY_STATS,
        value_stats=EMPTY_STATS,
    )
    return replace(entry, file=file)
