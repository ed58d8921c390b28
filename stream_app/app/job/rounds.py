"""Makes the tables of a job, and the `EpochRounds` that bring epochs into them.

Called by `ingest_job`. A job of one table ends with its table's error. In a job of a whole database
each table fails alone, and further tables come with their messages.
"""

from __future__ import annotations

from typing import Any

from stream_app.app.config.source_config import SourceKind
from stream_app.app.job.checks import CheckedJob
from stream_app.app.job.feeds import JobFeeds
from stream_app.app.job.known_tables import OnlyTable, SampledDatabase
from stream_app.app.tables.database_tables import DatabaseTables
from stream_app.app.tables.source_statements import statements_of
from stream_app.clock import Clock
from stream_app.spark.checkpoint.epoch_log import EpochLog
from stream_app.spark.epoch.driver_epochs import DriverEpochs
from stream_app.spark.epoch.epoch_plan import EpochShape
from stream_app.spark.epoch.frame_epochs import FrameEpochs
from stream_app.spark.ingest.epoch_rounds import EpochRounds
from stream_app.spark.ingest.epoch_tables import EpochTables, HoldingTables, StoppingTables
from stream_app.spark.load.load_epochs import LoadEpochs


def job_rounds(
    checked: CheckedJob,
    feeds: JobFeeds,
    runner: FrameEpochs | DriverEpochs | LoadEpochs,
    epoch_log: EpochLog,
    clock: Clock,
) -> EpochRounds[Any]:
    """The tables of the job, and the rounds that bring epochs into them."""
    shape = EpochShape(
        tasks=feeds.stream.write_parallelism or runner.spark.sparkContext.defaultParallelism,
        sort_messages=feeds.tables.source.kind is SourceKind.FILES,
        isolates=feeds.tables.is_of_many,
    )
    kind: type[EpochTables]
    match checked.known:
        case OnlyTable(table):
            kind, known = StoppingTables, [feeds.only(table)]
            newcomers, read_statements = None, None
        case SampledDatabase(database, messages):
            newcomers = DatabaseTables(
                tables=database,
                state_file=checked.state_file,
                clock=clock,
                feed_of=feeds.of_table,
                quarantine=feeds.quarantine,
            )
            read_statements = statements_of(database, checked.state_file, clock.now_ms)
            # A table that cannot be created now is tried again with its first message.
            kind, known = (
                HoldingTables,
                [*newcomers.known_feeds(), *newcomers.feeds(messages).feeds],
            )
            held = frozenset(checked.state_file.state.held)
            shape = shape.with_splitter(newcomers.splitter(known, held))
    tables = kind(
        known,
        epoch_log=epoch_log,
        state_file=checked.state_file,
        now_ms=clock.now_ms,
        on_change=feeds.events.held,
    )
    return EpochRounds(
        tables=tables,
        shape=shape,
        runner=runner,
        clock=clock,
        newcomers=newcomers,
        read_statements=read_statements,
    )
