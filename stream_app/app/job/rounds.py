"""Makes the tables of a job, and the `EpochRounds` that bring epochs into them.

`ingest_job` calls it. An error of the table ends a job of one table. In a job of a whole database
each table fails alone, and new tables appear with their first messages.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from stream_app.app.job.feeds import JobFeeds
from stream_app.app.job.start_checks import CheckedJob
from stream_app.app.job.start_table_checks import CheckedTable, SampledDatabase
from stream_app.app.load.begin_load import JobLoad, PreparedTables
from stream_app.app.table_setup.database_tables import DatabaseTables
from stream_app.app.table_setup.source_statements import SourceStatements, statements_of
from stream_app.checkpoint.epoch_log import EpochLog
from stream_app.clock import Clock
from stream_app.epochs.commit.epoch_rounds import EpochRounds
from stream_app.epochs.commit.epoch_tables import (
    EpochTables,
    HoldingTables,
    LoadingTables,
    StoppingTables,
)
from stream_app.epochs.commit.table_feed import TableFeed
from stream_app.epochs.stages.epoch_plan import AllToOneTable, EpochSettings, MessageSplitter
from stream_app.epochs.stages.epoch_runner import EpochRunner, Messages


class RoundParts(NamedTuple):
    """The parts in which a job of one table and a job of a database differ.

    Attributes:
        tables_class: decides what the error of a table ends.
        newcomers, read_statements: see `EpochRounds`.
    """

    feeds: list[TableFeed]
    tables_class: type[EpochTables]
    splitter: MessageSplitter
    newcomers: DatabaseTables | None = None
    read_statements: SourceStatements | None = None


class PreparedRounds(NamedTuple):
    """A job's tables before a first load, which may create some of them.

    Attributes:
        tables: the tables for a first load.
        make_parts: makes the feeds and what else the rounds need; takes whether there is a first
            load.
    """

    tables: PreparedTables
    make_parts: Callable[[bool], RoundParts]


def prepare_rounds(checked: CheckedJob, feeds: JobFeeds, clock: Clock) -> PreparedRounds:
    """Return the job's only table, or the maker of a whole database's tables."""
    match checked.tables:
        case CheckedTable(table):
            return PreparedRounds(
                checked.tables,
                lambda _: RoundParts([feeds.of_only_table(table)], StoppingTables, AllToOneTable()),
            )
        case SampledDatabase(database, messages):
            database_tables = DatabaseTables(
                tables=database,
                state_file=checked.state_file,
                clock=clock,
                feed_of=feeds.of_table,
                quarantine=feeds.quarantine,
                first_messages=messages,
            )
            return PreparedRounds(
                database_tables, partial(_database_parts, database_tables, feeds, clock)
            )


def job_rounds(
    prepared: PreparedRounds,
    feeds: JobFeeds,
    runner: EpochRunner[Messages],
    epoch_log: EpochLog,
    settings: EpochSettings,
    clock: Clock,
    load: JobLoad | None = None,
) -> EpochRounds[Messages]:
    """Make the job's tables, and the rounds that bring epochs into them.

    Args:
        prepared: the job's tables, from `prepare_rounds`.
        settings: the settings of epochs that are the same for all tables.
        load: a first load, whose epochs run before those of the topics.

    Raises:
        TableNotFoundError: a table does not exist any more, and its first load has not ended.
    """
    parts = prepared.make_parts(load is not None)
    if load is not None:
        load.check_tables((feed.table_job.table for feed in parts.feeds), feeds.state_file.folder)
    epoch_tables = parts.tables_class(
        parts.feeds,
        epoch_log=epoch_log,
        state_file=feeds.state_file,
        now_ms=clock.now_ms,
        on_change=feeds.events.report_held,
        load_epochs=0 if load is None else load.epochs,
    )
    settings = replace(settings, holds_tables=epoch_tables.holds_tables)
    return EpochRounds(
        tables=epoch_tables,
        settings=settings.with_splitter(parts.splitter),
        runner=runner,
        clock=clock,
        newcomers=parts.newcomers,
        read_statements=parts.read_statements,
    )


def _database_parts(
    database: DatabaseTables, feeds: JobFeeds, clock: Clock, is_load: bool
) -> RoundParts:
    """Return the parts for a whole database, and create the tables that it lacks."""
    # A table that cannot be created here is tried again with its first message.
    table_feeds = [*database.known_feeds(), *database.create(database.first_messages).feeds]
    return RoundParts(
        table_feeds,
        LoadingTables if is_load else HoldingTables,
        database.splitter(table_feeds, frozenset(feeds.state_file.state.held)),
        newcomers=database,
        read_statements=statements_of(database.tables, feeds.state_file, clock.now_ms),
    )
