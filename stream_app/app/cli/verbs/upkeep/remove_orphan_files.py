"""``stream-app remove-orphan-files``: deletes files of crashed writers that no version names."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from stream_app.app.cli.arguments.parsed_texts import duration_argument
from stream_app.app.cli.arguments.table import add_table_and_dry_run, open_table_argument
from stream_app.app.cli.output.upkeep_steps import run_upkeep
from stream_app.app.text.listing import count_text, size_text
from stream_app.errors import UsageError
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.upkeep.orphan_files import (
    OrphanPlan,
    delete_orphans,
    orphan_cutoff_ms,
    plan_orphans,
)
from stream_app.table.upkeep.upkeep_refusals import check_expirable, check_is_main

DESCRIPTION = "Delete orphans: files of crashes that no version names, and empty folders."
EPILOG = """\
A file is an orphan when no snapshot, tag, long-lived changelog or branch names it. The files of a
writer look like orphans until it commits, and only their age distinguishes them: give a time that
no write and no commit takes. The command compares ages with the clock of this machine and with
that of the file system; the slower one counts. It may run beside the table's jobs.

examples:
  stream-app remove-orphan-files warehouse/shop.db/orders --dry-run
  stream-app remove-orphan-files warehouse/shop.db/orders --older-than 7d"""

_AGE_MIN_MS = 3_600_000
"""The least age: longer than a write and its commit normally take."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    add_table_and_dry_run(parser)
    parser.add_argument(
        "--older-than",
        metavar="DURATION",
        default="1d",
        help="delete only files of this age or older; default: 1d",
    )
    parser.add_argument(
        "--no-writers",
        action="store_true",
        help="allow an age below 1h, because no job writes the table",
    )


def _plan_lines(table: FileStoreTable, orphans: OrphanPlan, age: str) -> Iterator[str]:
    root = f"{table.location}/"
    for file in orphans.files:
        yield f"{file.path.removeprefix(root)}  {size_text(file.size)}"
    for folder in orphans.folders:
        yield f"{folder.removeprefix(root)}/  (empty)"
    size = sum(file.size for file in orphans.files)
    yield (
        f"{count_text(len(orphans.files), 'file')} older than {age}, {size_text(size)}, "
        f"and {count_text(len(orphans.folders), 'empty folder')}: named by none of "
        f"{count_text(orphans.version_count, 'version')}"
    )


def run(args: argparse.Namespace) -> int:
    """Delete orphans.

    Raises:
        UsageError: the table is a branch, or the age is not a duration or so short that files of a
            running writer could be deleted.
        UnsupportedTableError: stream_app would not find the table's files.
        CorruptFileError: a version cannot be read completely, so its files cannot be determined.
    """
    age_ms = duration_argument("--older-than", args.older_than)
    if age_ms < _AGE_MIN_MS and not (args.dry_run or args.no_writers):
        raise UsageError(
            f"--older-than {args.older_than}: this could delete files of a running job before it "
            f"commits them",
            fix="give 1h or more; or stop all jobs of the table and add --no-writers",
        )
    table = open_table_argument(args.table)
    check_is_main(table)
    check_expirable(table)
    try:
        cutoff_time_ms = orphan_cutoff_ms(table, age_ms)
    except OSError:
        if not args.dry_run:
            raise
        cutoff_time_ms = table.clock.now_ms() - age_ms  # a plan needs no right to write
    orphans = plan_orphans(table, cutoff_time_ms)

    def result_lines() -> Iterator[str]:
        delete_orphans(table, orphans)
        size = sum(file.size for file in orphans.files)
        yield f"deleted {count_text(len(orphans.files), 'file')}, {size_text(size)}"

    is_empty = not (orphans.files or orphans.folders)
    return run_upkeep(
        args, _plan_lines(table, orphans, args.older_than), result_lines, is_empty=is_empty
    )
