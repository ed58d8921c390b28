"""Takes old long-lived changelogs away, with the files that only they need.

As `expire_snapshots`, and after it. It deletes changelog files. Where flushed files were the
changelog when the snapshot expired, those go as well that it took out of the table: they belong to
changelogs before it.

The current producer decides which files are the changelog, because followers read all snapshots by
it. So flushed files of a time without changelog files need not stay when there are some today.

Source: Paimon `table/ExpireChangelogImpl.java`, `operation/ChangelogDeletion.java`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from stream_app.model.snapshot import Snapshot
from stream_app.planning.upkeep.expire_config import ExpireConfig
from stream_app.planning.upkeep.expire_range import changelog_range
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.map_in_threads import thread_count
from stream_app.table.upkeep.expire_snapshots import (
    Expiry,
    add_changelog,
    add_dropped,
    add_manifest_lists,
    first_wanted,
)
from stream_app.table.upkeep.file_deletion import FileCollector, FilesToDelete, delete_files
from stream_app.table.upkeep.protected_versions import LiveFilesCache, protected_versions
from stream_app.table.upkeep.readable_range import (
    ReadableRange,
    readable_range,
    tell_what_stays,
    time_of,
)
from stream_app.table.versions.manifest_reads import ManifestReads


@dataclass(slots=True)
class ExpireChangelogs:
    """Expires long-lived changelogs of one table."""

    table: FileStoreTable
    _cache: LiveFilesCache = field(default_factory=LiveFilesCache)

    def plan(self, config: ExpireConfig) -> Expiry:
        """What expires now. Where changelogs are kept no longer than snapshots, all of them.

        Raises:
            CorruptFileError: a retained version cannot be read, so its files cannot be determined.
        """
        ids = self.table.changelogs.ids()
        earliest = self.table.snapshots.earliest_id() if ids else None
        files, readable = FilesToDelete(), ReadableRange()
        if ids and earliest is not None:
            read = self.table.changelogs.changelog
            readable = readable_range(ids, self._end(ids, config), read, thread_count(self.table))
        if readable.versions and earliest is not None:
            later = [] if readable.kept is None else [readable.kept]
            first = self.table.snapshots.snapshot(earliest)
            files = self._files(list(readable.versions), later, first)
        return Expiry(
            versions=readable.versions,
            unreadable=readable.unreadable,
            files=files,
            cleans_folders=config.cleans_folders,
        )

    def execute(self, expiry: Expiry) -> None:
        """Delete it.

        Raises:
            OSError: the file system refused; the next expiry finishes the rest.
        """
        if not expiry.numbers:
            return
        delete_files(self.table, expiry.files, clean_folders=expiry.cleans_folders)
        self.table.changelogs.delete(expiry.numbers)
        tell_what_stays(expiry.unreadable, "changelog")

    def _end(self, ids: list[int], config: ExpireConfig) -> int:
        now = self.table.clock.now_ms()
        wanted = first_wanted(self.table, now)
        if not config.is_changelog_longer:
            return min(ids[-1] + 1, ids[-1] + 1 if wanted is None else wanted)
        return changelog_range(
            ids,
            config.changelogs,
            latest_snapshot=self.table.snapshots.latest_id() or ids[-1],
            older_than_ms=now - config.changelogs.time_ms,
            limit=config.limit,
            protected_from=wanted,
            time_of=lambda number: time_of(ids, number, self.table.changelogs.changelog),
        ).end

    def _files(
        self, changelogs: list[Snapshot], later: list[Snapshot], earliest: Snapshot
    ) -> FilesToDelete:
        protected = protected_versions(self.table)
        collector = FileCollector(ManifestReads(self.table))
        begin, end = changelogs[0].snapshot_id, changelogs[-1].snapshot_id + 1
        tagged = protected.of_range(begin, end, and_next=True)
        collector.keep_metadata_of([earliest, *tagged])
        collector.keep_metadata_of(later, may_be_gone=True)
        for changelog in changelogs:
            add_changelog(collector, changelog, protected)
            # They are deleted, unless flushed files were the changelog when the snapshot expired.
            # That is possible beside changelog files, because the producer may have changed.
            add_dropped(collector, changelog, protected, self._cache)
            add_manifest_lists(collector, changelog)
        self._cache.forget_unasked()
        return collector.files
