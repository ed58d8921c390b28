"""``stream-app inspect``: what a table is made of, without reading a row."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from typing import Any

from rich.console import Console

from stream_app.app.inspect_files import FileRow, file_rows
from stream_app.app.inspect_levels import LevelRow, level_rows, levels_picture, run_rows
from stream_app.app.inspect_listing import Listing
from stream_app.app.inspect_manifests import ManifestRow, manifest_rows
from stream_app.app.inspect_options import OptionRow, option_rows
from stream_app.app.inspect_overview import Overview, overview, overview_lines
from stream_app.app.inspect_partitions import (
    BucketRow,
    PartitionRow,
    bucket_rows,
    partition_rows,
)
from stream_app.app.inspect_schemas import SchemaRow, schema_rows
from stream_app.app.inspect_snapshots import SnapshotRow, snapshot_rows
from stream_app.app.inspect_tags import TagRow, tag_rows
from stream_app.app.version_arguments import add_version, version_of
from stream_app.model.snapshot import Snapshot
from stream_app.table.file_store_table import FileStoreTable, open_table
from stream_app.table.time_travel import snapshot_of

_LISTINGS: dict[str, Callable[[FileStoreTable, Snapshot | None], Listing]] = {
    "snapshots": lambda table, _: Listing(SnapshotRow, snapshot_rows(table)),
    "schemas": lambda table, _: Listing(SchemaRow, schema_rows(table)),
    "files": lambda table, snapshot: Listing(FileRow, file_rows(table, snapshot)),
    "levels": lambda table, snapshot: Listing(LevelRow, level_rows(table, snapshot)),
    "partitions": lambda table, snapshot: Listing(PartitionRow, partition_rows(table, snapshot)),
    "buckets": lambda table, snapshot: Listing(BucketRow, bucket_rows(table, snapshot)),
    "tags": lambda table, _: Listing(TagRow, tag_rows(table)),
    "manifests": lambda table, snapshot: Listing(ManifestRow, manifest_rows(table, snapshot)),
    "options": lambda table, _: Listing(OptionRow, option_rows(table)),
    "overview": lambda table, snapshot: Listing(Overview, [overview(table, snapshot)]),
}
_EPILOG = """\
what there is to see:
  snapshots  the log of commits: who, when, how many records and files
  schemas    every version of the columns, keys and options
  files      live data files: rows, deletes, size, key range, sequence numbers
  levels     the LSM tree of each bucket: sorted runs, files and sizes, and a picture
  partitions rows and files of each partition
  buckets    rows and files of each bucket
  tags       snapshots that have a name, and until when they are kept
  manifests  the files that list the files
  options    every option, set or by default, and what it means

examples:
  stream-app inspect warehouse/shop.db/orders
  stream-app inspect warehouse/shop.db/orders snapshots
  stream-app inspect warehouse/shop.db/orders levels --snapshot 3
  stream-app inspect warehouse/shop.db/orders files --format jsonl"""


def add_parser(verbs: Any) -> argparse.ArgumentParser:
    """Add the verb to the command line."""
    parser: argparse.ArgumentParser = verbs.add_parser(
        "inspect",
        help="look at snapshots, files and levels of a table",
        description="Show what a table is made of. Reads metadata only: no row, no data file.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "table", metavar="TABLE", help="the table's folder, …/warehouse/db.db/table"
    )
    parser.add_argument(
        "what",
        metavar="WHAT",
        nargs="?",
        default="overview",
        choices=tuple(_LISTINGS),
        help="one of those below; default: a page about all",
    )
    add_version(parser)
    parser.add_argument(
        "--format", choices=("table", "jsonl"), default="table", help="default: table"
    )
    return parser


def run(args: argparse.Namespace) -> int:
    """Print what was asked for.

    Raises:
        UsageError: no such version.
    """
    table = open_table(args.table)
    snapshot = snapshot_of(table, version_of(args))
    listing = _LISTINGS[args.what](table, snapshot)
    if args.format == "jsonl":
        _print_lines(listing.json_lines())
    elif args.what == "overview":
        _print_lines(overview_lines(listing.rows[0]))
    else:
        _print_lines(listing.lines())
        if args.what == "levels" and listing.rows:
            print()
            Console(highlight=False).print(levels_picture(run_rows(table, snapshot)))
    return 0


def _print_lines(lines: Iterable[str]) -> None:
    for line in lines:
        print(line)
