"""Manages announced deletions of versions, and tags that came too late to save a version.

`expire_snapshots` and `rollback` announce, and check each other's announcements; `tags` and
`changelog_follow` only check. A process whose tag came too late deletes that tag. If the
process dies, or is another engine's, the tag remains without files. The expiry deletes such a tag
at its end, or after a crash the next expiry does.

Two actors run independently and never block. Each first announces its intent and then reads the
other's, so at least one of them sees the conflict. An expiry announces the versions that it
deletes, then reads the tags; a tagger creates the tag, then reads the announcements.

    expiry   announce 3 to 5 ─────────────► read tags: keep what tag "old" needs ──► delete
    tagger            create tag "old" of 4 ──► read announcements: 4 is among them ──► undo
    time     ─────────────────────────────────────────────────────────────────────────────►

An expiry's announcement holds while the snapshot `end` is the one that it names. Without that
snapshot the expiry is done, or the table was rolled back: a number that comes again is another
version. A rollback deletes the latest snapshot first, so its announcement holds while the latest
snapshot is one of those to delete. Otherwise the rollback is done, or it died and another committer
continued.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence

from stream_app.errors import CorruptFileError
from stream_app.fileio.file_io import FileStatus
from stream_app.filestore.versions.announcement_files import (
    ExpiryAnnouncement,
    RollbackAnnouncement,
)
from stream_app.filestore.versions.tag_manager import TagFolder
from stream_app.model.snapshot import Snapshot
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.versions.file_presence import FilePresence
from stream_app.table.versions.file_store_scan import FileStoreScan

_LOG = logging.getLogger(__name__)


def expiry_applies(announcement: ExpiryAnnouncement, end_list: str | None) -> bool:
    """Return whether an expiry's announcement applies to the table's current snapshots.

    Args:
        end_list: the delta manifest list of snapshot `end`; None without that snapshot.
    """
    return end_list == announcement.end_list


def expiry_is_over(
    announcement: ExpiryAnnouncement, end_list: str | None, earliest_id: int | None
) -> bool:
    """Return whether an expiry's announcement has become obsolete.

    Args:
        end_list: the delta manifest list of snapshot `end`; None without that snapshot.
        earliest_id: the number of the first snapshot; None without snapshots.
    """
    is_done = earliest_id is None or earliest_id >= announcement.end
    return is_done or not expiry_applies(announcement, end_list)


def is_expiring(snapshot_id: int, announcements: Iterable[ExpiryAnnouncement]) -> bool:
    """Return whether a version may be half deleted, so that no new tag can keep it.

    A version that was tagged before the announcement stays whole, whatever other tags it gets.
    """
    return any(
        announcement.start <= snapshot_id < announcement.end
        and snapshot_id not in announcement.tagged_ids
        for announcement in announcements
    )


def rollback_applies(
    announcement: RollbackAnnouncement,
    latest_id: int | None,
    latest_delta_list: str | None,
) -> bool:
    """Return whether a rollback is running, or crashed and no commit followed.

    Args:
        latest_id: the number of the latest snapshot; None without snapshots.
        latest_delta_list: its delta manifest list; None if the snapshot is unreadable.
    """
    if latest_id is None or latest_id not in announcement.delta_lists:
        return False
    return latest_delta_list in (None, announcement.delta_lists[latest_id])


def rollback_has_begun(announcement: RollbackAnnouncement, latest_id: int | None) -> bool:
    """Return whether a rollback whose announcement holds has deleted a snapshot.

    Args:
        latest_id: the number of the latest snapshot; None without snapshots.
    """
    return latest_id is None or latest_id < max(announcement.delta_lists, default=0)


def blocking_expiry(
    target_id: int,
    expiries: Iterable[ExpiryAnnouncement],
    rollbacks: Iterable[RollbackAnnouncement],
    latest_id: int | None,
) -> ExpiryAnnouncement | None:
    """Return the expiry that forbids a rollback, because it may delete the target's files.

    Such an expiry ends after the target. An expiry that began after another rollback has seen that
    rollback, and has deleted nothing. Without such an expiry the result is None.

    Args:
        expiries, rollbacks: the announcements that hold.
        latest_id: the number of the latest snapshot; None without snapshots.
    """
    begun_targets = [
        rollback.target_id for rollback in rollbacks if rollback_has_begun(rollback, latest_id)
    ]
    for expiry in expiries:
        if expiry.end > target_id and all(expiry.end <= begun for begun in begun_targets):
            return expiry
    return None


def is_announced(table: FileStoreTable, snapshot_id: int) -> bool:
    """Return whether an expiry may have half deleted a version, which then cannot be kept.

    Raises:
        CorruptFileError: an announcement cannot be read.
    """
    return is_expiring(snapshot_id, holding_announcements(table))


def is_rolled_back(table: FileStoreTable, snapshot_id: int) -> bool:
    """Return whether a rollback deletes a version, or would have before it died.

    Raises:
        CorruptFileError: an announcement cannot be read.
    """
    return any(snapshot_id > rollback.target_id for rollback in holding_rollbacks(table))


def tagged_versions_to_keep(
    table: FileStoreTable, tagged_snapshots: Iterable[Snapshot], tag_folder: TagFolder
) -> list[Snapshot]:
    """Return the tagged versions to keep, which are all except those whose tags came too late.

    Args:
        tag_folder: the tag folder's listing from which the tags come.

    Raises:
        CorruptFileError: an announcement cannot be read.
    """
    holding = holding_announcements(table, tag_folder.other_names)
    return [
        snapshot
        for snapshot in tagged_snapshots
        if not is_expiring(snapshot.snapshot_id, holding) or _has_all_files(table, snapshot)
    ]


def delete_void_tags(
    table: FileStoreTable,
    announcements: Sequence[ExpiryAnnouncement],
    tags: Mapping[str, FileStatus],
    considered_tags: Mapping[str, FileStatus] | None = None,
) -> None:
    """Delete the tags that came too late for versions that expiries have deleted.

    Args:
        announcements: the expiries' announcements.
        tags: the existing tags.
        considered_tags: tags that need no check, because the expiry's plan has considered them.

    Raises:
        CorruptFileError: a tag cannot be read.
        OSError: the file system refused.
    """
    if not announcements:
        return
    unchecked_names = [
        name for name, status in tags.items() if (considered_tags or {}).get(name) != status
    ]
    for name in sorted(unchecked_names):
        tag = table.tags.tag(name)
        if tag is None or not is_expiring(tag.snapshot.snapshot_id, announcements):
            continue
        if _has_all_files(table, tag.snapshot):
            continue
        if table.tags.tag(name) == tag:  # the name may belong to another version by now
            table.tags.delete(name)
        _LOG.warning(
            "the tag %s of snapshot %d was made while an expiry deleted its files: it protected "
            "nothing, and has been deleted",
            name,
            tag.snapshot.snapshot_id,
        )


def withdraw_outdated_announcements(table: FileStoreTable, other_names: Collection[str]) -> None:
    """Withdraw announcements that do not hold any more.

    Args:
        other_names: the file names beside the tags, from a fresh listing.

    Raises:
        CorruptFileError: an announcement cannot be read.
        OSError: the file system refused; the next expiry withdraws them.
    """
    expiries = table.expiry_announcements.announcements(other_names)
    earliest_id = table.snapshots.earliest_id() if expiries else None
    for name, expiry in expiries.items():
        if expiry_is_over(expiry, _end_list(table, expiry), earliest_id):
            table.expiry_announcements.withdraw(name)
    rollbacks = table.rollback_announcements.announcements(other_names)
    if rollbacks and not holding_rollbacks(table):
        for name in rollbacks:
            table.rollback_announcements.withdraw(name)


def holding_announcements(
    table: FileStoreTable, other_names: Collection[str] | None = None
) -> list[ExpiryAnnouncement]:
    """Return the announcements of expiries that are running or have crashed.

    Args:
        other_names: the file names beside the tags, if the caller has just listed them.

    Raises:
        CorruptFileError: an announcement cannot be read.
    """
    announcements = table.expiry_announcements.announcements(other_names).values()
    return [expiry for expiry in announcements if expiry_applies(expiry, _end_list(table, expiry))]


def holding_rollbacks(
    table: FileStoreTable, other_names: Collection[str] | None = None
) -> list[RollbackAnnouncement]:
    """Return the announcements of rollbacks that are running or have crashed.

    Raises:
        CorruptFileError: an announcement cannot be read.
    """
    announcements = table.rollback_announcements.announcements(other_names).values()
    latest_id = table.snapshots.latest_id() if announcements else None
    if latest_id is None:
        return []
    latest_delta_list = table.snapshots.delta_list(latest_id)
    return [
        rollback
        for rollback in announcements
        if rollback_applies(rollback, latest_id, latest_delta_list)
    ]


def withdraw_rollbacks(table: FileStoreTable) -> None:
    """Withdraw announcements of rollbacks that have deleted no snapshot.

    Raises:
        CorruptFileError: an announcement cannot be read.
        OSError: the file system refused; the next rollback or commit withdraws them.
    """
    latest_id = table.snapshots.latest_id()
    for name, rollback in table.rollback_announcements.announcements().items():
        if not rollback_has_begun(rollback, latest_id):
            table.rollback_announcements.withdraw(name)


def _end_list(table: FileStoreTable, announcement: ExpiryAnnouncement) -> str | None:
    try:
        return table.snapshots.snapshot(announcement.end).delta_manifest_list
    except FileNotFoundError:
        return None
    except CorruptFileError:
        return announcement.end_list  # the snapshot may be unchanged


def is_complete(table: FileStoreTable, snapshot_id: int) -> bool:
    """Return whether all files that a snapshot needs exist."""
    try:
        return _has_all_files(table, table.snapshots.snapshot(snapshot_id))
    except FileNotFoundError:
        return False


def _has_all_files(table: FileStoreTable, snapshot: Snapshot) -> bool:
    """Return whether all files that a tag keeps of a version exist."""
    try:
        data_entries = FileStoreScan(table).live(snapshot)
        index_entries = table.manifests.read_index_manifest(snapshot.index_manifest)
    except CorruptFileError:
        return False
    paths = [
        table.paths.data_file(entry.partition, entry.bucket, entry.file) for entry in data_entries
    ]
    paths += [
        table.paths.index_file(entry.partition, entry.bucket, entry.index_file)
        for entry in index_entries
    ]
    presence = FilePresence(table)
    return not any(list(presence.findings(path, None)) for path in paths)
