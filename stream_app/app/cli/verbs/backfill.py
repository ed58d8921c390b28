"""``stream-app backfill``: reads a table's topics again, and writes the differences."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from stream_app.app.cli.arguments.compared_topics import compared_topics
from stream_app.app.cli.arguments.configuration import configuration_of
from stream_app.app.cli.arguments.parsed_texts import timestamp_argument
from stream_app.app.cli.arguments.table import add_table_and_dry_run, named_table
from stream_app.app.cli.arguments.table_of_job import table_of_job
from stream_app.app.config.job_tables.tables_of_job import TablesOfJob
from stream_app.app.ops.backfill import Backfill, BackfillOutcome
from stream_app.app.ops.check.checked_tables import choice_of, splitter_of
from stream_app.app.ops.quarantine.quarantine_folder import Quarantine, open_quarantine
from stream_app.app.text.listing import DRY_RUN, NOTHING, counted
from stream_app.app.text.progress import ProgressLine
from stream_app.errors import UsageError
from stream_app.table.versions.time_travel import millis_of

_EARLIEST = "earliest"
DESCRIPTION = "Bring a table to the state that its topics show."
EPILOG = """\
The topics are read again, up to where the table's job has read them, and decoded as the job does.
The table's rows that differ from theirs become one snapshot: rows are added, changed and deleted,
with a changelog where the table has one. A second run finds nothing to do.

With --from TIME, or when a topic has lost its oldest messages, only keys that the messages name
are compared: no other row is changed or deleted.

Stop the job before. A backfill fails, and changes nothing, if another writer commits meanwhile.

examples:
  stream-app backfill orders --conf conf/orders.toml --dry-run
  stream-app backfill orders --conf conf/orders.toml
  stream-app backfill orders --conf conf/orders.toml --from 2026-01-31
  stream-app backfill warehouse/shop.db/orders --from-topic 127.0.0.1:9092/shop.public.orders"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    add_table_and_dry_run(parser)
    parser.add_argument(
        "--conf", type=Path, metavar="FILE", help="the configuration of the table's job"
    )
    parser.add_argument(
        "--from-topic",
        dest="source_kafka",
        metavar="BOOTSTRAP/TOPIC",
        help="the topic; with --conf: another address of the job's topics",
    )
    parser.add_argument(
        "--from",
        dest="begin",
        default=_EARLIEST,
        metavar="earliest|TIME",
        help="the time of the oldest messages that are read (default: earliest, all of them)",
    )


def run(args: argparse.Namespace) -> int:
    """Run the backfill.

    Raises:
        UsageError: wrong arguments, or the topics do not determine the table's rows.
    """
    since = None
    if args.begin != _EARLIEST:
        since = millis_of(timestamp_argument(args.begin))
    config = configuration_of(args)
    tables = None if config is None else config.tables
    folder = None if config is None else config.stream.quarantine
    table = (
        named_table(args.table)
        if tables is None
        else table_of_job(args.table, tables, str(args.conf))
    )
    source, rules = compared_topics(args, table, tables, option="--from-topic")
    if source is None:
        raise UsageError(
            "no topic is named",
            fix="give --conf with the configuration of the table's job, or --from-topic",
        )
    progress = ProgressLine.of_terminal()
    backfill = Backfill(
        table=table,
        source=source,
        rules=rules,
        progress=progress,
        since_ms=since,
        splitter=splitter_of(tables, table),
        choice=choice_of(tables),
        quarantines=_quarantines(tables, folder, table.location),
    )
    done = backfill.run(dry_run=args.dry_run)
    progress.clear()
    for line in _lines(done):
        print(line)
    return 0


def _quarantines(
    tables: TablesOfJob | None, folder: str | None, location: str
) -> Sequence[Quarantine]:
    """The folders in which records of the table may wait, without those that only Spark reaches."""
    if tables is None or folder is None:
        return []
    own = tables.quarantine_of(folder, location.rstrip("/").rpartition("/")[2])
    with contextlib.suppress(UsageError):
        return [open_quarantine(path, tables.file_system) for path in dict.fromkeys((own, folder))]
    return []


def _lines(done: BackfillOutcome) -> Iterator[str]:
    yield f"read {counted(done.read, 'change')}"
    if not done.is_whole:
        yield "keys that no message tells were left alone"
    if done.covered:
        records = counted(done.covered, "quarantined record")
        yield f"{records} among them; they do not wait any more, once this is written"
    if done.is_empty:
        yield NOTHING
        return
    rows = f"{counted(done.added, 'row')} added, {done.changed} changed, {done.deleted} deleted"
    if done.snapshot is None:
        yield f"would write: {rows}"
        yield DRY_RUN
    else:
        yield f"wrote in snapshot {done.snapshot.snapshot_id}: {rows}"
        if done.waiting:
            yield done.waiting
