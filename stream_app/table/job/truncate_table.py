"""Truncates a table whose source was truncated, before later rows are written."""

from __future__ import annotations

from stream_app.model.snapshot import BATCH_COMMIT_IDENTIFIER, Snapshot
from stream_app.table.commit.commit_history import CommitHistory
from stream_app.table.commit.file_store_commit import FileStoreCommit
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.job.table_state import read_latest_snapshot
from stream_app.table.versions.file_store_scan import FileStoreScan


def truncate_table(table: FileStoreTable, commit_user: str) -> Snapshot | None:
    """Delete all rows of a table and its key index in one OVERWRITE snapshot.

    Args:
        commit_user: the commit user of the job.

    Returns:
        The snapshot; None if there is nothing to delete.

    Raises:
        CommitError: other writers won every race; nothing has changed.
    """
    latest_snapshot, live_entries = read_latest_snapshot(table, FileStoreScan(table).live)
    # The index may still have keys whose rows compactions have dropped.
    index = table.manifests.read_index_manifest(
        latest_snapshot.index_manifest if latest_snapshot else None
    )
    if not live_entries and not index:
        return None
    commit_history = CommitHistory(table, f"{commit_user}-truncate", latest_snapshot)
    return FileStoreCommit(table, commit_history).truncate(BATCH_COMMIT_IDENTIFIER)
