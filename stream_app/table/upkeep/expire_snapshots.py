"""Deletes old snapshots, with the files that only they need.

`plan` reads and decides; `execute` deletes. Each expiry makes a new plan, so the next one finds and
finishes what a crash has interrupted. An expiry first announces what it deletes, and then reads the
tags once more (`table.upkeep.announcements`). The order of deletion:

1. data files that a snapshot removed from the table, unless a tag or another branch has them,
2. changelog files, unless changelogs are kept longer than snapshots,
3. manifests, index files and statistics; then the lists that name them,
4. the snapshots' files, the oldest first (each is copied first if changelogs stay); then a sync,
5. the hint EARLIEST; then the announcement.

Source: Paimon `table/ExpireSnapshotsImpl.java`, `operation/SnapshotDeletion.java`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from stream_app.errors import CorruptFileError, UsageError
from stream_app.fileio.file_io import FileStatus
from stream_app.filestore.versions.announcement_files import ExpiryAnnouncement
from stream_app.filestore.versions.tag_manager import TagFolder
from stream_app.model.options.scan_options import CONSUMER_EXPIRATION_TIME
from stream_app.model.snapshot import Snapshot
from stream_app.planning.commit.job_epochs import earliest_needed_snapshot_id
from stream_app.planning.upkeep.expire_range import (
    ExpireConfig,
    ExpireRange,
    limit_by_consumer,
    snapshot_range,
)
from stream_app.table.commit.recorded_epochs import recording
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.map_in_threads import map_in_threads, thread_count
from stream_app.table.upkeep.announcements import (
    delete_void_tags,
    holding_announcements,
    holding_rollbacks,
    is_expiring,
    tagged_versions_to_keep,
    withdraw_outdated_announcements,
)
from stream_app.table.upkeep.collected_files import collect_changelog_files, collect_dropped_files
from stream_app.table.upkeep.file_deletion import (
    FileCollector,
    FilesToDelete,
    NeededFilesCache,
    ProtectedVersions,
    delete_files,
    needed_files_cache,
    protected_versions_of,
)
from stream_app.table.upkeep.manifest_cache import ManifestCache

ReadVersion = Callable[[int], Snapshot]
"""Reads a version by its number; raises `FileNotFoundError` and `CorruptFileError`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expiry:
    """The expiring versions, which are snapshots or long-lived changelogs, and their files."""

    versions: tuple[Snapshot, ...]
    files: FilesToDelete
    cleans_folders: bool

    @property
    def snapshot_ids(self) -> tuple[int, ...]:
        """The numbers of the expiring versions, ascending."""
        return tuple(version.snapshot_id for version in self.versions)


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotExpiry(Expiry):
    """The snapshots that expire.

    Attributes:
        retained_id: the number of the earliest retained snapshot; None if none is left.
        keeps_changelogs: whether the snapshots become long-lived changelogs.
        kept_by: the reason why no more snapshots expire, as text.
        respects_consumers: whether snapshots stay that a consumer has yet to read.
        tags: tag name → the status of its file, for each tag that the plan considered.
        announcement: the announcement to write before any deletion; None if nothing expires.
    """

    retained_id: int | None
    kept_by: str
    keeps_changelogs: bool
    respects_consumers: bool
    tags: Mapping[str, FileStatus]
    announcement: ExpiryAnnouncement | None


