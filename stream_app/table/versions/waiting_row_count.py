"""Counts, from manifests, a table's rows that wait for a compaction."""

from __future__ import annotations

from collections.abc import Sequence

from stream_app.model.files.manifest_entry import ManifestEntry
from stream_app.model.options.compaction_options import WRITE_ONLY
from stream_app.model.snapshot import CommitKind, Snapshot
from stream_app.planning.compact.waiting_rows import (
    Visibility,
    reported_row_count,
    waiting_buckets,
    waiting_fix,
    waiting_text,
)
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.versions.file_store_scan import FileStoreScan


def waiting_line(table: FileStoreTable, snapshot: Snapshot | None) -> str:
    """Return a command's note about waiting rows after its commit; empty if no row waits.

    Args:
        snapshot: the command's snapshot; None if it committed nothing.
    """
    row_count = count_waiting_rows(table, snapshot, counts_newest_epoch=True)
    fix = waiting_fix(is_write_only=table.options[WRITE_ONLY])
    return f"{waiting_text(row_count)}: {fix}" if row_count else ""


def count_waiting_rows(
    table: FileStoreTable,
    snapshot: Snapshot | None,
    live_entries: Sequence[ManifestEntry] | None = None,
    *,
    counts_newest_epoch: bool = False,
) -> int:
    """Count committed rows that readers or followers of the changelog do not see yet.

    Rows of a fresh epoch do not count, because its compaction has begun.

    Args:
        snapshot: the snapshot to which the rows are committed.
        live_entries: the live files of `snapshot`; None to read them if rows may wait.
        counts_newest_epoch: whether rows of a fresh epoch count too, because no compaction has
            begun.

    Raises:
        CorruptFileError: a manifest is missing or damaged.
    """
    visibility = table.visibility
    if snapshot is None or visibility is Visibility.ANY_LEVEL:
        return 0
    if live_entries is None:
        live_entries = FileStoreScan(table).live(snapshot)
    row_count = sum(waiting_buckets(live_entries, visibility, table.options.num_levels).values())
    is_epoch = snapshot.commit_kind is CommitKind.APPEND and not counts_newest_epoch
    return reported_row_count(
        row_count,
        newest_count=max(0, snapshot.delta_record_count or 0) if is_epoch else 0,
        age_s=(table.clock.now_ms() - snapshot.time_ms) / 1000,
    )


def latest_snapshot_at_rest(table: FileStoreTable) -> Snapshot | None:
    """Return the latest snapshot without rows that wait for a compaction; None without one.

    Raises:
        CorruptFileError: a manifest is missing or damaged.
    """
    for snapshot in table.snapshots.backwards():
        if not count_waiting_rows(table, snapshot, counts_newest_epoch=True):
            return snapshot
    return None
