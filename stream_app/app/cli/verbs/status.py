"""``stream-app status``: shows a job's progress, and where it is stuck, table by table."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator

import orjson

from stream_app.app.cli.arguments.configuration import add_configuration
from stream_app.app.cli.arguments.named_table import check_table_name
from stream_app.app.config.app_config import load_config
from stream_app.app.inspect.database_facts import database_facts
from stream_app.app.inspect.job_status import JobStatus
from stream_app.app.inspect.table_status import TableStatus, shorten_reason
from stream_app.app.opening.job_folder_access import not_begun_text, open_checkpoint
from stream_app.app.source.topic_checks import source_ends
from stream_app.app.text.listing import Listing
from stream_app.checkpoint.job_folder import JobFolder
from stream_app.checkpoint.job_state import read_state
from stream_app.clock import SystemClock
from stream_app.errors import FAILED

DESCRIPTION = """\
Show the state of each table of a job: its newest epoch and snapshot, how far it is behind its
topics, its sorted runs, and why it is held back. The command reads the checkpoint and the tables,
whether the job runs or not."""
EPILOG = (
    "states:\n"
    "  ready       the table has all epochs, and readers get them\n"
    "  waiting     its compactions hold back its next epoch, or rows that readers do not get yet\n"
    "  held        an error holds it back, and the other tables continue\n"
    "  empty       no epoch had rows for it\n"
    "  missing, unreadable   see the reason\n"
    "  loading     its first load from the database has not ended\n"
    "  refused     the job stores no row of this table of the source: see the reason\n"
    "Below the tables are the latest database snapshot, if the job keeps some, and the job's "
    "warnings:\nof columns that lose something, for example.\n\n"
    "examples:\n"
    "  stream-app status --conf conf/shop-database.toml\n"
    "  stream-app status --conf conf/shop-database.toml --table orders\n"
    "  stream-app status --conf conf/shop-database.toml --json\n\n"
    "exit codes: 0 no trouble; 1 a table is held, missing, unreadable or refused, or no "
    "job has begun"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    add_configuration(parser)
    parser.add_argument(
        "--table",
        metavar="NAME",
        help="show only this table, by its name in the warehouse, with the whole reason",
    )
    parser.add_argument(
        "--json", action="store_true", help="print a JSON object for each table and each warning"
    )


def run(args: argparse.Namespace) -> int:
    """Print the status.

    Raises:
        UsageError: the configuration is wrong, or only Spark can read the checkpoint.
        CheckpointError: the checkpoint is damaged.
    """
    config = load_config(args.conf, args.set, os.environ)
    checkpoint = open_checkpoint(config.job_tables, fix="see the job's metrics instead")
    status = JobStatus(
        job_tables=config.job_tables,
        checkpoint=checkpoint,
        ends=source_ends(
            config.source, lambda reason: print(f"the lag is unknown: {reason}", file=sys.stderr)
        ),
        now_ms=SystemClock().now_ms(),
    )
    rows = list(status.tables())
    has_begun = read_state(checkpoint) is not None
    if args.table is not None:
        check_table_name(args.table, [row.table for row in rows], str(args.conf))
        rows = [row for row in rows if row.table == args.table]
    listing = Listing(TableStatus, rows)
    short_listing = Listing(TableStatus, [shorten_reason(row) for row in rows])
    for line in _remarks(config.stream.checkpoint, checkpoint, status, is_empty=not rows):
        print(line, file=sys.stderr)
    if config.job_tables.share is not None and not args.json:
        print(f"{config.job_tables.name}: other jobs have the tables of other shares")
    for line in listing.json_lines() if args.json else short_listing.lines():
        print(line)
    _print_facts_of_job(status, prints_json=args.json)
    for row in rows if args.table is not None and not args.json else ():
        if row.reason is not None:
            print(f"\n{row.reason}")
    return FAILED if not has_begun or any(row.has_error for row in rows) else 0


def _remarks(
    location: str, checkpoint: JobFolder, status: JobStatus, *, is_empty: bool
) -> Iterator[str]:
    """Yield the notices about the job itself."""
    if read_state(checkpoint) is None:
        yield not_begun_text(location)
    elif is_empty:
        yield "the job has not seen any table yet"
    if decoder := status.decoder():
        yield f"messages are decoded by {decoder}"
    if (load := status.first_load_line()) is not None:
        yield load


def _print_facts_of_job(status: JobStatus, *, prints_json: bool) -> None:
    """Print facts about the whole job: the latest database snapshot, and warnings."""
    database = database_facts(status.job_tables, status.checkpoint)
    if database is not None:
        print(orjson.dumps(database.document()).decode() if prints_json else database.line())
    for warning in status.warnings():
        table_warning = {"table": warning.table, "warning": warning.problem, "fix": warning.fix}
        print(orjson.dumps(table_warning).decode() if prints_json else f"warning: {warning}")
