"""Compares the checksum that a table's snapshots carry with the rows that readers get."""

from __future__ import annotations

import os
from collections.abc import Iterator

from stream_app.model.checksum.sum_conditions import NOT_ASKED, why_unsummed
from stream_app.model.finding import Finding, FindingKind
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.read.sum_record_of_rows import sum_record_of_rows
from stream_app.table.versions.base_sum_record import base_sum_record
from stream_app.table.versions.waiting_row_count import latest_snapshot_at_rest


def row_sum_findings(table: FileStoreTable, unchecked_parts: list[str]) -> Iterator[Finding]:
    """Yield a finding if the latest version without waiting rows has a wrong checksum.

    Args:
        unchecked_parts: a list to which the check adds the reason if there was nothing to compare.

    Raises:
        UnsupportedTableError, CorruptFileError: the rows cannot be read.
    """
    reason = why_unsummed(table.schema)
    if reason == NOT_ASKED:
        return
    snapshot = latest_snapshot_at_rest(table)
    if reason or snapshot is None:
        unchecked_parts.append(f"checksum of the rows: {reason or 'rows of every version wait'}")
        return
    record = base_sum_record(table, snapshot)
    if not record.is_whole:
        unchecked_parts.append(
            f"checksum of the rows: unknown, because it counts from snapshot {record.origin_id} "
            "(stream-app analyze TABLE --checksum makes it known)"
        )
        return
    rows = sum_record_of_rows(table, snapshot, threads=os.cpu_count() or 1)
    if rows.total != record.total:
        yield Finding(
            kind=FindingKind.CHECKSUM,
            problem=f"snapshot {snapshot.snapshot_id} has {rows.total}, and its changes lead to "
            f"{record.total}",
            where=f"snapshot/snapshot-{snapshot.snapshot_id}",
            fix="see whether the source has sent changes twice or without the rows before "
            "(REPLICA IDENTITY FULL); stream-app analyze TABLE --checksum makes a new checksum",
        )