@dataclass(slots=True)
class ExpireSnapshots:
    """The expiry of one table's snapshots; caches the files of tags between expiries."""

    table: FileStoreTable
    _cache: NeededFilesCache = field(init=False, default_factory=needed_files_cache)

    def plan(self, config: ExpireConfig) -> SnapshotExpiry:
        """Return the expiry that is due.

        The latest snapshot with the record of the jobs' epochs stays. A restarted job reads from it
        what it has committed, and does not write an epoch twice.

        Raises:
            UsageError: a retained snapshot was deleted during the call.
            CorruptFileError: a retained version cannot be read, so its files cannot be determined.
        """
        try:
            return self._plan(config)
        except FileNotFoundError as error:
            raise UsageError(
                "a retained snapshot is gone: another expiry has deleted it, or the table is "
                "rolled back; this expiry has deleted nothing",
                where=self.table.location,
                fix="expire again; a job retries by itself",
            ) from error

    def _plan(self, config: ExpireConfig) -> SnapshotExpiry:
        """Return the plan; start again if a tag is deleted during the read of its version."""
        ids = self.table.snapshots.ids()
        expire_range = ExpireRange(start=1, end=1, kept_by="there are no snapshots")
        if ids:
            expire_range = self._without_newest_epochs(ids[-1], self._range(ids, config))
        read = self.table.snapshots.snapshot
        versions = versions_before(expire_range.end, ids, read, self.table)
        retained_ids = [snapshot_id for snapshot_id in ids if snapshot_id >= expire_range.end]
        survivor = read_with_advice(read, retained_ids[0]) if retained_ids and versions else None
        files = FilesToDelete()
        tags: Mapping[str, FileStatus] = {}
        announcement: ExpiryAnnouncement | None = None
        while survivor is not None and announcement is None:
            tag_folder = self.table.tags.folder()
            tags = tag_folder.tags
            try:
                protected_versions = self._protected_versions(tag_folder)
                files = self._files(config, versions, survivor, protected_versions)
                ids_to_expire = range(versions[0].snapshot_id, survivor.snapshot_id)
                announcement = ExpiryAnnouncement(
                    start=ids_to_expire.start,
                    end=ids_to_expire.stop,
                    end_list=survivor.delta_manifest_list,
                    tagged_ids=frozenset(protected_versions.tags).intersection(ids_to_expire),
                )
            except CorruptFileError:  # perhaps because a tag was deleted during the read
                if self.table.tags.statuses() == tags:
                    raise
        return SnapshotExpiry(
            versions=versions,
            retained_id=retained_ids[0] if retained_ids else None,
            kept_by=expire_range.kept_by,
            files=files,
            keeps_changelogs=config.is_changelog_longer,
            cleans_folders=config.cleans_folders,
            respects_consumers=config.consumers_keep_snapshots,
            tags=tags,
            announcement=announcement,
        )

    def execute(self, expiry: SnapshotExpiry) -> None:
        """Delete the planned versions and files.

        Raises:
            UsageError: since the plan, a snapshot got a tag or a consumer, or a rollback began.
                Nothing is deleted.
            OSError: the file system refused; the next expiry finishes the rest.
        """
        table = self.table
        if expiry.announcement is None or expiry.retained_id is None:
            return
        # Announce first, then check. Tagging, following and rolling back use the opposite order, so
        # at least one side sees the conflict.
        announcement_name = table.expiry_announcements.announce(expiry.announcement)
        try:
            tag_folder = table.tags.folder()
            other_names = [name for name in tag_folder.other_names if name != announcement_name]
            self._check_not_rolled_back(expiry.announcement, other_names)
            self._check_no_new_tag(expiry, expiry.announcement, tag_folder.tags)
            self._check_no_new_consumer(expiry, expiry.retained_id)
            # Crashed expiries left these announcements, which are the last record of their plans.
            delete_void_tags(table, holding_announcements(table, other_names), tag_folder.tags)
        except BaseException:
            table.expiry_announcements.withdraw(announcement_name)
            raise
        delete_files(table, expiry.files, cleans_folders=expiry.cleans_folders)
        if expiry.keeps_changelogs:
            for snapshot in expiry.versions:
                table.changelogs.commit(snapshot)
            table.changelogs.write_hints()
        latest_hint = table.snapshots.latest_hint()
        if latest_hint is not None and latest_hint < expiry.retained_id:
            # A writer that crashed before its hint left this one stale, and Paimon trusts hints.
            table.snapshots.write_hint_and_reread(table.snapshots.ids()[-1])
        for snapshot_id in expiry.snapshot_ids:
            if table.snapshots.delta_list(expiry.retained_id) != expiry.announcement.end_list:
                return  # another expiry has finished this one, and then the table was rolled back
            table.snapshots.delete(snapshot_id)
        # Without the sync, a snapshot could reappear after the announcement, and be tagged although
        # incomplete.
        table.snapshots.sync_deletions()
        table.snapshots.write_earliest_hint(expiry.retained_id)
        tag_folder = table.tags.folder()
        delete_void_tags(table, [expiry.announcement], tag_folder.tags, considered_tags=expiry.tags)
        table.expiry_announcements.withdraw(announcement_name)
        other_names = [name for name in tag_folder.other_names if name != announcement_name]
        withdraw_outdated_announcements(table, other_names)

    def _check_not_rolled_back(
        self, announcement: ExpiryAnnouncement, other_names: Collection[str]
    ) -> None:
        """Check that no rollback has changed the snapshots that the plan retains."""
        for rollback in holding_rollbacks(self.table, other_names):
            raise UsageError(
                f"a rollback to snapshot {rollback.target_id} is running or was interrupted: the "
                "expiry has deleted nothing",
                where=self.table.location,
                fix="expire again after the rollback; if it was interrupted, finish it: "
                f"stream-app rollback-to --snapshot {rollback.target_id}; or let a job commit, "
                "which continues with the snapshots that exist",
            )
        if self.table.snapshots.delta_list(announcement.end) != announcement.end_list:
            raise UsageError(
                f"a rollback has removed snapshot {announcement.end}, which the expiry retains: "
                "the expiry has deleted nothing",
                where=self.table.location,
                fix="expire again",
            )

    def _check_no_new_tag(
        self,
        expiry: SnapshotExpiry,
        announcement: ExpiryAnnouncement,
        tags: Mapping[str, FileStatus],
    ) -> None:
        for name, status in sorted(tags.items()):
            tag = None if status == expiry.tags.get(name) else self.table.tags.tag(name)
            if tag is not None and is_expiring(tag.snapshot.snapshot_id, [announcement]):
                raise UsageError(
                    f"snapshot {tag.snapshot.snapshot_id} was about to expire and has just got "
                    f"the tag {name!r}: nothing was deleted",
                    where=self.table.location,
                    fix="expire again, which keeps what the tag needs; a job retries by itself",
                )

    def _check_no_new_consumer(self, expiry: SnapshotExpiry, retained_id: int) -> None:
        if not expiry.respects_consumers:
            return
        unread_id = earliest_unread_snapshot_id(self.table, self.table.clock.now_ms())
        if unread_id is not None and unread_id < retained_id:
            raise UsageError(
                f"snapshot {unread_id} was about to expire, and a consumer has just started "
                "there: nothing was deleted",
                where=self.table.location,
                fix="expire again, which keeps what the consumer needs; a job retries by itself",
            )

    def _range(self, ids: list[int], config: ExpireConfig) -> ExpireRange:
        now_ms = self.table.clock.now_ms()
        expire_range = snapshot_range(
            ids,
            config.snapshot_retention,
            bound_time_ms=now_ms - config.snapshot_retention.retained_ms,
            expired_max=config.expired_max,
            time_of=lambda snapshot_id: commit_time_ms(self.table.snapshots.snapshot, snapshot_id),
        )
        if expire_range.is_empty or not config.consumers_keep_snapshots:
            return expire_range
        return limit_by_consumer(expire_range, earliest_unread_snapshot_id(self.table, now_ms))

    def _without_newest_epochs(self, latest_id: int, expire_range: ExpireRange) -> ExpireRange:
        """Return the range without the snapshots that alone record a job's newest epoch."""
        if expire_range.is_empty:
            return expire_range
        snapshots = self.table.snapshots.backwards(start=latest_id)
        needed_id = earliest_needed_snapshot_id(recording(snapshots), self.table.clock.now_ms())
        if needed_id is None or needed_id >= expire_range.end:
            return expire_range
        return replace(expire_range, end=needed_id, kept_by="the newest epoch of a job")

    def _protected_versions(self, tag_folder: TagFolder) -> ProtectedVersions:
        """Return tags and other branches, without the tags that came too late."""
        protected_versions = protected_versions_of(self.table, tag_folder.tags)
        versions = tagged_versions_to_keep(self.table, protected_versions.tags.values(), tag_folder)
        return replace(protected_versions, tags={tag.snapshot_id: tag for tag in versions})

    def _files(
        self,
        config: ExpireConfig,
        snapshots: Sequence[Snapshot],
        survivor: Snapshot,
        protected_versions: ProtectedVersions,
    ) -> FilesToDelete:
        """Return the files that only the snapshots before the earliest retained one need."""
        collector = FileCollector(ManifestCache(self.table))
        start = snapshots[0].snapshot_id
        # A snapshot's delta names the files that earlier snapshots had and it lacks.
        for snapshot in (*snapshots, survivor):
            if snapshot.snapshot_id > start:
                includes_flushed = not config.is_changelog_longer or config.writes_changelog
                collect_dropped_files(
                    collector,
                    snapshot,
                    protected_versions,
                    self._cache,
                    includes_flushed=includes_flushed,
                )
        protected_snapshots = protected_versions.of_range(start, survivor.snapshot_id)
        collector.keep_metadata_of([survivor, *protected_snapshots])
        collector.keep_files_of_others(protected_versions, self._cache)
        # Without changelog files, readers of the changelog use the old snapshots' delta lists.
        keeps_lists = config.is_changelog_longer and not config.writes_changelog
        lists = [snapshot.base_manifest_list for snapshot in snapshots]
        collector.manifest_cache.prefetch([] if keeps_lists else lists, includes_manifests=False)
        for snapshot in snapshots:
            if not config.is_changelog_longer:
                collect_changelog_files(collector, snapshot, protected_versions)
            if not keeps_lists:
                collector.add_manifest_lists(snapshot)
            collector.add_indexes(snapshot)
        return collector.files


