"""Compacts tables whole, and finds their latest snapshot."""

from __future__ import annotations

from stream_app.model.snapshot import BATCH_COMMIT_IDENTIFIER, Snapshot
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.job.stream_table_commit import StreamTableCommit
from tests.support.jobs.table_writer import CompactInCaller

FAR_FUTURE_MS = 10**15


def latest_of(table: FileStoreTable) -> Snapshot:
    latest = table.snapshots.latest()
    assert latest is not None
    return latest


def compact_fully(table: FileStoreTable) -> None:
    commit = StreamTableCommit(table, "compactor", CompactInCaller(table), BATCH_COMMIT_IDENTIFIER)
    commit.compact_fully()
