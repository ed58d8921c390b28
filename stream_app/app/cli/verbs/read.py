"""``stream-app read``: prints the rows of a table, and merges them while it reads."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path

from stream_app.app.cli.arguments.parsed_texts import columns_argument
from stream_app.app.cli.arguments.table import (
    add_table,
    add_version,
    open_table_argument,
    version_of,
)
from stream_app.app.cli.output.row_output import WRITERS, output
from stream_app.errors import UsageError
from stream_app.table.api.paimon_database import NEWEST, PaimonDatabase
from stream_app.table.api.paimon_table import PaimonTable
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.upkeep.upkeep_refusals import check_is_main
from stream_app.table.versions.time_travel import Version

DESCRIPTION = "Print the rows of a table at a snapshot: the newest row of each key."
EPILOG = """\
conditions:
  = <> != < <= > >=   IN (…)   BETWEEN … AND …   LIKE 'a%_'   IS [NOT] NULL   AND OR NOT ( )
  12  -1.5  'it''s'  TRUE  X'00ff'  DATE '2024-02-29'  TIMESTAMP '2024-02-29 12:34:56.789'
  address.city   tags[0]   counts['red']   for what is inside of a ROW, an ARRAY or VECTOR, a MAP
  A condition that names a partition or the whole primary key reads only the buckets it needs.

formats:
  table    aligned columns; NULL is null, wide values are cut
  jsonl    a JSON object a line. Numbers have all their digits (parse decimals as such), bytes are
           base64, dates and times ISO 8601 (TIMESTAMP_LTZ in UTC with Z); NaN and the infinities
           are the texts "NaN", "Infinity" and "-Infinity"
  csv      with a header; null is an empty field, an empty text is ""; bytes are base64; decimals
           have all their digits (tiny ones as 1E-9)
  parquet  with all types as they are; needs --out

examples:
  stream-app read warehouse/shop.db/orders --limit 10
  stream-app read warehouse/shop.db/orders --columns id,amount --where "amount >= 99.90"
  stream-app read warehouse/shop.db/orders --where "dt = '2026-01-01' AND customer LIKE 'A%'"
  stream-app read warehouse/shop.db/orders --snapshot 3 --format parquet --out orders.parquet
  stream-app read warehouse/shop.db/orders --timestamp "2026-01-31 12:00" --where "id = 7"
  stream-app read warehouse/shop.db/orders --as-of-database newest"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    add_table(parser)
    add_version(parser).add_argument(
        "--as-of-database",
        metavar="ID",
        help="read the table as of this transaction of the source, for which all tables of its "
        f"database have a snapshot; {NEWEST!r} names the newest one",
    )
    parser.add_argument("--columns", metavar="A,B", help="print these columns, in this order")
    parser.add_argument(
        "--where", metavar="CONDITION", help="print the rows that meet this condition; see below"
    )
    parser.add_argument("--limit", type=int, metavar="N", help="print at most this many rows")
    parser.add_argument(
        "--protect",
        metavar="DURATION",
        help="keep the version from expiring while the command reads it, for at most this "
        "time, such as 1h; the command creates a tag for this",
    )
    parser.add_argument(
        "--format",
        choices=tuple(WRITERS),
        default="table",
        help="the format of the output; default: table",
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FILE",
        help="write the rows into this file instead of standard output",
    )


def run(args: argparse.Namespace) -> int:
    """Read and write, batch by batch.

    Raises:
        UsageError: the version or column does not exist, or the condition is wrong.
    """
    if args.format == "parquet" and args.out is None:
        raise UsageError("--format parquet writes a file, and needs its name", fix="add --out FILE")
    table = open_table_argument(args.table)
    version = version_of(args)
    if args.as_of_database is not None:
        version = Version(snapshot=_snapshot_id_as_of(table, args.as_of_database))
    reader = PaimonTable(table).read(
        columns=columns_argument(args.columns),
        where=args.where,
        **asdict(version),
        limit=args.limit,
        threads=1,  # so that the same table is printed in the same order
        protect=args.protect,
    )
    with output(args.out) as sink:
        WRITERS[args.format](reader, reader.schema, sink)
    return 0


def _snapshot_id_as_of(table: FileStoreTable, transaction: str) -> int:
    """Return the id of the table's snapshot at a transaction of its source.

    Raises:
        UsageError: the table is a branch, of which database snapshots know nothing; or no database
            snapshot is at the transaction.
    """
    check_is_main(table)
    database_folder, _, name = table.location.rpartition("/")
    as_of = PaimonDatabase(database_folder, table.file_io).as_of(
        transaction=None if transaction == NEWEST else transaction
    )
    return as_of.snapshot_of(name)
