"""Restores the checksum of a table's rows after a commit that did not carry it.

1. Find the latest version in which no row waits for a compaction. Its readers see exactly the rows
   that the changelog produces.
2. Read all of its rows, while the table's jobs run on.
3. Commit an ANALYZE snapshot. It joins the checksum of the read rows with those of all later
   commits.
"""

from __future__ import annotations

from functools import partial

from stream_app.errors import CommitConflictError, UsageError
from stream_app.model.checksum.sum_conditions import why_unsummed
from stream_app.model.checksum.sum_record import SumRecord
from stream_app.model.options.compaction_options import WRITE_ONLY
from stream_app.model.snapshot import Snapshot
from stream_app.planning.commit.sum_record_rules import rebase
from stream_app.planning.compact.waiting_rows import waiting_fix
from stream_app.table.commit.batch_commit import ANALYSIS, batch_commit
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.read.sum_record_of_rows import sum_record_of_rows
from stream_app.table.upkeep.read_protection import TableVersion, protected_version
from stream_app.table.versions.base_sum_record import base_sum_record
from stream_app.table.versions.waiting_row_count import latest_snapshot_at_rest

_RETAINED_MS = 6 * 3_600_000
"""The longest life of the tag: only a process that dies leaves it behind."""


def publish_row_checksum(table: FileStoreTable, *, threads: int) -> Snapshot | None:
    """Read the table, commit its checksum and return the ANALYZE snapshot; None for an empty table.

    Args:
        table: a table of `require_writable`.
        threads: the number of reading threads.

    Raises:
        UsageError: the table keeps no checksum, or every version has rows that wait for a
            compaction.
        UnsupportedTableError: the table uses a feature that stream_app cannot read.
        CorruptFileError: a file is missing or damaged.
        CommitConflictError: another engine's commit or a new schema came during the read.
        CommitError: other writers won every race; nothing has changed.
    """
    if reason := why_unsummed(table.schema):
        raise UsageError(
            f"the table keeps no checksum of its rows: {reason}",
            where=table.location,
            fix="run stream-app alter TABLE --set stream-app.row-checksum=true, where the table "
            "allows it (docs/operate/checksums.md)",
        )
    with protected_version(partial(_snapshot_at_rest, table), _RETAINED_MS, may_retry=True) as (
        _,
        snapshot,
    ):
        if snapshot is None:
            return None
        older_record = base_sum_record(table, snapshot)
        read_record = sum_record_of_rows(table, snapshot, threads=threads)

    def joined_record(latest_record: SumRecord) -> SumRecord:
        record = rebase(read_record, older_record, latest_record)
        if record is None:
            raise CommitConflictError(
                "a commit without a checksum came while the table was read",
                where=table.location,
                fix="run the command again when no other engine writes the table",
            )
        return record

    return batch_commit(table).commit_analysis(ANALYSIS, next_sum_record=joined_record)


def _snapshot_at_rest(table: FileStoreTable) -> TableVersion:
    snapshot = latest_snapshot_at_rest(table)
    if snapshot is None and table.snapshots.latest() is not None:
        raise UsageError(
            "rows of every version wait for a compaction, so no version has all rows to sum",
            where=table.location,
            fix=waiting_fix(is_write_only=table.options[WRITE_ONLY]),
        )
    return table, snapshot
