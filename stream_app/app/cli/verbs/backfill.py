"""``stream-app backfill``: reads a table's source again, and writes the differences."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Sequence

from stream_app.app.cli.arguments.compared_source import add_database_table, named_database
from stream_app.app.cli.arguments.compared_topics import compared_topics
from stream_app.app.cli.arguments.configuration import add_configuration, load_config_argument
from stream_app.app.cli.arguments.named_table import open_named_job_table
from stream_app.app.cli.arguments.parsed_texts import duration_argument, timestamp_argument
from stream_app.app.cli.arguments.table import add_table_and_dry_run, open_table_argument
from stream_app.app.config.job_tables.job_tables import JobTables
from stream_app.app.config.source_config import SourceConfig
from stream_app.app.ops.backfill.database_backfill import DatabaseBackfill, DatabaseBackfillOutcome
from stream_app.app.ops.backfill.table_changes import Scope, WrittenRows, scope_of
from stream_app.app.ops.backfill.topic_backfill import TopicBackfill
from stream_app.app.ops.backfill.unread_messages import UnreadMessages
from stream_app.app.ops.recorded_tables import recorded_splitter, source_filter_of, state_of_job
from stream_app.app.ops.source_comparison.database_side import summed_database
from stream_app.app.ops.source_comparison.source_table_finder import SourceTableFinder
from stream_app.app.text.listing import DRY_RUN, NOTHING, count_text
from stream_app.app.text.progress import ProgressLine
from stream_app.catalog.identifier import name_in_path
from stream_app.errors import UsageError
from stream_app.quarantine.quarantine_folder import Quarantine, open_quarantine
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.versions.time_travel import ms_since_1970

_EARLIEST = "earliest"
DESCRIPTION = "Bring a table to the state that its topics show, or its database."
EPILOG = """\
The command reads the topics again, up to where the table's job has read them, and decodes them as
the job does. One snapshot then adds, changes and deletes the table's rows that differ from theirs,
with a changelog where the table has one. A second run finds nothing to do.

With --from TIME, or when a topic has lost its oldest messages, only keys that the messages name
are compared: no other row is changed or deleted.

With --source the table is compared with its database, and rows that differ become those of the
database. A row that changes meanwhile, or whose message waits in a topic, is left to the job.
With --keys the backfill writes only rows whose key meets a condition.

Stop the job first. A backfill fails, and changes nothing, if another writer commits meanwhile.

examples:
  stream-app backfill orders --conf conf/orders.toml --dry-run
  stream-app backfill orders --conf conf/orders.toml
  stream-app backfill orders --conf conf/orders.toml --from 2026-01-31
  stream-app backfill orders --conf conf/orders.toml --keys "id IN (1, 2, 3)"
  stream-app backfill orders --conf conf/orders.toml --source jdbc:postgresql://127.0.0.1/shop?user=me
  stream-app backfill warehouse/shop.db/orders --from-topic 127.0.0.1:9092/shop.public.orders"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    add_table_and_dry_run(parser)
    add_configuration(parser, "the configuration of the table's job")
    parser.add_argument(
        "--from-topic",
        dest="source_kafka",
        metavar="BOOTSTRAP/TOPIC",
        help="read this topic; with --conf: another address of the job's topics",
    )
    parser.add_argument(
        "--from",
        dest="start",
        default=_EARLIEST,
        metavar="earliest|TIME",
        help="read only messages from this time on (default: earliest, all messages)",
    )
    parser.add_argument(
        "--keys",
        metavar="CONDITION",
        help='write only rows whose key meets this condition, such as "id IN (1, 2)"',
    )
    parser.add_argument(
        "--source",
        metavar="URL",
        nargs="?",
        const="",
        help="compare the table with this database, jdbc:…, instead of the topics; without a value "
        "with that of source.snapshot-from",
    )
    add_database_table(parser)


