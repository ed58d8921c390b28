"""``stream-app analyze``: publishes statistics of a table for the planners of engines."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator

from stream_app.app.cli.arguments.table import add_table_and_dry_run, open_table_argument
from stream_app.app.cli.output.upkeep_steps import run_upkeep
from stream_app.app.text.listing import count_text
from stream_app.errors import UsageError
from stream_app.model.snapshot import Snapshot
from stream_app.table.analyze.analysis import analyze, analyzed_columns
from stream_app.table.analyze.checksum_restoration import publish_row_checksum
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.opening import require_writable
from stream_app.table.versions.base_sum_record import base_sum_record

DESCRIPTION = "Publish a table's number of rows and bytes, and statistics of its columns."
EPILOG = """\
The command reads the latest version once, and commits what Spark's ANALYZE commits: distinct
values (exactly up to 65,535, else about), nulls, least and greatest values, and lengths. Planners
of Spark and Flink use them. Later commits carry them on until the schema changes. Jobs continue.
Columns that are not named lose the statistics that they had.

A table with 'stream-app.row-checksum' has the checksum of its rows in each snapshot. It is unknown
after a commit of another engine, and where the table had snapshots before the option: --checksum
makes it known again.

examples:
  stream-app analyze warehouse/shop.db/orders
  stream-app analyze warehouse/shop.db/orders --columns id,customer
  stream-app analyze warehouse/shop.db/orders --checksum
  stream-app inspect warehouse/shop.db/orders statistics"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    add_table_and_dry_run(parser)
    parser.add_argument(
        "--columns",
        metavar="A,B",
        help="publish statistics of these columns; default: all that are not nested",
    )
    parser.add_argument(
        "--checksum",
        action="store_true",
        help="publish the checksum of all rows instead, which later commits carry on",
    )


def run(args: argparse.Namespace) -> int:
    """Analyze the table.

    Raises:
        UsageError: an unknown or a nested column is named.
        UnsupportedTableError: stream_app cannot read or write the table.
        CommitError: other writers won every race.
    """
    table = require_writable(open_table_argument(args.table))
    if args.checksum:
        return _run_checksum(args, table)
    names = None if args.columns is None else [part.strip() for part in args.columns.split(",")]
    columns = analyzed_columns(table.schema, names)
    latest_snapshot = table.snapshots.latest()

    def result_lines() -> Iterator[str]:
        snapshot = analyze(table, columns, threads=os.cpu_count() or 1)
        assert snapshot is not None, "a table keeps its latest snapshot"
        yield f"analyzed the table in snapshot {snapshot.snapshot_id}"

    plan = _plan_lines(latest_snapshot, [column.name for column in columns])
    return run_upkeep(args, plan, result_lines, is_empty=latest_snapshot is None)


def _run_checksum(args: argparse.Namespace, table: FileStoreTable) -> int:
    if args.columns is not None:
        raise UsageError("--checksum covers all columns", fix="leave out --columns")

    def result_lines() -> Iterator[str]:
        snapshot = publish_row_checksum(table, threads=os.cpu_count() or 1)
        assert snapshot is not None, "a table keeps its latest snapshot"
        yield f"snapshot {snapshot.snapshot_id} has {base_sum_record(table, snapshot).total}"

    latest_snapshot = table.snapshots.latest()
    plan = ["the table has no snapshot" if latest_snapshot is None else "all rows are read"]
    return run_upkeep(args, plan, result_lines, is_empty=latest_snapshot is None)


def _plan_lines(latest_snapshot: Snapshot | None, names: list[str]) -> Iterator[str]:
    if latest_snapshot is None:
        yield "the table has no snapshot"
        return
    yield f"snapshot {latest_snapshot.snapshot_id} is read: {count_text(len(names), 'column')}"
    yield f"  {', '.join(names)}"
