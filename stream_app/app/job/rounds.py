"""Makes the tables of a job, and the `EpochRounds` that bring epochs into them.

`ingest_job` calls it. An error of the table ends a job of one table. In a job of a whole database
each table fails alone, and new tables appear with their first messages.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from stream_app.app.job.checks import CheckedJob
from stream_app.app.job.feeds import JobFeeds
from stream_app.app.job.loading import JobLoad
from stream_app.app.job.table_checks import CheckedTable, SampledDatabase
from stream_app.app.tables.database_tables import DatabaseTables
from stream_app.app.tables.source_statements import statements_of
from stream_app.clock import Clock
from stream_app.spark.checkpoint.epoch_log import EpochLog
from stream_app.spark.epoch.epoch_plan import AllToOneTable, EpochSettings, MessageSplitter
from stream_app.spark.epoch.epoch_runner import EpochRunner, Messages
from stream_app.spark.ingest.epoch_rounds import EpochRounds
from stream_app.spark.ingest.epoch_tables import (
    EpochTables,
    HoldingTables,
    LoadingTables,
    StoppingTables,
)


def prepared_tables(
    checked: CheckedJob, feeds: JobFeeds, clock: Clock
) -> CheckedTable | DatabaseTables:
    """Return the job's only table, or the maker of a whole database's tables."""
    match checked.tables:
        case CheckedTable():
            return checked.tables
        case SampledDatabase(database, messages):
            return DatabaseTables(
                tables=database,
                state_file=checked.state_file,
                clock=clock,
                feed_of=feeds.of_table,
                quarantine=feeds.quarantine,
                first_messages=messages,
            )


def job_rounds(
    prepared: CheckedTable | DatabaseTables,
    feeds: JobFeeds,
    runner: EpochRunner[Messages],
    epoch_log: EpochLog,
    settings: EpochSettings,
    clock: Clock,
    load: JobLoad | None = None,
) -> EpochRounds[Messages]:
    """Make the job's tables, and the rounds that bring epochs into them.

    Args:
        prepared: the return value of `prepared_tables`.
        settings: without what the tables decide.
        load: a first load, whose epochs run before those of the topics.

    Raises:
        TableNotFoundError: a table does not exist any more, and its first load has not ended.
    """
    policy: Callable[..., EpochTables] = StoppingTables
    splitter: MessageSplitter = AllToOneTable()
    newcomers = read_statements = None
    match prepared:
        case CheckedTable(table):
            table_feeds = [feeds.only(table)]
        case DatabaseTables():
            newcomers = prepared
            read_statements = statements_of(prepared.tables, feeds.state_file, clock.now_ms)
            # A table that cannot be created now is tried again with its first message.
            table_feeds = [*prepared.known_feeds(), *prepared.create(prepared.first_messages).feeds]
            splitter = prepared.splitter(table_feeds, frozenset(feeds.state_file.state.held))
            policy = (
                HoldingTables if load is None else partial(LoadingTables, load_epochs=load.epochs)
            )
    if load is not None:
        load.check_tables((feed.job.table for feed in table_feeds), feeds.state_file.folder)
    epoch_tables = policy(
        table_feeds,
        epoch_log=epoch_log,
        state_file=feeds.state_file,
        now_ms=clock.now_ms,
        on_change=feeds.events.held,
    )
    return EpochRounds(
        tables=epoch_tables,
        settings=replace(settings, splitter=splitter, holds_tables=epoch_tables.holds_tables),
        runner=runner,
        clock=clock,
        newcomers=newcomers,
        read_statements=read_statements,
    )
