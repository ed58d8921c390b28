"""``stream-app inspect``: shows facts about a table without reading a row."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable
from functools import partial

from rich.console import Console

from stream_app.app.cli.arguments.parsed_texts import partition_argument
from stream_app.app.cli.arguments.table import (
    add_table,
    add_version,
    open_table_argument,
    version_of,
)
from stream_app.app.inspect.bucket_trees import (
    TreeRow,
    level_rows,
    levels_picture,
    next_compactions,
    sorted_run_rows,
)
from stream_app.app.inspect.compaction_history import CompactionRow, compaction_rows
from stream_app.app.inspect.overview import Overview, overview, overview_lines
from stream_app.app.inspect.snapshot_files import BucketFilter
from stream_app.app.inspect.table_listings import LISTINGS, OptionRow, listing, option_rows
from stream_app.app.text.listing import Listing
from stream_app.errors import UsageError
from stream_app.model.snapshot import Snapshot
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.versions.time_travel import snapshot_of

_LISTINGS: dict[str, Callable[[FileStoreTable, Snapshot | None, BucketFilter], Listing]] = {
    **{name: partial(listing, name) for name in LISTINGS},
    "levels": lambda table, snapshot, bucket_filter: Listing(
        TreeRow, level_rows(table, snapshot, bucket_filter, next_compactions(table, snapshot))
    ),
    "compactions": lambda table, _, bucket_filter: Listing(
        CompactionRow, compaction_rows(table, bucket_filter)
    ),
    "options": lambda table, *_: Listing(OptionRow, option_rows(table)),
    "overview": lambda table, snapshot, _: Listing(Overview, [overview(table, snapshot)]),
}
_WITH_BUCKETS = ("files", "levels", "compactions")
"""Parts of a table that can be limited to some buckets."""
DESCRIPTION = "Show the metadata of a table. The command reads no row and no data file."
EPILOG = """\
listings:
  snapshots    the log of commits: user, time, numbers of records and files
  schemas      every version of the columns, keys and options
  files        live data files: rows, deletes, size, key range, sequence numbers
  levels       the LSM tree of each bucket: sorted runs, sizes and key ranges, a picture, and what
               would be compacted next, or why nothing is due
  compactions  compactions with time, user and reason; '-': another engine does not record it
  partitions   rows and files of each partition
  buckets      rows and files of each bucket
  tags         snapshots with a name, and how long they are kept
  consumers    followers of the table, their progress, and what they protect from expiry
  manifests    the files that list the files
  options      every option, set or by default, and what it means
  branches, table_indexes, file_key_ranges, aggregation_fields, statistics
               Paimon's system tables of these names, with its columns

examples:
  stream-app inspect warehouse/shop.db/orders
  stream-app inspect warehouse/shop.db/orders snapshots
  stream-app inspect warehouse/shop.db/orders levels --snapshot 3
  stream-app inspect warehouse/shop.db/orders compactions --partition dt=2026-01-01 --bucket 0
  stream-app inspect warehouse/shop.db/orders files --format jsonl"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    add_table(parser)
    parser.add_argument(
        "listing",
        metavar="LISTING",
        nargs="?",
        default="overview",
        choices=tuple(_LISTINGS),
        help="the listing to show, see below; default: overview",
    )
    add_version(parser)
    parser.add_argument(
        "--partition",
        action="append",
        default=[],
        metavar="K=V,…",
        help="show files, levels or compactions of this partition only; may be repeated",
    )
    parser.add_argument(
        "--bucket",
        type=int,
        metavar="N",
        help="show files, levels or compactions of the bucket with this number only",
    )
    parser.add_argument(
        "--format",
        choices=("table", "jsonl"),
        default="table",
        help="the format of the output; default: table",
    )


def run(args: argparse.Namespace) -> int:
    """Print the requested facts.

    Raises:
        UsageError: the version or the partition column does not exist.
    """
    bucket_filter = BucketFilter(
        partitions=tuple(map(partition_argument, args.partition)), bucket=args.bucket
    )
    if not bucket_filter.is_all and args.listing not in _WITH_BUCKETS:
        raise UsageError(
            f"--partition and --bucket do not go with {args.listing}",
            fix=f"leave them out, or ask for one of {', '.join(_WITH_BUCKETS)}",
        )
    table = open_table_argument(args.table)
    bucket_filter.check(table, fix="leave --partition out")
    snapshot = snapshot_of(table, version_of(args))
    table_listing = _LISTINGS[args.listing](table, snapshot, bucket_filter)
    if not table_listing.rows:
        scope = "" if bucket_filter.is_all else " in what was chosen"
        print(f"there are no {args.listing}{scope}", file=sys.stderr)
    if args.format == "jsonl":
        _print_lines(table_listing.json_lines())
    elif args.listing == "overview":
        _print_lines(overview_lines(table_listing.rows[0]))
    else:
        _print_lines(table_listing.lines())
        if args.listing == "levels" and table_listing.rows:
            print()
            picture = levels_picture(
                sorted_run_rows(table, snapshot, bucket_filter), next_compactions(table, snapshot)
            )
            Console(highlight=False).print(picture, soft_wrap=True)
    return 0


def _print_lines(lines: Iterable[str]) -> None:
    for line in lines:
        print(line)
