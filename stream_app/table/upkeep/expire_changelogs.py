"""Deletes old long-lived changelogs, with the files that only they need.

The expiry works like `expire_snapshots`, and runs after it. It deletes changelog files. If flushed
files served as the changelog, it also deletes the files that the expired snapshot removed from the
table, which belong to earlier changelogs.

The option `changelog-producer` decides which files are the changelog, because followers read all
snapshots by it. So if a table with changelog files had none earlier, the expiry may delete flushed
files of that time.

Source: Paimon `table/ExpireChangelogImpl.java`, `operation/ChangelogDeletion.java`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from stream_app.model.snapshot import Snapshot
from stream_app.planning.upkeep.expire_range import ExpireConfig, changelog_range
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.upkeep.collected_files import collect_changelog_files, collect_dropped_files
from stream_app.table.upkeep.expire_snapshots import (
    Expiry,
    commit_time_ms,
    earliest_unread_snapshot_id,
    read_with_advice,
    versions_before,
)
from stream_app.table.upkeep.file_deletion import (
    FileCollector,
    FilesToDelete,
    NeededFilesCache,
    delete_files,
    needed_files_cache,
    protected_versions_of,
)
from stream_app.table.upkeep.manifest_cache import ManifestCache


@dataclass(slots=True)
class ExpireChangelogs:
    """The expiry of one table's long-lived changelogs."""

    table: FileStoreTable
    _cache: NeededFilesCache = field(init=False, default_factory=needed_files_cache)

    def plan(self, config: ExpireConfig) -> Expiry:
        """Plan the due expiry. All changelogs expire if they are kept no longer than snapshots.

        Raises:
            CorruptFileError: a retained version cannot be read, so its files cannot be determined.
        """
        ids = self.table.changelogs.ids()
        earliest_id = self.table.snapshots.earliest_id() if ids else None
        files = FilesToDelete()
        versions: tuple[Snapshot, ...] = ()
        read_version = self.table.changelogs.changelog
        if ids and earliest_id is not None:
            end = self._end(ids, config)
            versions = versions_before(end, ids, read_version, self.table)
            retained_ids = [snapshot_id for snapshot_id in ids if snapshot_id >= end]
            next_changelogs = [
                read_with_advice(read_version, snapshot_id) for snapshot_id in retained_ids[:1]
            ]
            if versions:
                earliest_snapshot = self.table.snapshots.snapshot(earliest_id)
                files = self._files(versions, next_changelogs, earliest_snapshot)
        return Expiry(versions=versions, files=files, cleans_folders=config.cleans_folders)

    def execute(self, expiry: Expiry) -> None:
        """Delete the planned versions and files.

        Raises:
            OSError: the file system refused; the next expiry finishes the rest.
        """
        if not expiry.snapshot_ids:
            return
        delete_files(self.table, expiry.files, cleans_folders=expiry.cleans_folders)
        self.table.changelogs.delete(expiry.snapshot_ids)

    def _end(self, ids: list[int], config: ExpireConfig) -> int:
        """Return the number of the first retained version."""
        now_ms = self.table.clock.now_ms()
        unread_id = earliest_unread_snapshot_id(self.table, now_ms)
        if not config.is_changelog_longer:
            end = ids[-1] + 1
            return end if unread_id is None else min(end, unread_id)
        return changelog_range(
            ids,
            config.changelog_retention,
            latest_snapshot_id=self.table.snapshots.latest_id() or ids[-1],
            bound_time_ms=now_ms - config.changelog_retention.retained_ms,
            expired_max=config.expired_max,
            unread_id=unread_id,
            time_of=lambda snapshot_id: commit_time_ms(
                self.table.changelogs.changelog, snapshot_id
            ),
        ).end

    def _files(
        self,
        changelogs: Sequence[Snapshot],
        next_changelogs: Sequence[Snapshot],
        earliest_snapshot: Snapshot,
    ) -> FilesToDelete:
        """Return the files that only the expiring changelogs need.

        Args:
            next_changelogs: the first retained changelog, if there is one.
            earliest_snapshot: the earliest snapshot.
        """
        protected_versions = protected_versions_of(self.table)
        collector = FileCollector(ManifestCache(self.table))
        start, end = changelogs[0].snapshot_id, changelogs[-1].snapshot_id + 1
        tagged_snapshots = protected_versions.of_range(start, end, includes_next=True)
        collector.keep_metadata_of([earliest_snapshot, *tagged_snapshots])
        collector.keep_metadata_of(next_changelogs, may_be_gone=True)
        collector.keep_files_of_others(protected_versions, self._cache)
        for changelog in changelogs:
            collect_changelog_files(collector, changelog, protected_versions)
            # The expiry of the snapshot has deleted these, unless flushed files were the changelog
            # then. That is possible beside changelog files, because the producer may have changed.
            collect_dropped_files(collector, changelog, protected_versions, self._cache)
            collector.add_manifest_lists(changelog)
        return collector.files
