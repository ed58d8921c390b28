"""``stream-app changelog``: what each snapshot changed, row by row."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from stream_app.app.config_settings import file_io_options
from stream_app.app.row_output import with_constant, write_jsonl, write_table
from stream_app.errors import UsageError
from stream_app.model.snapshot import Snapshot
from stream_app.table.changelog_read import ChangelogRead
from stream_app.table.file_store_table import open_table
from stream_app.table.row_kind_column import kind_texts

_EPILOG = """\
Row kinds: +I a new row, -U and +U a row before and after an update, -D a row that was deleted.
What is there depends on the table's changelog-producer: with 'input' every change with its old
row; with 'none' only the new rows and the deletes, as they were flushed.
Within a bucket, changes of one key come in their order; different keys in that of the key.

jsonl, a line a change, as `stream-app read --help` tells of values:
  {"_row_kind":"+U","_snapshot":7,"id":1,"amount":12.50}

examples:
  stream-app changelog warehouse/shop.db/orders --from 3 --to 5
  stream-app changelog warehouse/shop.db/orders --follow --format jsonl"""


def add_parser(verbs: Any) -> argparse.ArgumentParser:
    """Add the verb to the command line."""
    parser: argparse.ArgumentParser = verbs.add_parser(
        "changelog",
        help="print a table's changes",
        description="Print the changes that each snapshot brought, oldest first.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "table", metavar="TABLE", help="the table's folder, …/warehouse/db.db/table"
    )
    parser.add_argument(
        "--from", type=int, dest="start", metavar="N", help="first snapshot; default: the earliest"
    )
    parser.add_argument(
        "--to", type=int, dest="end", metavar="N", help="last snapshot; default: the latest"
    )
    parser.add_argument(
        "--follow", action="store_true", help="wait for new snapshots, until --to or Ctrl-C"
    )
    parser.add_argument(
        "--format", choices=("table", "jsonl"), default="table", help="default: table"
    )
    return parser


def run(args: argparse.Namespace) -> int:
    """Print changes as they are found.

    Raises:
        UsageError: a snapshot has expired or does not exist.
    """
    if args.start is not None and args.end is not None and args.start > args.end:
        raise UsageError(f"--from {args.start} is after --to {args.end}", fix="give --from ≤ --to")
    read = ChangelogRead(open_table(args.table, file_io_options=file_io_options(os.environ)))
    write = write_jsonl if args.format == "jsonl" else write_table
    schema = changelog_schema(read.schema)
    snapshots = read.snapshots(args.start, args.end, follow=args.follow)
    try:
        if args.follow:
            for snapshot in snapshots:  # a text table for each, so that it is seen at once
                write(changes(read, [snapshot]), schema, sys.stdout.buffer)
                sys.stdout.buffer.flush()
        else:
            write(changes(read, snapshots), schema, sys.stdout.buffer)
    except KeyboardInterrupt:
        if not args.follow:
            raise
    return 0


def changes(read: ChangelogRead, snapshots: Iterable[Snapshot]) -> Iterator[pa.RecordBatch]:
    """Changes with `_row_kind` and `_snapshot` in front of the table's columns."""
    schema = changelog_schema(read.schema)
    for snapshot in snapshots:
        for batch in read.changes(snapshot):
            yield with_row_kinds(batch, snapshot.snapshot_id, schema)


def changelog_schema(schema: pa.Schema) -> pa.Schema:
    """The schema of what `changes` gives."""
    kind, snapshot = pa.field("_row_kind", pa.string()), pa.field("_snapshot", pa.int64())
    return pa.schema([kind, snapshot, *list(schema)[1:]])


def with_row_kinds(batch: pa.RecordBatch, snapshot_id: int, schema: pa.Schema) -> pa.RecordBatch:
    """A batch of `ChangelogRead` with its kinds as texts and the snapshot's number."""
    kinds = kind_texts(batch.column(0))
    number = with_constant(snapshot_id, pa.int64(), batch.num_rows)
    return pa.RecordBatch.from_arrays([kinds, number, *batch.columns[1:]], schema=schema)
