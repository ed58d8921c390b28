"""Finds a follower's next snapshot, which exists, is not committed yet, or has expired.

Source: Paimon `utils/NextSnapshotFetcher.java`.
"""

from __future__ import annotations

from stream_app.errors import CheckpointError, UsageError
from stream_app.filestore.versions.snapshot_manager import SnapshotManager
from stream_app.model.snapshot import Snapshot
from stream_app.table.file_store_table import FileStoreTable


def earliest_changes_id(table: FileStoreTable) -> int | None:
    """Return the number of the earliest version with readable changes; None without one.

    If changelogs are kept longer than snapshots, it is a long-lived changelog.
    """
    earliest_id = table.snapshots.earliest_id()
    changelog_ids = table.changelogs.ids()
    return min(changelog_ids[0], earliest_id or changelog_ids[0]) if changelog_ids else earliest_id


def snapshot_or_changelog(table: FileStoreTable, snapshot_id: int) -> Snapshot:
    """Return a snapshot, or the long-lived changelog of an expired one, which has only changes.

    Raises:
        FileNotFoundError: neither exists.
        CorruptFileError: the file is not a snapshot.
    """
    try:
        return table.snapshots.snapshot(snapshot_id)
    except FileNotFoundError:
        return table.changelogs.changelog(snapshot_id)


def followed_snapshot(
    table: FileStoreTable, snapshot_id: int, *, reads_all_rows: bool = False
) -> Snapshot | None:
    """Return a snapshot by number; None while it is not committed yet.

    Args:
        reads_all_rows: whether the caller reads all of its rows, rather than its changes.

    Raises:
        UsageError: the snapshot has expired, is missing, or is more than one ahead of the latest.
            The error names the first readable snapshot.
    """
    try:
        return (
            table.snapshots.snapshot(snapshot_id)
            if reads_all_rows
            else snapshot_or_changelog(table, snapshot_id)
        )
    except FileNotFoundError:
        pass
    latest_id, earliest_id = table.snapshots.latest_id(), table.snapshots.earliest_id()
    if earliest_id is not None and not reads_all_rows:
        earliest_id = earliest_changes_id(table)
    if latest_id is None or earliest_id is None:
        return None
    # Check again: the snapshot may have just been committed, and a follower must not wait forever.
    if snapshot_id <= latest_id and not _exists(table, snapshot_id, reads_all_rows=reads_all_rows):
        if snapshot_id >= earliest_id:
            raise UsageError(
                f"snapshot {snapshot_id} is missing among those from {earliest_id} to {latest_id}",
                where=table.location,
                fix="begin again with all rows (latest-full), because followers have lost what the "
                "snapshot changed; stream-app check shows which snapshots exist",
            )
        raise UsageError(
            f"snapshot {snapshot_id} has expired: the table has {earliest_id} to {latest_id}",
            where=table.location,
            fix="begin with all rows (latest-full), because followers have lost earlier changes; "
            f"or begin with {earliest_id}, the earliest that is left. A consumer protects the "
            "snapshots that it has not read from expiry",
        )
    if latest_id + 1 < snapshot_id:
        raise UsageError(
            f"snapshot {snapshot_id} is ahead of the table, whose latest snapshot is {latest_id}",
            where=table.location,
            fix=f"begin with {latest_id + 1} or earlier; a table that was rolled back or recreated "
            "reuses its numbers",
        )
    return None


def _exists(table: FileStoreTable, snapshot_id: int, *, reads_all_rows: bool) -> bool:
    if table.snapshots.exists(snapshot_id):
        return True
    return not reads_all_rows and snapshot_id in table.changelogs.ids()


def snapshot_name(snapshots: SnapshotManager, snapshot_id: int) -> str | None:
    """Return the name of a snapshot's delta manifest list; None if the snapshot does not exist.

    The name is unique, even if a later snapshot reuses the number.
    """
    try:
        return snapshots.snapshot(snapshot_id).delta_manifest_list
    except FileNotFoundError:
        return None


def check_still_read(
    table: FileStoreTable, snapshot_id: int, name: str | None, *, fix: str
) -> None:
    """Check that the number of the snapshot that was read last still has the same snapshot.

    Args:
        name: the result of `snapshot_name` when the snapshot was read; None if unknown.
        fix: the advice of the error.

    Raises:
        CheckpointError: the table was rolled back to before the snapshot, and written again.
    """
    stored_name = snapshot_name(table.snapshots, snapshot_id)
    if stored_name is not None and name is not None and stored_name != name:
        raise CheckpointError(
            f"snapshot {snapshot_id} is not the snapshot that was read: the table was rolled back, "
            "and written again",
            where=table.location,
            fix=fix,
        )


def check_progress(table: FileStoreTable, consumer_id: str, next_snapshot_id: int) -> None:
    """Check that the next changes of a consumer are readable, or not committed yet.

    Raises:
        UsageError: the changes have expired; the error names the first readable changes.
    """
    earliest_id = earliest_changes_id(table)
    if earliest_id is not None and next_snapshot_id < earliest_id:
        raise UsageError(
            f"consumer {consumer_id!r} continues at snapshot {next_snapshot_id}, which has "
            f"expired; the first that it can still read is {earliest_id}",
            where=table.location,
            fix="begin again with ignore_progress (--ignore-progress, consumer.ignore-progress) "
            f"and a start: latest-full reads all rows first, from-snapshot {earliest_id} omits the "
            "lost changes. A longer snapshot.time-retained or consumer.expiration-time gives the "
            "consumer more time",
        )
