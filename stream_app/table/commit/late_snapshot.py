"""Deletes a snapshot that was created late, under a number that had been used before.

Expiry frees numbers. So a delayed committer may create its snapshot under a number that was used
and freed meanwhile. Paimon's committers do not check for that. `file_store_commit` calls this
module right after it creates a snapshot, before a hint names the snapshot. While the hints are
right, readers do not see a late snapshot.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum, auto

from stream_app.errors import CorruptFileError, LateCommitError
from stream_app.filestore.versions.snapshot_manager import SnapshotManager
from stream_app.model.files.manifest_entry import FileKind
from stream_app.model.snapshot import CommitKind, Snapshot
from stream_app.planning.commit.job_epochs import epochs_of
from stream_app.table.commit.recorded_epochs import recording
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.versions.file_store_scan import FileStoreScan


class SnapshotStanding(Enum):
    """The position of a snapshot in its table's chain."""

    IN_LINE = auto()
    """The snapshot follows its base."""
    LATE = auto()
    """The snapshot is not in the chain: its number had been used, or the table was rolled back."""
    ASK_NEXT = auto()
    """The base is gone, and the next snapshot exists, whose base decides."""
    UNKNOWN = auto()
    """The snapshot is gone, with everything that could decide."""


def snapshot_standing(snapshot_id: int, existing_ids: Collection[int]) -> SnapshotStanding:
    """Return the standing of a snapshot that this writer has created.

    Expiry deletes from the oldest on and keeps one, and a rollback deletes the newest first. So
    while the snapshot before exists, this one did not exist earlier.

    Args:
        snapshot_id: the number of this snapshot, which follows the previous number or is the first.
        existing_ids: the numbers of all snapshots, listed after this one was created.
    """
    if snapshot_id - 1 in existing_ids:
        return SnapshotStanding.IN_LINE
    if any(other < snapshot_id for other in existing_ids):
        return SnapshotStanding.LATE
    if snapshot_id not in existing_ids:
        return SnapshotStanding.UNKNOWN
    if snapshot_id + 1 in existing_ids:
        return SnapshotStanding.ASK_NEXT
    return SnapshotStanding.IN_LINE if max(existing_ids) == snapshot_id else SnapshotStanding.LATE


def base_exists(snapshots: SnapshotManager, base_snapshot: Snapshot | None) -> bool:
    """Return whether a commit's base exists or, without a base, whether no snapshot exists."""
    if base_snapshot is None:
        return snapshots.latest_id() is None
    return snapshots.delta_list(base_snapshot.snapshot_id) == base_snapshot.delta_manifest_list


def check_follows_base(
    table: FileStoreTable, base_snapshot: Snapshot | None, snapshot: Snapshot
) -> None:
    """Check that a new snapshot follows its base, unless a catalog decides that.

    Raises:
        LateCommitError: the snapshot was late and is deleted, or the outcome is unknown. Its files
            stay, because a request that was sent twice may have created it before, in time.
    """
    if table.snapshots.loader is not None:
        return
    stored_list = (
        None if base_snapshot is None else table.snapshots.delta_list(base_snapshot.snapshot_id)
    )
    if base_snapshot is not None and stored_list == base_snapshot.delta_manifest_list:
        return
    standing = snapshot_standing(snapshot.snapshot_id, set(table.snapshots.ids()))
    if stored_list is not None:
        standing = SnapshotStanding.LATE  # a rollback let other writers reuse the numbers
    if standing is SnapshotStanding.IN_LINE:
        return
    if standing is SnapshotStanding.ASK_NEXT:
        is_in_chain = _is_in_next_snapshot(table, snapshot)
    else:
        is_in_chain = None if standing is SnapshotStanding.UNKNOWN else False
    if is_in_chain:
        return
    if is_in_chain is False and is_in_table(table.snapshots, snapshot):
        table.snapshots.delete(snapshot.snapshot_id)
        table.snapshots.sync_deletions()
    latest_snapshot = table.snapshots.latest()  # read after the late snapshot was deleted
    if latest_snapshot is not None and _records_epoch_of(latest_snapshot, snapshot):
        return  # a request that was sent twice
    commit_text = f"{snapshot.commit_kind.value} commit {snapshot.commit_identifier} of user "
    commit_text += f"{snapshot.commit_user} for snapshot {snapshot.snapshot_id}"
    outcome = "came too late" if is_in_chain is False else "may or may not have been committed"
    raise LateCommitError(
        f"{commit_text} {outcome}: the writer was delayed while others committed up to snapshot "
        f"{latest_snapshot.snapshot_id if latest_snapshot else 0}, and the snapshot below it has "
        "expired",
        where=table.location,
        fix="start the job again, which continues from the table's latest snapshot; after a single "
        "command, check its result in the table and repeat it. If this happens often, keep "
        "snapshots longer than a writer can be delayed ('snapshot.time-retained')",
    )


def is_in_table(snapshots: SnapshotManager, snapshot: Snapshot) -> bool:
    """Return whether this very snapshot is still in the table."""
    try:
        current_snapshot = snapshots.snapshot(snapshot.snapshot_id)
    except FileNotFoundError:
        return False
    return current_snapshot.delta_manifest_list == snapshot.delta_manifest_list


def _is_in_next_snapshot(table: FileStoreTable, snapshot: Snapshot) -> bool | None:
    """Return whether the next snapshot contains this one's changes; None if that is unknown."""
    scan = FileStoreScan(table)
    try:
        next_snapshot = table.snapshots.snapshot(snapshot.snapshot_id + 1)
        inherited_manifests = scan.manifests_before(next_snapshot)
        if (
            _records_epoch_of(next_snapshot, snapshot)
            or scan.manifests(snapshot) == inherited_manifests
        ):
            return True
        delta = scan.delta(snapshot)
        live_identities = {entry.identity for entry in scan.live_before(next_snapshot)}
    except (FileNotFoundError, CorruptFileError):
        return None  # expiry is deleting these files as well
    added_identities = {entry.identity for entry in delta if entry.kind is FileKind.ADD}
    return added_identities <= live_identities if added_identities else None


def _records_epoch_of(later_snapshot: Snapshot, snapshot: Snapshot) -> bool:
    """Return whether a later snapshot records the epoch that `snapshot` committed."""
    epoch = epochs_of(recording([later_snapshot])).get(snapshot.commit_user)
    if epoch is None or snapshot.commit_kind is not CommitKind.APPEND:
        return False
    return (epoch.identifier, epoch.time_ms) == (snapshot.commit_identifier, snapshot.time_ms)