def versions_before(
    end: int, ids: Sequence[int], read_version: ReadVersion, table: FileStoreTable
) -> tuple[Snapshot, ...]:
    """Return the existing versions of `ids` below a number, ascending.

    Raises:
        CorruptFileError: a version cannot be read, so its files cannot be determined.
    """

    def read_existing(snapshot_id: int) -> Snapshot | None:
        try:
            return read_with_advice(read_version, snapshot_id)
        except FileNotFoundError:  # another expiry is running
            return None

    versions = map_in_threads(thread_count(table), read_existing, [n for n in ids if n < end])
    return tuple(version for version in versions if version is not None)


def read_with_advice(read_version: ReadVersion, snapshot_id: int) -> Snapshot:
    """Read a version; if it is damaged, the error's fix lets an expiry skip it."""
    try:
        return read_version(snapshot_id)
    except CorruptFileError as error:
        raise CorruptFileError(
            error.problem,
            where=error.where,
            fix="restore the file from a backup, or delete it: the next expiry skips the version, "
            "and stream-app remove-orphan-files finds what it alone has named",
        ) from error


def commit_time_ms(read_version: ReadVersion, snapshot_id: int) -> int | None:
    """Return the commit time of a version in milliseconds; None if the version is gone."""
    try:
        return read_with_advice(read_version, snapshot_id).time_ms
    except FileNotFoundError:
        return None


def earliest_unread_snapshot_id(table: FileStoreTable, now_ms: int) -> int | None:
    """Return the earliest snapshot that a consumer has yet to read; None without consumers."""
    return table.consumers.min_next_snapshot_id(now_ms, table.options[CONSUMER_EXPIRATION_TIME])
