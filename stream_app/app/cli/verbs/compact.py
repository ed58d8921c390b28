"""``stream-app compact``: compacts a table outside of the job that writes it.

The verb builds the ``spark-submit`` command line of `compact_job`, which replaces its process.
``--dry-run`` needs no Spark.
"""

from __future__ import annotations

import argparse
import shutil
import sys

from stream_app.app.cli.arguments.compaction import add_compact_arguments, compaction_settings
from stream_app.app.cli.arguments.configuration import load_config_argument
from stream_app.app.inspect.bucket_trees import (
    DueCompaction,
    due_compaction,
    due_compactions,
)
from stream_app.app.job.sorted_compaction import plan_sorting
from stream_app.app.launch.spark_log import become_spark
from stream_app.app.launch.spark_submit import submit_command
from stream_app.app.table_setup.compaction_settings import CompactionSettings
from stream_app.app.text.listing import Listing

DESCRIPTION = "Merge the files of a table's buckets, once or as a service, on Spark."
EPILOG = """\
examples:
  stream-app compact warehouse/shop.db/orders --dry-run
  stream-app compact warehouse/shop.db/orders --partition dt=2026-11-20 --partition dt=2026-11-21
  stream-app compact warehouse/shop.db/orders --where "dt < '2026-11-01'" --partition-idle-time 1d
  stream-app compact warehouse/shop.db/clicks --order-strategy zorder --order-by user,page
  stream-app compact warehouse/shop.db/orders --follow        # beside a job with write-only = true
  stream-app compact orders --conf conf/orders.toml --follow  # with its log, webhook and settings

The table's writers continue meanwhile. If another writer changes a bucket first, this command drops
its compaction of that bucket, and no row is lost."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    add_compact_arguments(parser)
    parser.add_argument(
        "--dry-run", action="store_true", help="show what would be compacted, and why"
    )


def run(args: argparse.Namespace) -> int:  # noqa: RET503 - execv does not come back
    """Check the arguments, then show the plan, or replace this process by ``spark-submit``.

    Raises:
        UsageError: an argument is wrong.
    """
    settings = compaction_settings(args, load_config_argument(args.conf))
    if settings.row_order is not None:
        plan_sorting(settings)  # report what is wrong before Spark begins
    if args.dry_run:
        plan = first_compactions(settings)
        for line in Listing(DueCompaction, plan).lines():
            print(line)
        if not plan:
            print("nothing is due")
        return 0
    # The job parses the same words: `add_compact_arguments` declares them for both.
    arguments = sys.argv[sys.argv.index("compact") + 1 :]
    if sys.stdout.isatty():
        arguments += ["--terminal-width", str(shutil.get_terminal_size().columns)]
    command = submit_command("compact.py", arguments, settings.spark_settings)
    become_spark(command, f"compact-{settings.table.label}", settings.table.location)


def first_compactions(settings: CompactionSettings) -> list[DueCompaction]:
    """Return the compactions with which the job would begin."""
    if settings.row_order is not None:
        return [due_compaction(settings.table, request) for request in plan_sorting(settings)]
    snapshot = settings.table.snapshots.latest()
    buckets = settings.partition_filter.buckets(settings.table, snapshot)
    return due_compactions(settings.table, snapshot, buckets, is_full=settings.is_full)
