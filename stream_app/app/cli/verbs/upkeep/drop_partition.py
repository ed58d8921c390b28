"""``stream-app drop-partition``: all rows of partitions go, in one snapshot."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

from stream_app.app.cli.arguments.table import named_table
from stream_app.app.cli.verbs.upkeep.dropped_rows import DroppedRows, committer
from stream_app.app.cli.verbs.upkeep.upkeep_frame import add_upkeep_parser, run_upkeep
from stream_app.app.ops.inspect.bucket_choice import BucketChoice
from stream_app.app.text.outcomes import counted
from stream_app.errors import UsageError
from stream_app.model.snapshot import BATCH_COMMIT_IDENTIFIER
from stream_app.table.compact.compacted_buckets import parse_partition
from stream_app.table.opening import open_for_writing
from stream_app.table.versions.file_store_scan import FileStoreScan

_EPILOG = """\
Readers see the change at once. Expiry deletes the files with the earlier snapshots; until then
rollback-to brings the rows back. The changelog does not record it. Running jobs continue.

examples:
  stream-app drop-partition warehouse/shop.db/orders dt=2026-01-01 --dry-run
  stream-app drop-partition warehouse/shop.db/orders dt=2026-01-01,hh=07 dt=2026-01-02"""


def add_parser(verbs: Any) -> argparse.ArgumentParser:
    """Add the verb to the command line."""
    parser = add_upkeep_parser(
        verbs,
        "drop-partition",
        description="Delete all rows of partitions, in one snapshot.",
        epilog=_EPILOG,
    )
    parser.add_argument(
        "partitions",
        metavar="K=V,…",
        nargs="+",
        help="a partition, or by some of its columns a group of them",
    )
    return parser


def run(args: argparse.Namespace) -> int:
    """Drop the partitions.

    Raises:
        UsageError: something else than partition columns is named.
        UnsupportedTableError: stream_app cannot write the table.
        CommitError: others won every race.
    """
    table = open_for_writing(named_table(args.table))
    choice = BucketChoice(partitions=tuple(map(parse_partition, args.partitions)))
    choice.check(table, without_partitions="`truncate` deletes all of its rows")
    if any(not partition for partition in choice.partitions):
        raise UsageError("an empty partition is named", fix="write it as dt=2026-01-31")
    live = FileStoreScan(table).live(table.snapshots.latest())
    admitted = list(choice.admitted(table, live))
    plan = DroppedRows(table, admitted, "no partition " + " or ".join(args.partitions))

    def do(plan: DroppedRows) -> Iterator[str]:
        commit = committer(table)
        snapshot = commit.drop_partitions(plan.partitions, BATCH_COMMIT_IDENTIFIER)
        dropped = counted(len(plan.partitions), "partition")
        yield f"dropped {dropped} in snapshot {snapshot.snapshot_id}"

    return run_upkeep(args, plan, do)
