"""``stream-app truncate``: deletes all rows of a table in one snapshot."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from stream_app.app.cli.arguments.table import add_table_and_dry_run, open_table_argument
from stream_app.app.cli.output.drop_plan import drop_plan_lines
from stream_app.app.cli.output.upkeep_steps import run_upkeep
from stream_app.model.snapshot import BATCH_COMMIT_IDENTIFIER
from stream_app.table.commit.batch_commit import batch_commit
from stream_app.table.opening import require_writable
from stream_app.table.versions.file_store_scan import FileStoreScan

DESCRIPTION = "Delete all rows of a table, in one snapshot; the table itself stays."
EPILOG = """\
Readers see the change at once. Expiry deletes the files with the earlier snapshots; until then
rollback-to brings the rows back. The changelog does not record it. Running jobs continue.

example:
  stream-app truncate warehouse/shop.db/orders --dry-run"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    add_table_and_dry_run(parser)


def run(args: argparse.Namespace) -> int:
    """Delete all rows.

    Raises:
        UnsupportedTableError: stream_app cannot write the table.
        CommitError: other writers won every race.
    """
    table = require_writable(open_table_argument(args.table))
    live_entries = FileStoreScan(table).live(table.snapshots.latest())
    plan = drop_plan_lines(table, live_entries, "no row in the table")

    def result_lines() -> Iterator[str]:
        snapshot = batch_commit(table).truncate(BATCH_COMMIT_IDENTIFIER)
        yield f"truncated the table in snapshot {snapshot.snapshot_id}"

    return run_upkeep(args, plan, result_lines, is_empty=not live_entries)
