"""``stream-app create-tag``: names a version, so that it does not expire."""

from __future__ import annotations

import argparse
from datetime import timedelta

from stream_app.app.cli.arguments.parsed_texts import duration_argument
from stream_app.app.cli.arguments.table import add_table_and_dry_run, open_table_argument
from stream_app.app.cli.output.upkeep_steps import run_upkeep
from stream_app.app.ops.tag_request import check_taggable, tag_on_request
from stream_app.app.text.listing import time_text
from stream_app.table.upkeep.tags import new_tag

DESCRIPTION = "Give a snapshot a name, under which it stays readable after its expiry."
EPILOG = """\
examples:
  stream-app create-tag warehouse/shop.db/orders before-migration
  stream-app create-tag warehouse/shop.db/orders 2026-01-31 --snapshot 42 --time-retained 90d
  stream-app read warehouse/shop.db/orders --tag 2026-01-31
  stream-app inspect warehouse/shop.db/orders tags"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    add_table_and_dry_run(parser)
    parser.add_argument("name", metavar="NAME", help="the name of the tag")
    parser.add_argument(
        "--snapshot", type=int, metavar="N", help="the snapshot to tag; default: the latest"
    )
    parser.add_argument(
        "--time-retained",
        metavar="DURATION",
        help="how long the tag is kept, such as 90d; default: the table's option "
        "tag.default-time-retained, or forever",
    )


def run(args: argparse.Namespace) -> int:
    """Create the tag.

    Raises:
        UsageError: the snapshot does not exist, or the name is taken.
        UnsupportedTableError: the table's versions are not in its folder.
        StorageError: two processes could both create the same tag.
    """
    table = open_table_argument(args.table)
    check_taggable(table)
    retained_ms = None
    if args.time_retained is not None:
        retained_ms = duration_argument("--time-retained", args.time_retained)
    tag = new_tag(table, args.name, args.snapshot, retained_ms)
    retention_text = "forever"
    if tag.time_retained_ms is not None:
        retention_text = f"for {timedelta(milliseconds=tag.time_retained_ms)}"
    snapshot_id, snapshot_time_text = tag.snapshot.snapshot_id, time_text(tag.snapshot.time_ms)
    plan_text = (
        f"tag {tag.name!r}: snapshot {snapshot_id} of {snapshot_time_text}, kept {retention_text}"
    )
    return run_upkeep(args, [plan_text], lambda: tag_on_request(table, tag))
