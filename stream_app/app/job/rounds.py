"""Makes the tables of a job, and the `EpochRounds` that bring epochs into them.

`ingest_job` calls it. An error of the table ends a job of one table. In a job of a whole database
each table fails alone, and new tables appear with their first messages.
"""

from __future__ import annotations

from dataclasses import replace

from stream_app.app.job.checks import CheckedJob
from stream_app.app.job.feeds import JobFeeds
from stream_app.app.job.loading import JobLoad
from stream_app.app.job.table_checks import CheckedTable, SampledDatabase
from stream_app.app.table_setup.database_tables import DatabaseTables
from stream_app.app.table_setup.source_statements import statements_of
from stream_app.checkpoint.epoch_log import EpochLog
from stream_app.clock import Clock
from stream_app.spark.epoch.epoch_plan import AllToOneTable, EpochSettings
from stream_app.spark.epoch.epoch_runner import EpochRunner, Messages
from stream_app.spark.ingest.epoch_rounds import EpochRounds
from stream_app.spark.ingest.epoch_tables import (
    EpochTables,
    HoldingTables,
    LoadingTables,
    StoppingTables,
)
from stream_app.spark.ingest.table_feed import TableFeed


def prepare_tables(
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
        prepared: the return value of `prepare_tables`.
        settings: without what the tables decide.
        load: a first load, whose epochs run before those of the topics.

    Raises:
        TableNotFoundError: a table does not exist any more, and its first load has not ended.
    """
    table_feeds = _table_feeds(prepared, feeds)
    if load is not None:
        load.check_tables((feed.table_job.table for feed in table_feeds), feeds.state_file.folder)
    epoch_tables = _tables_class(prepared, load)(
        table_feeds,
        epoch_log=epoch_log,
        state_file=feeds.state_file,
        now_ms=clock.now_ms,
        on_change=feeds.events.report_held,
        load_epochs=0 if load is None else load.epochs,
    )
    settings = replace(settings, holds_tables=epoch_tables.holds_tables)
    if isinstance(prepared, CheckedTable):
        settings = settings.with_splitter(AllToOneTable())
        return EpochRounds(tables=epoch_tables, settings=settings, runner=runner, clock=clock)
    splitter = prepared.splitter(table_feeds, frozenset(feeds.state_file.state.held))
    return EpochRounds(
        tables=epoch_tables,
        settings=settings.with_splitter(splitter),
        runner=runner,
        clock=clock,
        newcomers=prepared,
        read_statements=statements_of(prepared.tables, feeds.state_file, clock.now_ms),
    )


def _table_feeds(prepared: CheckedTable | DatabaseTables, feeds: JobFeeds) -> list[TableFeed]:
    """Return the feeds of the job's tables, and create the tables that the database lacks."""
    if isinstance(prepared, CheckedTable):
        return [feeds.of_only_table(prepared.table)]
    # A table that cannot be created here is tried again with its first message.
    return [*prepared.known_feeds(), *prepared.create(prepared.first_messages).feeds]


def _tables_class(
    prepared: CheckedTable | DatabaseTables, load: JobLoad | None
) -> type[EpochTables]:
    """Return the class that decides what the error of a table ends."""
    if isinstance(prepared, CheckedTable):
        return StoppingTables
    return HoldingTables if load is None else LoadingTables