def run(args: argparse.Namespace) -> int:
    """Run the backfill.

    Raises:
        UsageError: wrong arguments, or the topics do not determine the table's rows.
    """
    since_ms = None
    if args.start != _EARLIEST:
        since_ms = ms_since_1970(timestamp_argument(args.start))
    config = load_config_argument(args.conf, args.set)
    job_tables = None if config is None else config.job_tables
    folder = None if config is None else config.stream.quarantine
    table = (
        open_table_argument(args.table)
        if job_tables is None
        else open_named_job_table(args.table, job_tables, str(args.conf))
    )
    source_config, table_config = compared_topics(args, table, job_tables, option="--from-topic")
    if source_config is None:
        raise UsageError(
            "no topic is named",
            fix="give --conf with the configuration of the table's job, or --from-topic",
        )
    scope = scope_of(args.keys, table)
    if args.source is not None:
        if job_tables is None or since_ms is not None or args.source_kafka is not None:
            raise UsageError(
                "--source reads the database in place of the topics",
                fix="give --conf, and leave out --from and --from-topic",
            )
        _backfill_from_database(args, table, job_tables, source_config, scope)
        return 0
    progress = ProgressLine.of_terminal()
    backfill = TopicBackfill(
        table=table,
        source_config=source_config,
        table_config=table_config,
        progress=progress,
        since_ms=since_ms,
        splitter=recorded_splitter(job_tables, table),
        source_filter=source_filter_of(job_tables),
        # A backfill of some keys does not finish a record.
        quarantines=[] if args.keys else _open_quarantines(job_tables, folder, table.location),
        scope=scope,
    )
    outcome = backfill.run(dry_run=args.dry_run)
    progress.clear()
    print(f"read {count_text(outcome.read_count, 'change')}")
    if not outcome.is_whole:
        print("keys without a message were left unchanged")
    if outcome.covered_count:
        records_text = count_text(outcome.covered_count, "quarantined record")
        print(f"{records_text} among them; once this is written, they no longer wait")
    _print_written_rows(outcome.written_rows)
    return 0


def _backfill_from_database(
    args: argparse.Namespace,
    table: FileStoreTable,
    job_tables: JobTables,
    source_config: SourceConfig,
    scope: Scope,
) -> None:
    """Compare the table with its database, and write the rows that differ."""
    state = state_of_job(job_tables)
    with summed_database(named_database(args, job_tables)) as database:
        finder = SourceTableFinder(job_tables=job_tables, state=state, database=database)
        backfill = DatabaseBackfill(
            table=table,
            job_tables=job_tables,
            database=database,
            summed_source=finder.own_source_of(table, args.source_table),
            messages=UnreadMessages.of_job(table, job_tables, state, source_config),
            wait_s=duration_argument("--wait", args.wait) / 1000,
            scope=scope,
        )
        _print_compared(backfill.run(dry_run=args.dry_run))


def _print_compared(outcome: DatabaseBackfillOutcome) -> None:
    keys_text = count_text(outcome.differing_key_count, "key")
    verb = "differs" if outcome.differing_key_count == 1 else "differ"
    print(f"compared with {outcome.source}: {keys_text} {verb}")
    if outcome.pending_key_count:
        rows_text = count_text(outcome.pending_key_count, "row")
        print(f"left alone: {rows_text} that changed, or whose message waits")
    if outcome.problem:
        print(f"left alone: a row that cannot be stored: {outcome.problem}")
    if not outcome.is_whole:
        print("more rows differ than one run compares: run it again")
    _print_written_rows(outcome.written_rows)


def _open_quarantines(
    job_tables: JobTables | None, folder: str | None, location: str
) -> Sequence[Quarantine]:
    """Return the folders with unresolved records of the table that this process can access."""
    if job_tables is None or folder is None:
        return []
    table_quarantine = job_tables.quarantine_of(folder, name_in_path(location))
    with contextlib.suppress(UsageError):
        return [
            open_quarantine(path, job_tables.file_system)
            for path in dict.fromkeys((table_quarantine, folder))
        ]
    return []


def _print_written_rows(written_rows: WrittenRows) -> None:
    if written_rows.is_empty:
        print(NOTHING)
        return
    rows_text = f"{count_text(written_rows.added_count, 'row')} added, "
    rows_text += f"{written_rows.changed_count} changed, "
    rows_text += f"{written_rows.deleted_count} deleted"
    if written_rows.snapshot is None:
        print(f"would write: {rows_text}")
        print(DRY_RUN)
        return
    print(f"wrote in snapshot {written_rows.snapshot.snapshot_id}: {rows_text}")
    if written_rows.waiting_note:
        print(written_rows.waiting_note)
