"""``stream-app rescale``: gives partitions another number of buckets."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import replace

from stream_app.app.cli.arguments.parsed_texts import partition_argument
from stream_app.app.cli.arguments.table import add_table_and_dry_run, open_table_argument
from stream_app.app.cli.output.upkeep_steps import run_upkeep
from stream_app.app.inspect.snapshot_files import BucketFilter
from stream_app.app.text.listing import count_text, size_text
from stream_app.errors import UsageError
from stream_app.model.options.bucket_options import BUCKET
from stream_app.planning.buckets.rescale_plan import PlannedRescale, planned_rescales
from stream_app.planning.schema.schema_changes import SetOption
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.opening import require_writable
from stream_app.table.overwrite.rescale import check_rescalable, rescale_partition
from stream_app.table.schema.alter import alter_table, next_schema
from stream_app.table.versions.file_store_scan import FileStoreScan

AUTO = "auto"
DESCRIPTION = "Give a table, or some of its partitions, another number of buckets."
EPILOG = """\
The command rewrites each partition in one OVERWRITE snapshot, which changes no row. Running jobs
continue: they route further rows by the new number. For a whole table the option 'bucket' changes
too, so that new partitions and other engines take the number. --buckets auto gives each partition
the number by which a bucket has about 1 GB; without --buckets it is the table's option.

examples:
  stream-app rescale warehouse/shop.db/orders --buckets auto --dry-run
  stream-app rescale warehouse/shop.db/orders --buckets 8
  stream-app rescale warehouse/shop.db/orders --partition dt=2026-01-01 --buckets 16"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    add_table_and_dry_run(parser)
    parser.add_argument(
        "--partition",
        metavar="K=V,…",
        action="append",
        default=[],
        help="rescale only this partition, or all partitions with these values of some "
        "columns; may be repeated",
    )
    parser.add_argument(
        "--buckets",
        metavar="N|auto",
        help="give each partition this many buckets; default: the table's option 'bucket'",
    )


def run(args: argparse.Namespace) -> int:
    """Rescale the partitions.

    Raises:
        UsageError: the number is invalid, or a named column is not a partition column.
        UnsupportedTableError: stream_app cannot write the table, or it has no number of buckets.
        CommitError: other writers won every race; earlier partitions are rescaled.
    """
    table = require_writable(open_table_argument(args.table))
    check_rescalable(table)
    bucket_count = buckets_argument(args.buckets, table)
    bucket_filter = BucketFilter(partitions=tuple(map(partition_argument, args.partition)))
    bucket_filter.check(table, fix="leave --partition out")
    live_entries = FileStoreScan(table).live(table.snapshots.latest())
    plan = planned_rescales(bucket_filter.chosen_entries(table, live_entries), bucket_count)
    option = None if args.partition else new_option(table, plan, bucket_count)

    def result_lines() -> Iterator[str]:
        rescaled_table = table
        if option is not None:
            rescaled_table = replace(table, schema=alter_table(table, [option]))
            yield f"the table has schema {rescaled_table.schema.schema_id}"
        for planned_rescale in plan:
            snapshot = rescale_partition(rescaled_table, planned_rescale)
            name = _partition_name(table, planned_rescale)
            if snapshot is None:
                yield f"{name} has been dropped"
            else:
                yield f"rescaled {name} in snapshot {snapshot.snapshot_id}"

    is_empty = not plan and option is None
    return run_upkeep(args, _plan_lines(table, plan, option), result_lines, is_empty=is_empty)


def buckets_argument(text: str | None, table: FileStoreTable) -> int | None:
    """Return the number in the argument, or None if each partition gets its own number.

    Raises:
        UsageError: the argument is not a number, or the table requires a number.
    """
    if text is None and table.kind_traits.postpones:
        raise UsageError(
            "with bucket = -2 no option gives the number of buckets that a partition gets",
            where=table.location,
            fix="give --buckets N, or --buckets auto",
        )
    if text is None:
        return table.options.bucket
    if text == AUTO:
        return None
    if not text.isdecimal() or int(text) < 1:
        raise UsageError(
            f"--buckets {text} is not a number of buckets", fix="give 1, 2, …, or auto"
        )
    return int(text)


def new_option(
    table: FileStoreTable, plan: Sequence[PlannedRescale], bucket_count: int | None
) -> SetOption | None:
    """Return the change of the option ``bucket`` when a whole table is rescaled, or None."""
    if bucket_count is None and not table.schema.partition_keys and plan:
        bucket_count = plan[0].new_bucket_count
    if bucket_count is None or table.kind_traits.postpones:
        return None
    option = SetOption(BUCKET.key, str(bucket_count))
    is_same = next_schema(table, [option]).schema_id == table.schema.schema_id
    return None if is_same else option


def _plan_lines(
    table: FileStoreTable, plan: Sequence[PlannedRescale], option: SetOption | None
) -> Iterator[str]:
    """Yield the lines about each partition's old and new number of buckets."""
    if option is not None:
        yield f"option 'bucket': {table.options.bucket} → {option.value}"
    if not plan:
        yield "all partitions have their number of buckets"
    for planned_rescale in plan:
        rescaled_text = size_text(planned_rescale.byte_count)
        files_text = f"{count_text(planned_rescale.file_count, 'file')}, {rescaled_text}"
        buckets_text = count_text(planned_rescale.new_bucket_count, "bucket")
        name = _partition_name(table, planned_rescale)
        yield f"{name}: {planned_rescale.old_bucket_count} → {buckets_text} ({files_text})"
    if plan and table.schema.history is not None:
        yield (
            "their hidden changes are dropped: changes that arrive late, from before the rescale, "
            "may get versions that last too long"
        )


def _partition_name(table: FileStoreTable, planned_rescale: PlannedRescale) -> str:
    return table.paths.partition_path(planned_rescale.partition) or "the table"
