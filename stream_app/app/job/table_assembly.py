"""Makes the tables of a job, and the `RoundRunner` that brings epochs into them.

`ingest_job` calls it. An error of the table ends a job of one table. In a job of a whole database
each table fails alone, and new tables appear with their first messages.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from stream_app.app.job.feed_factory import FeedFactory
from stream_app.app.job.start_checks import CheckedJob
from stream_app.app.load.begin_load import JobLoad
from stream_app.app.table_setup.database_tables import DatabaseTables
from stream_app.app.table_setup.start_table_checks import CheckedTable, SampledDatabase
from stream_app.app.table_setup.statement_reader import StatementReader, statement_reader_of
from stream_app.checkpoint.epoch_log import EpochLog
from stream_app.clock import Clock
from stream_app.epochs.rounds.epoch_tables import (
    EpochTables,
    IndependentTables,
    LoadingTables,
    StoppingTables,
)
from stream_app.epochs.rounds.round_runner import RoundRunner
from stream_app.epochs.rounds.table_feed import TableFeed
from stream_app.epochs.stages.epoch_plan import EpochSettings, MessageSplitter, OneTableSplitter
from stream_app.epochs.stages.epoch_runner import EpochRunner, MessagesT


class RoundSetup(NamedTuple):
    """The setup in which a job of one table and a job of a database differ.

    Attributes:
        tables_class: decides what the error of a table ends.
        newcomer_creator: creates tables that appear; None if no table may appear.
        read_statements: gets messages that may carry statements of the source; None if the job
            reads none.
    """

    feeds: list[TableFeed]
    tables_class: type[EpochTables]
    splitter: MessageSplitter
    newcomer_creator: DatabaseTables | None = None
    read_statements: StatementReader | None = None


def prepare_tables(
    checked_job: CheckedJob, feed_factory: FeedFactory, clock: Clock
) -> CheckedTable | DatabaseTables:
    """Return the job's only table, or the tables of a whole database."""
    match checked_job.tables:
        case SampledDatabase(job_tables, first_messages):
            return DatabaseTables(
                job_tables=job_tables,
                state_file=checked_job.state_file,
                clock=clock,
                make_feed=feed_factory.of_table,
                write_unassigned_messages=feed_factory.write_unassigned_messages,
                first_messages=first_messages,
            )
        case CheckedTable() as only_table:
            return only_table


def job_round_runner(
    prepared_tables: CheckedTable | DatabaseTables,
    feed_factory: FeedFactory,
    runner: EpochRunner[MessagesT],
    epoch_log: EpochLog,
    settings: EpochSettings,
    clock: Clock,
    load: JobLoad | None = None,
) -> RoundRunner[MessagesT]:
    """Make the job's tables, and the rounds that bring epochs into them.

    Args:
        prepared_tables: the job's tables, from `prepare_tables`.
        settings: the settings of epochs that are the same for all tables.
        load: a first load, whose epochs run before those of the topics.

    Raises:
        TableNotFoundError: a table does not exist any more, and its first load has not ended.
    """
    match prepared_tables:
        case CheckedTable(table):
            only_feed = feed_factory.of_only_table(table)
            setup = RoundSetup([only_feed], StoppingTables, OneTableSplitter())
        case DatabaseTables():
            setup = _database_setup(
                prepared_tables, feed_factory, clock, has_first_load=load is not None
            )
    if load is not None:
        load.check_tables((feed.table for feed in setup.feeds), feed_factory.state_file.checkpoint)
    epoch_tables = setup.tables_class(
        setup.feeds,
        epoch_log=epoch_log,
        state_file=feed_factory.state_file,
        now_ms=clock.now_ms,
        on_change=feed_factory.events.report_held_table,
        load_epoch_count=0 if load is None else load.epoch_count,
    )
    settings = replace(settings, holds_tables=epoch_tables.holds_tables)
    return RoundRunner(
        tables=epoch_tables,
        settings=settings.with_splitter(setup.splitter),
        epoch_runner=runner,
        clock=clock,
        newcomer_creator=setup.newcomer_creator,
        read_statements=setup.read_statements,
    )


def _database_setup(
    database_tables: DatabaseTables,
    feed_factory: FeedFactory,
    clock: Clock,
    *,
    has_first_load: bool,
) -> RoundSetup:
    """Return the setup for a whole database, and create the tables that it lacks."""
    # A table that cannot be created here is tried again with its first message.
    table_feeds = [
        *database_tables.known_feeds(),
        *database_tables.create(database_tables.first_messages).feeds,
    ]
    return RoundSetup(
        table_feeds,
        LoadingTables if has_first_load else IndependentTables,
        database_tables.splitter(table_feeds, frozenset(feed_factory.state_file.state.held_tables)),
        newcomer_creator=database_tables,
        read_statements=statement_reader_of(
            database_tables.job_tables, feed_factory.state_file, clock.now_ms
        ),
    )
