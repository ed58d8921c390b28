"""Permanently makes an earlier version of a table the latest one.

`plan_rollback` reads and decides; `roll_back` deletes. It first announces the versions that it
deletes (`table.upkeep.announcements`), so that no expiry and no tag interferes. The table is
consistent after each step:

1. reset consumers that are ahead to the target, if the caller asks for that,
2. restore the target's snapshot file from its tag, if it has expired,
3. delete changelogs and tags: after a crash no reader must take them for those of later snapshots
   with the same numbers,
4. delete the hint LATEST, so that readers and writers list the folder. A hint at a target before a
   gap would let writers commit into the gap,
5. delete snapshots, the newest first, so that a shorter table remains, and also those that were
   committed meanwhile; then write the hint LATEST,
6. delete the files that only these versions had: an earlier crash leaves orphans,
7. write the hint EARLIEST, withdraw the announcement, and publish a version of the main branch to
   Iceberg's readers.

A catalog that decides which snapshot is the latest does steps 2 to 5 itself.

Writers must not run meanwhile, because the rollback deletes what they commit on top of a deleted
snapshot. A streaming job of stream_app detects the rollback, and stops.

Source: Paimon `table/RollbackHelper.java`, which does not delete the files of step 6 or reset
consumers.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import dataclass, replace

from stream_app.errors import CorruptFileError, UsageError
from stream_app.filestore.versions.announcement_files import RollbackAnnouncement
from stream_app.model.files.manifest_entry import FileKind
from stream_app.model.options.expire_options import SNAPSHOT_CLEAN_EMPTY_DIRECTORIES
from stream_app.model.options.scan_options import CONSUMER_EXPIRATION_TIME
from stream_app.model.snapshot import Snapshot
from stream_app.planning.upkeep.rollback_versions import RollbackVersions, rollback_versions
from stream_app.planning.upkeep.unused_files import FileKey, unprotected_entries
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.iceberg.publisher import IcebergPublisher
from stream_app.table.upkeep.announcements import (
    blocking_expiry,
    holding_announcements,
    holding_rollbacks,
    withdraw_rollbacks,
)
from stream_app.table.upkeep.collected_files import collect_changelog_files
from stream_app.table.upkeep.file_deletion import (
    FileCollector,
    FilesToDelete,
    ProtectedVersions,
    delete_files,
    needed_files_cache,
    protected_versions_of,
)
from stream_app.table.upkeep.manifest_cache import ManifestCache
from stream_app.table.upkeep.tags import add_live_files
from stream_app.table.versions.time_travel import Version, snapshot_of

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackPlan:
    """The target of a rollback, and the versions and files that it deletes."""

    target_snapshot: Snapshot
    versions: RollbackVersions
    files: FilesToDelete


def rollback_target(table: FileStoreTable, version: Version) -> Snapshot:
    """Return the target of a rollback. A number may also name a tag's expired snapshot.

    Raises:
        UsageError: the version does not exist.
    """
    if version.is_latest:
        raise UsageError(
            "the rollback names no version",
            where=table.location,
            fix="give one of --snapshot, --tag and --timestamp",
        )
    try:
        snapshot = snapshot_of(table, version)
    except UsageError:
        for tag in table.tags.tags():
            if tag.snapshot.snapshot_id == version.snapshot:
                return tag.snapshot
        raise
    assert snapshot is not None, "only the latest may be absent"
    return snapshot


def plan_rollback(table: FileStoreTable, target_snapshot: Snapshot) -> RollbackPlan:
    """Plan a rollback, without changing anything.

    Raises:
        UsageError: an expiry is deleting, or crashed while deleting, files of the target or of
            earlier versions; or it is deleting the same versions.
        CorruptFileError: a retained version cannot be read, so its files cannot be determined.
    """
    try:
        _check_no_expiry(table, target_snapshot)
    except UsageError:
        withdraw_rollbacks(table)  # left by crashed rollbacks, which would block the expiry
        raise
    versions = _versions_of_table(table, target_snapshot)
    files = FilesToDelete()
    if not versions.is_empty():
        try:
            files = _files(table, target_snapshot, versions)
        except FileNotFoundError as error:
            raise _changed_error(table, "a snapshot to be deleted has expired") from error
        except CorruptFileError:
            _check_no_expiry(table, target_snapshot)  # it may be deleting what was read
            raise
    return RollbackPlan(target_snapshot=target_snapshot, versions=versions, files=files)


def roll_back(table: FileStoreTable, plan: RollbackPlan, *, resets_consumers: bool) -> None:
    """Roll the table back. A repetition with the same version completes a crashed rollback.

    Args:
        resets_consumers: whether to reset consumers that are ahead to the snapshot after the
            target.

    Raises:
        UsageError: before a change, an active consumer is ahead, the table has changed since the
            plan, or an expiry is deleting. Later, another writer has committed or rolled back:
            consumers may be reset, and later tags, changelogs and snapshots deleted.
        OSError: the file system refused.
    """
    announcement_name, versions = _announce(table, plan, resets_consumers=resets_consumers)
    catalog = table.snapshots.loader
    try:
        for consumer in versions.consumers:  # 1
            table.consumers.reset(consumer.consumer_id, versions.target_id + 1)
        if catalog is None:
            _restore_target(table, plan, versions)
            _check_alone(table, versions, announcement_name)
        else:  # the catalog does steps 2 to 5
            catalog.roll_back(versions.target_id, max((versions.target_id, *versions.snapshot_ids)))
    except BaseException:
        table.rollback_announcements.withdraw(announcement_name)
        raise
    if catalog is None:
        _delete_snapshots(table, versions)
    cleans_folders = table.options[SNAPSHOT_CLEAN_EMPTY_DIRECTORIES]
    delete_files(table, plan.files, cleans_folders=cleans_folders)  # 6
    table.snapshots.write_earliest_hint(table.snapshots.ids()[0])  # 7
    for name in table.rollback_announcements.announcements():
        table.rollback_announcements.withdraw(name)
    if not table.branch:  # Iceberg's readers see the main branch
        IcebergPublisher(table).publish(plan.target_snapshot)


def _delete_snapshots(table: FileStoreTable, versions: RollbackVersions) -> None:
    table.snapshots.delete_latest_hint()  # 4
    for snapshot_id in versions.snapshot_ids:  # 5
        _check_target(table, versions.target_id)
        table.snapshots.delete(snapshot_id)
        table.snapshots.sync_deletions()  # otherwise a crash may restore snapshots after a gap
    _delete_latecomers(table, versions.target_id)
    table.snapshots.write_latest_hint(versions.target_id)


def _announce(
    table: FileStoreTable, plan: RollbackPlan, *, resets_consumers: bool
) -> tuple[str, RollbackVersions]:
    """Announce the rollback and check for conflicts; return the announcement and final numbers."""
    announcement = RollbackAnnouncement(
        target_id=plan.versions.target_id,
        delta_lists={
            snapshot_id: table.snapshots.delta_list(snapshot_id) or ""
            for snapshot_id in plan.versions.snapshot_ids
        },
    )
    announcement_name = table.rollback_announcements.announce(announcement)
    try:
        # Announce first, then check. Expiring, tagging and following use the opposite order, so one
        # side sees the conflict.
        _check_no_expiry(table, plan.target_snapshot)
        versions = _versions_of_table(table, plan.target_snapshot)
        if replace(versions, consumers=()) != replace(plan.versions, consumers=()):
            raise _changed_error(table, "snapshots, tags or changelogs have changed")
        if not resets_consumers:
            _check_no_consumer(table, versions)
    except BaseException:
        table.rollback_announcements.withdraw(announcement_name)
        raise
    return announcement_name, versions


def _restore_target(table: FileStoreTable, plan: RollbackPlan, versions: RollbackVersions) -> None:
    """Restore the target if it has expired, and delete later changelogs and tags."""
    if versions.is_restored:  # 2
        table.snapshots.restore(without_lost_changelog(table, plan.target_snapshot))
    table.changelogs.delete(versions.changelog_ids)  # 3
    table.tags.delete(*versions.tag_names)


def _check_alone(table: FileStoreTable, versions: RollbackVersions, announcement_name: str) -> None:
    """Check that no writer has committed since, and that the announcement still exists."""
    latest_id = max((versions.target_id, *versions.snapshot_ids))
    is_announced = announcement_name in table.rollback_announcements.announcements()
    if table.snapshots.latest_id() != latest_id or not is_announced:
        raise UsageError(
            "another writer has committed or rolled back meanwhile: this rollback has deleted "
            "later tags and changelogs, but no snapshot",
            where=table.location,
            fix="stop the table's writers, and try again",
        )


def _check_target(table: FileStoreTable, target_id: int) -> None:
    """Check that no concurrent expiry has deleted the target."""
    if not table.snapshots.exists(target_id):
        raise UsageError(
            f"snapshot {target_id} has expired during the rollback to it: another writer has "
            f"committed meanwhile; some of the latest snapshots are gone",
            where=table.location,
            fix="stop the table's writers; then see which snapshots are left (stream-app inspect "
            "snapshots), and roll back to one of them, or to a tag",
        )


def _versions_of_table(table: FileStoreTable, target_snapshot: Snapshot) -> RollbackVersions:
    now_ms = table.clock.now_ms()
    expiration_ms = table.options[CONSUMER_EXPIRATION_TIME]
    return rollback_versions(
        target_snapshot.snapshot_id,
        snapshot_ids=table.snapshots.ids(),
        changelog_ids=table.changelogs.ids(),
        tagged_ids={tag.name: tag.snapshot.snapshot_id for tag in table.tags.tags()},
        consumers=[
            consumer
            for consumer in table.consumers.consumers()
            if not consumer.has_expired(now_ms, expiration_ms)
        ],
    )


def _check_no_expiry(table: FileStoreTable, target_snapshot: Snapshot) -> None:
    latest_id = table.snapshots.latest_id()
    rollbacks = holding_rollbacks(table)
    expiry = blocking_expiry(
        target_snapshot.snapshot_id, holding_announcements(table), rollbacks, latest_id
    )
    if expiry is not None:
        raise UsageError(
            f"snapshots {expiry.start} to {expiry.end - 1} are expiring: an expiry is deleting "
            f"their files, or crashed while doing so",
            where=table.location,
            fix="try again after the expiry; or finish a crashed one: stream-app expire-snapshots; "
            "then roll back to a snapshot that is left, or to a tag",
        )


def _check_no_consumer(table: FileStoreTable, versions: RollbackVersions) -> None:
    if versions.consumers:
        names_text = ", ".join(consumer.consumer_id for consumer in versions.consumers)
        raise UsageError(
            f"consumers have read snapshots after {versions.target_id}: {names_text}",
            where=table.location,
            fix="stop them and correct what they have already copied; --force resets them to "
            f"snapshot {versions.target_id + 1}",
        )


def _changed_error(table: FileStoreTable, change: str) -> UsageError:
    return UsageError(
        f"the table has changed during the planning of the rollback: {change}; nothing was rolled "
        f"back",
        where=table.location,
        fix="stop the table's writers, and try again",
    )


def _delete_latecomers(table: FileStoreTable, target_id: int) -> None:
    """Delete the snapshots that were committed since the plan, because their base is gone.

    A later committer sees that its base snapshot is gone, and deletes its own snapshot.
    """
    while late_ids := [
        snapshot_id for snapshot_id in table.snapshots.ids() if snapshot_id > target_id
    ]:
        for snapshot_id in reversed(late_ids):
            _check_target(table, target_id)
            _LOG.warning(
                "snapshot %d was committed during the rollback, which deletes it", snapshot_id
            )
            table.snapshots.delete(snapshot_id)
            table.snapshots.sync_deletions()


def _files(
    table: FileStoreTable, target_snapshot: Snapshot, versions: RollbackVersions
) -> FilesToDelete:
    """Return the files added after the target that neither the target nor another branch needs."""
    protected_versions = protected_versions_of(table)
    collector = FileCollector(ManifestCache(table))
    needed_files = collector.keep_files_of_others(protected_versions, needed_files_cache())
    needed_files.append(collector.manifest_cache.live_files(target_snapshot))
    collector.keep_metadata_of([target_snapshot])
    readable_snapshots = (
        _readable_snapshot(table, snapshot_id) for snapshot_id in reversed(versions.snapshot_ids)
    )
    snapshots = [snapshot for snapshot in readable_snapshots if snapshot is not None]
    tagged_snapshots = [
        tag
        for snapshot_id, tag in protected_versions.tags.items()
        if snapshot_id > versions.target_id
    ]
    changelogs = [
        table.changelogs.changelog(snapshot_id)
        for snapshot_id in versions.changelog_ids
        if snapshot_id > versions.target_id
    ]
    # The first deleted snapshot has the files that came between an expired target and it. Tags have
    # files whose snapshots have expired.
    for version in (*snapshots[:1], *tagged_snapshots):
        add_live_files(collector, version, needed_files)
    for version in (*snapshots, *changelogs):
        _collect_added_files(collector, version, protected_versions, needed_files)
    for version in (*snapshots, *tagged_snapshots, *changelogs):
        collector.add_manifest_lists(version)
        collector.add_indexes(version)
    return collector.files


def _readable_snapshot(table: FileStoreTable, snapshot_id: int) -> Snapshot | None:
    """Read a snapshot to delete; None if it is damaged, and only its own file is deleted."""
    try:
        return table.snapshots.snapshot(snapshot_id)
    except CorruptFileError as error:
        _LOG.warning(
            "files of snapshot %d are orphans for stream-app remove-orphan-files: %s",
            snapshot_id,
            error,
        )
        return None


def _collect_added_files(
    collector: FileCollector,
    snapshot: Snapshot,
    protected_versions: ProtectedVersions,
    needed_files: list[Collection[FileKey]],
) -> None:
    collector.manifest_cache.prefetch([snapshot.delta_manifest_list], includes_manifests=True)
    added_entries = [
        entry
        for entry in collector.manifest_cache.entries(snapshot.delta_manifest_list) or ()
        if entry.kind is FileKind.ADD
    ]
    collector.add_data_files(unprotected_entries(added_entries, needed_files))
    collect_changelog_files(collector, snapshot, protected_versions)


def without_lost_changelog(table: FileStoreTable, target_snapshot: Snapshot) -> Snapshot:
    """Return the target without its changelog, if an expiry has deleted that in spite of a tag."""
    name = target_snapshot.changelog_manifest_list
    if name is None or table.file_io.exists(table.paths.manifest(name)):
        return target_snapshot
    return replace(
        target_snapshot,
        changelog_manifest_list=None,
        changelog_manifest_list_size=None,
        changelog_record_count=None,
    )
