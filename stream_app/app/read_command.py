"""``stream-app read``: the rows of a table, merged while they are read."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from stream_app.app.row_output import WRITERS, first_rows, output
from stream_app.errors import UsageError
from stream_app.model.snapshot import Snapshot
from stream_app.table.file_store_table import FileStoreTable, open_table
from stream_app.table.merge_read import MergeRead
from stream_app.table.row_filter import row_filter

_EPILOG = """\
conditions:
  = <> != < <= > >=   IN (…)   BETWEEN … AND …   LIKE 'a%_'   IS [NOT] NULL   AND OR NOT ( )
  12  -1.5  'it''s'  TRUE  X'00ff'  DATE '2024-02-29'  TIMESTAMP '2024-02-29 12:34:56.789'
  A condition that names a partition or the whole primary key reads only the buckets it needs.

formats:
  table    aligned columns; NULL is null, wide values are cut
  jsonl    a JSON object a line. Numbers have all their digits (parse decimals as such), bytes are
           base64, dates and times ISO 8601 (TIMESTAMP_LTZ in UTC with Z); NaN and the infinities
           are the texts "NaN", "Infinity" and "-Infinity"
  csv      with a header; null is nothing, an empty text is ""; bytes are base64; decimals have all
           their digits (tiny ones as 1E-9)
  parquet  with all types as they are; needs --out

examples:
  stream-app read warehouse/shop.db/orders --limit 10
  stream-app read warehouse/shop.db/orders --columns id,amount --where "amount >= 99.90"
  stream-app read warehouse/shop.db/orders --where "dt = '2026-01-01' AND customer LIKE 'A%'"
  stream-app read warehouse/shop.db/orders --snapshot 3 --format parquet --out orders.parquet"""


def add_parser(verbs: Any) -> argparse.ArgumentParser:
    """Add the verb to the command line."""
    parser: argparse.ArgumentParser = verbs.add_parser(
        "read",
        help="print a table's rows",
        description="Print the rows of a table at a snapshot: the newest version of each key.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "table", metavar="TABLE", help="the table's folder, …/warehouse/db.db/table"
    )
    parser.add_argument(
        "--snapshot",
        type=int,
        metavar="N",
        help="the table as of this snapshot; default: the latest",
    )
    parser.add_argument("--columns", metavar="A,B", help="these columns, in this order")
    parser.add_argument(
        "--where", metavar="CONDITION", help="rows for which this is true; see below"
    )
    parser.add_argument("--limit", type=int, metavar="N", help="at most so many rows")
    parser.add_argument("--format", choices=tuple(WRITERS), default="table", help="default: table")
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="write a file instead of standard output"
    )
    return parser


def run(args: argparse.Namespace) -> int:
    """Read and write, batch by batch.

    Raises:
        UsageError: no such snapshot or column, or a wrong condition.
    """
    _check(args)
    table = open_table(args.table)
    snapshot = chosen_snapshot(table, args.snapshot)
    if args.snapshot is not None and snapshot is not None:
        # As the table was then: its columns too.
        table = replace(table, schema=table.schemas.schema(snapshot.schema_id))
    read = merge_read(table, columns=args.columns, where=args.where)
    batches: Iterator[pa.RecordBatch] = read.read(snapshot)
    if args.limit is not None:
        batches = first_rows(batches, args.limit)
    with output(args.out) as sink:
        WRITERS[args.format](batches, read.schema, sink)
    return 0


def merge_read(table: FileStoreTable, *, columns: str | None, where: str | None) -> MergeRead:
    """What the two texts of the command line ask for.

    Raises:
        UsageError: an unknown column, one named twice, or a wrong condition.
    """
    names = None if columns is None else tuple(part.strip() for part in columns.split(","))
    if names is not None and len(set(names)) < len(names):
        raise UsageError(f"--columns {columns} names a column twice", fix="name each once")
    return MergeRead(table, names, None if where is None else row_filter(where, table.schema))


def chosen_snapshot(table: FileStoreTable, number: int | None) -> Snapshot | None:
    """That snapshot, or the latest; None when there is none yet.

    Raises:
        UsageError: it does not exist, or not any more.
    """
    snapshots = table.snapshots
    if number is None:
        return snapshots.latest()
    try:
        return snapshots.snapshot(number)
    except FileNotFoundError:
        pass
    earliest, latest = snapshots.earliest_id(), snapshots.latest_id()
    if earliest is None or latest is None:
        raise UsageError(
            f"snapshot {number} does not exist: the table has none yet",
            where=table.location,
            fix="leave --snapshot out",
        )
    gone = "has expired" if 0 < number < earliest else "does not exist"
    raise UsageError(
        f"snapshot {number} {gone}: the table has {earliest} to {latest}",
        where=table.location,
        fix=f"give one from {earliest} to {latest}, or leave --snapshot out for the latest",
    )


def _check(args: argparse.Namespace) -> None:
    if args.format == "parquet" and args.out is None:
        raise UsageError("--format parquet writes a file, and needs its name", fix="add --out FILE")
    if args.limit is not None and args.limit < 0:
        raise UsageError(f"--limit {args.limit} is below 0", fix="give 0 or more")
