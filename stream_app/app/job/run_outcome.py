"""Decides whether a run that ended without an error was successful.

`ingest_job` calls it after the end of the stream.
"""

from __future__ import annotations

from collections.abc import Mapping

from stream_app.checkpoint.held_table import HeldTable
from stream_app.epochs.stages.decode_counts import DecodeCounts
from stream_app.errors import NoGoodRecordError, TablesHeldError


def check_no_table_held(held_tables: Mapping[str, HeldTable]) -> None:
    """Fail a run that leaves tables held back, because they lack changes.

    Raises:
        TablesHeldError: names the tables, with the reasons.
    """
    if held_tables:
        raise TablesHeldError(
            f"{len(held_tables)} of the job's tables are held back; the others have all changes: "
            + "".join(f"\n  {name}: {table.reason}" for name, table in sorted(held_tables.items())),
            fix="remove these causes, and start the job again: each table continues where it was",
        )


def check_not_all_bad(totals: DecodeCounts, unassigned_count: int, quarantine: str | None) -> None:
    """Fail a run that has read messages and stored none of them.

    Args:
        unassigned_count: the number of messages that were quarantined without a table.

    Raises:
        NoGoodRecordError: every message was bad.
    """
    bad_count = totals.bad_record_count + unassigned_count
    if bad_count and totals.bad_record_count == totals.message_count - totals.skipped_count:
        raise NoGoodRecordError(
            f"all {bad_count} records of this run are bad; none is in the table",
            where=f"stream.quarantine: {quarantine}",
            fix="remove the causes that are named there, and start a job with a new checkpoint",
        )
