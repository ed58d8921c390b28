"""``stream-app expire-partitions``: drops partitions that are too old."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Sequence

from stream_app.app.cli.arguments.parsed_texts import duration_argument
from stream_app.app.cli.arguments.table import add_table_and_dry_run, open_table_argument
from stream_app.app.cli.output.upkeep_steps import run_upkeep
from stream_app.app.text.listing import count_text, size_text, time_text
from stream_app.app.text.text_table import Column, text_lines
from stream_app.errors import UsageError
from stream_app.model.options.expire_options import (
    PARTITION_EXPIRATION_TIME,
    PARTITION_TIMESTAMP_PATTERN,
)
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.opening import require_writable
from stream_app.table.upkeep.expire_partitions import (
    ExpirePartitions,
    PartitionExpiry,
    partition_retention,
)

DESCRIPTION = "Drop expired partitions, by the time in their values or by their newest file."
EPILOG = """\
examples:
  stream-app expire-partitions warehouse/shop.db/orders --dry-run
  stream-app expire-partitions warehouse/shop.db/orders --expiration-time 30d
  stream-app expire-partitions warehouse/shop.db/orders --expiration-time 90d \\
      --timestamp-formatter yyyyMMdd

The table's options partition.… are the defaults. `stream-app expire-snapshots` deletes the files
with the last snapshots that have the partitions."""
_OPTIONS = {
    "--expiration-time": (
        "expiration-time",
        "DURATION",
        "drop partitions of this age or older, e.g. 30d",
    ),
    "--strategy": (
        "expiration-strategy",
        "STRATEGY",
        "take a partition's age from its values (values-time) or its newest file (update-time)",
    ),
    "--timestamp-formatter": (
        "timestamp-formatter",
        "FORMAT",
        "the format of the time in a partition's values, e.g. yyyyMMdd",
    ),
    "--timestamp-pattern": (
        "timestamp-pattern",
        "PATTERN",
        "the pattern by which a partition's values make a time, e.g. '$year-$month-$day'",
    ),
    "--max-num": ("expiration-max-num", "N", "drop at most this many partitions"),
    "--batch-size": ("expiration-batch-size", "N", "drop this many partitions in one snapshot"),
}
"""Each argument: the option ``partition.…`` that it overrides, its value and its meaning."""
_COLUMNS = (
    Column("partition", width_max=None),
    Column("time"),  # the local time from which its age counts
    Column("files", aligns_right=True),
    Column("rows", aligns_right=True),  # the rows of all files, with deletes and older versions
    Column("bytes", aligns_right=True),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    add_table_and_dry_run(parser)
    for name, (option, metavar, meaning) in _OPTIONS.items():
        parser.add_argument(name, dest=f"partition.{option}", metavar=metavar, help=meaning)


def _plan_lines(table: FileStoreTable, expiry: PartitionExpiry) -> Iterator[str]:
    rows = [
        (
            table.paths.partition_path(partition.partition),
            time_text(partition.time_ms, zone=""),
            str(partition.file_count),
            str(partition.row_count),
            size_text(partition.byte_count),
        )
        for partition in expiry.partitions
    ]
    yield from text_lines(_COLUMNS, rows)
    if expiry.undated_count:
        yield f"kept, because they have no time: {count_text(expiry.undated_count, 'partition')}"


def run(args: argparse.Namespace) -> int:
    """Drop the expired partitions.

    Raises:
        UsageError: an argument is wrong, or no option gives the age of expired partitions.
        TableNotFoundError: the table does not exist.
        UnsupportedTableError: stream_app cannot write the table.
    """
    keys = [f"partition.{option}" for option, _, _ in _OPTIONS.values()]
    options = {key: value for key in keys if (value := getattr(args, key)) is not None}
    if PARTITION_EXPIRATION_TIME.key in options:
        duration_argument("--expiration-time", options[PARTITION_EXPIRATION_TIME.key])
    table = require_writable(open_table_argument(args.table)).with_options(options)
    retention = partition_retention(table.options)
    if not table.schema.partition_keys:
        raise UsageError(
            "the table has no partitions",
            where=table.location,
            fix="delete rows by their age with record-level.expire-time",
        )
    if retention is None:
        raise UsageError(
            "no option gives the age of expired partitions",
            where=table.location,
            fix="give --expiration-time, or set the table's option 'partition.expiration-time'",
        )
    _check_pattern(options.get(PARTITION_TIMESTAMP_PATTERN.key), table.schema.partition_keys)
    expire = ExpirePartitions(table, retention)

    expiry = expire.plan()
    count = len(expiry.partitions)

    def drop() -> Iterator[str]:
        remaining_count = count
        for expiry_commit in expire.execute(expiry):
            dropped_text = count_text(len(expiry_commit.partitions), "partition")
            yield f"snapshot {expiry_commit.snapshot.snapshot_id} drops {dropped_text}"
            remaining_count -= len(expiry_commit.partitions)
        if remaining_count:
            yield f"kept, because of writes meanwhile: {count_text(remaining_count, 'partition')}"
        yield f"dropped {count_text(count - remaining_count, 'partition')}"

    return run_upkeep(args, _plan_lines(table, expiry), drop, is_empty=not count)


def _check_pattern(pattern: str | None, keys: Sequence[str]) -> None:
    """Check that each ``$column`` exists, because otherwise no partition would have a time."""
    for name in re.findall(r"\$(\w+)", pattern or ""):
        if not name.startswith(tuple(keys)):
            raise UsageError(
                f"--timestamp-pattern: {name!r} is not a partition column",
                fix=f"name some of {', '.join(keys)}",
            )
