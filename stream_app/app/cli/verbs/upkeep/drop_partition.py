"""``stream-app drop-partition``: deletes all rows of partitions in one snapshot."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from stream_app.app.cli.arguments.parsed_texts import partition_argument
from stream_app.app.cli.arguments.table import add_table_and_dry_run, open_table_argument
from stream_app.app.cli.output.drop_plan import drop_plan_lines
from stream_app.app.cli.output.upkeep_steps import run_upkeep
from stream_app.app.inspect.snapshot_files import BucketFilter
from stream_app.app.text.listing import count_text
from stream_app.errors import UsageError
from stream_app.model.snapshot import BATCH_COMMIT_IDENTIFIER
from stream_app.table.commit.batch_commit import batch_commit
from stream_app.table.opening import require_writable
from stream_app.table.versions.file_store_scan import FileStoreScan

DESCRIPTION = "Delete all rows of partitions, in one snapshot."
EPILOG = """\
Readers see the change at once. Expiry deletes the files with the earlier snapshots; until then
rollback-to brings the rows back. The changelog does not record it. Running jobs continue.

examples:
  stream-app drop-partition warehouse/shop.db/orders dt=2026-01-01 --dry-run
  stream-app drop-partition warehouse/shop.db/orders dt=2026-01-01,hh=07 dt=2026-01-02"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    add_table_and_dry_run(parser)
    parser.add_argument(
        "partitions",
        metavar="K=V,…",
        nargs="+",
        help="a partition, or values of some partition columns, which choose all partitions "
        "that have them",
    )


def run(args: argparse.Namespace) -> int:
    """Drop the partitions.

    Raises:
        UsageError: a named column is not a partition column.
        UnsupportedTableError: stream_app cannot write the table.
        CommitError: other writers won every race.
    """
    table = require_writable(open_table_argument(args.table))
    bucket_filter = BucketFilter(partitions=tuple(map(partition_argument, args.partitions)))
    bucket_filter.check(table, fix="`truncate` deletes all of its rows")
    if any(not partition for partition in bucket_filter.partitions):
        raise UsageError("an empty partition is named", fix="write it as dt=2026-01-31")
    live_entries = FileStoreScan(table).live(table.snapshots.latest())
    chosen_entries = list(bucket_filter.chosen_entries(table, live_entries))
    partitions = list(dict.fromkeys(entry.partition for entry in chosen_entries))
    plan = drop_plan_lines(table, chosen_entries, "no partition " + " or ".join(args.partitions))

    def result_lines() -> Iterator[str]:
        snapshot = batch_commit(table).drop_partitions(partitions, BATCH_COMMIT_IDENTIFIER)
        dropped_text = count_text(len(partitions), "partition")
        yield f"dropped {dropped_text} in snapshot {snapshot.snapshot_id}"

    return run_upkeep(args, plan, result_lines, is_empty=not partitions)
