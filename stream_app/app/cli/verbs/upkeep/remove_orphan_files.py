"""``stream-app remove-orphan-files``: what crashes have left, and nothing names."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from stream_app.app.cli.arguments.table import named_table
from stream_app.app.cli.verbs.upkeep.upkeep_frame import (
    add_upkeep_parser,
    duration_argument,
    run_upkeep,
)
from stream_app.app.text.listing import size_text
from stream_app.app.text.outcomes import counted
from stream_app.errors import UsageError
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.upkeep.orphan_files import (
    OrphanPlan,
    delete_orphans,
    plan_orphans,
    time_of_age,
)
from stream_app.table.upkeep.upkeep_refusals import check_expirable

_EPILOG = """\
A file is an orphan when no snapshot, tag, long-lived changelog or branch names it. The files of a
writer look like orphans until it commits, and only their age distinguishes them: give a time that
no write and no commit takes. The command compares ages with the clock of this machine and with
that of the file system; the slower one counts. It may run beside the table's jobs.

examples:
  stream-app remove-orphan-files warehouse/shop.db/orders --dry-run
  stream-app remove-orphan-files warehouse/shop.db/orders --older-than 7d"""

_AGE_MIN_MS = 3_600_000
"""Longer than a write and its commit take, unless something is very wrong."""


def add_parser(verbs: Any) -> argparse.ArgumentParser:
    """Add the verb to the command line."""
    parser = add_upkeep_parser(
        verbs,
        "remove-orphan-files",
        description="Delete orphans: files of crashes that no version names, and empty folders.",
        epilog=_EPILOG,
    )
    parser.add_argument(
        "--older-than",
        metavar="AGE",
        default="1d",
        help="least age of the files; default: 1d",
    )
    parser.add_argument(
        "--no-writers",
        action="store_true",
        help="no job is writing the table: allow an age below 1h",
    )
    return parser


@dataclass(frozen=True, slots=True)
class _Plan:
    table: FileStoreTable
    orphans: OrphanPlan
    age: str

    def is_empty(self) -> bool:
        return not (self.orphans.files or self.orphans.folders)

    def lines(self) -> Iterator[str]:
        root = f"{self.table.location}/"
        for file in self.orphans.files:
            yield f"{file.path.removeprefix(root)}  {size_text(file.size)}"
        for folder in self.orphans.folders:
            yield f"{folder.removeprefix(root)}/  (empty)"
        size = sum(file.size for file in self.orphans.files)
        yield (
            f"{counted(len(self.orphans.files), 'file')} older than {self.age}, {size_text(size)}, "
            f"and {counted(len(self.orphans.folders), 'empty folder')}: named by none of "
            f"{counted(self.orphans.versions, 'version')}"
        )


def run(args: argparse.Namespace) -> int:
    """Delete orphans.

    Raises:
        UsageError: the age is no duration, or so short that files of a living writer could go.
        UnsupportedTableError: we would not find the table's files.
        CorruptFileError: a version cannot be read completely, so its files cannot be determined.
    """
    age_ms = duration_argument("--older-than", args.older_than)
    if age_ms < _AGE_MIN_MS and not (args.dry_run or args.no_writers):
        raise UsageError(
            f"--older-than {args.older_than}: this could delete files of a running job before it "
            f"commits them",
            fix="give 1h or more; or stop all jobs of the table and add --no-writers",
        )
    table = named_table(args.table)
    check_expirable(table)
    try:
        before_ms = time_of_age(table, age_ms)
    except OSError:
        if not args.dry_run:
            raise
        before_ms = table.clock.now_ms() - age_ms  # a plan needs no right to write
    plan = _Plan(table, plan_orphans(table, before_ms), args.older_than)

    def do(plan: _Plan) -> Iterator[str]:
        delete_orphans(table, plan.orphans)
        size = sum(file.size for file in plan.orphans.files)
        yield f"deleted {counted(len(plan.orphans.files), 'file')}, {size_text(size)}"

    return run_upkeep(args, plan, do)
