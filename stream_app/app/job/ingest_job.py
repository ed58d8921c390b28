"""Runs the ingest job in Spark's driver: checks, then the session, then the stream.

``spark-submit`` starts it through `submit/ingest.py`; ``stream-app ingest`` builds that command
line. `_IngestJob.run` has the steps after the checks (`start_checks`). Each step gets only the
values that it needs, which `submit.job_settings` takes from the configuration.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from stream_app.app.config.job_tables.single_table import SingleTable
from stream_app.app.config.job_tables.whole_database import WholeDatabase
from stream_app.app.config.source_config import SourceKind
from stream_app.app.config.stream_config import StreamConfig
from stream_app.app.job.checks_between_epochs import ChecksBetweenEpochs
from stream_app.app.job.database_record import DatabaseSnapshotRecorder
from stream_app.app.job.feed_factory import FeedFactory
from stream_app.app.job.run_outcome import check_no_table_held, check_not_all_bad
from stream_app.app.job.session_starter import SessionStarter
from stream_app.app.job.source_reader import (
    SourceReader,
    StreamSettings,
    pace_of,
    source_reader_of,
)
from stream_app.app.job.start_checks import CheckedJob, StartChecks
from stream_app.app.job.table_assembly import job_round_runner, prepare_tables
from stream_app.app.job.transient_warnings import TransientWarnings
from stream_app.app.job.unused_settings_check import UnusedSettingsCheck
from stream_app.app.load.begin_load import JobLoad, PreparedTables, begin_or_resume_load
from stream_app.app.observe.channels.signs_of_life import Activity, SignsOfLife, signs_of_life
from stream_app.app.observe.job_observers import JobObservers
from stream_app.checkpoint.border_log import BorderLog
from stream_app.checkpoint.epoch_log import EpochLog
from stream_app.clock import Clock
from stream_app.epochs.rounds.epoch_committer import EpochCommitter
from stream_app.epochs.rounds.epoch_tables import EpochTables
from stream_app.epochs.stages.epoch_plan import EpochSettings
from stream_app.epochs.stages.epoch_runner import MessagesT
from stream_app.epochs.stream.epoch_pace import Pace
from stream_app.epochs.stream.running_stream import RunningStream
from stream_app.model.options.compaction_options import COMPACTION_MAX_PARALLELISM
from stream_app.model.options.core_options import CoreOptions
from stream_app.spark.driver.jvm_watch import watched_session
from stream_app.spark.driver.stop_signals import stop_on_signals
from stream_app.spark.jobs.spark_compactions import DRIVER_SIZE_MAX, SparkCompactionQueue
from stream_app.spark.jobs.warm_up import warming_up
from stream_app.table.api.database_snapshots import database_snapshots

_LOG = logging.getLogger(__name__)
_MESSAGE_SEARCH = Activity("no epoch has begun: the job looks for messages", repeats=False)


def ingest(
    job_tables: SingleTable | WholeDatabase,
    stream_config: StreamConfig,
    session_starter: SessionStarter,
    observers: JobObservers,
    clock: Clock,
) -> None:
    """Run the job until its source is drained or the job is stopped.

    Args:
        observers: receive the job's events.

    Raises:
        StreamAppError: the setup is wrong, or the job fails while it runs.
    """
    with ExitStack() as stack:
        signs = stack.enter_context(signs_of_life(clock))
        signs.begin("the job checks topics, table and checkpoint")
        checks = StartChecks(
            job_tables=job_tables,
            stream_config=stream_config,
            clock=clock,
            open_folder=session_starter.open_folder,
        )
        checked_job = checks.run()
        stack.enter_context(observers.writing_events())
        signs.begin("Spark's session begins")
        spark = session_starter.start()
        stop_requested = threading.Event()
        stack.enter_context(watched_session(spark, stop_requested))
        _IngestJob(
            job_tables=job_tables,
            stream_config=stream_config,
            session_starter=session_starter,
            checked_job=checked_job,
            observers=observers,
            signs=signs,
            spark=spark,
            stop_requested=stop_requested,
            clock=clock,
        ).run()


@dataclass(frozen=True, slots=True, kw_only=True)
class _IngestJob:
    """A checked job in its process; `run` has its steps."""

    job_tables: SingleTable | WholeDatabase
    stream_config: StreamConfig
    session_starter: SessionStarter
    checked_job: CheckedJob
    observers: JobObservers
    signs: SignsOfLife
    spark: SparkSession
    stop_requested: threading.Event
    clock: Clock

    def run(self) -> None:
        """Run the job, and close its parts at the end.

        1. Make the feeds of the tables, and begin to measure.
        2. Open the tables, and begin or resume a first load.
        3. Make the reader of the source, and the rounds that bring its epochs into the tables.
        4. Run the stream.
        5. Judge the outcome.
        """
        driver_messages_max = self.stream_config.driver_messages
        driver_bytes_max = DRIVER_SIZE_MAX if driver_messages_max else 0
        with ExitStack() as closing:
            closing.callback(self.observers.metrics.jvm.detach)
            compaction_queue = SparkCompactionQueue(
                self.spark, self._compactions_at_once(), driver_bytes_max
            )
            closing.callback(compaction_queue.close)
            feed_factory = self._feed_factory(compaction_queue)  # step 1
            closing.callback(feed_factory.close)
            closing.callback(self.signs.begin, "Spark ends")
            self.observers.metrics.jvm.attach(self.spark)
            self.observers.metrics.note_decoder(self.checked_job.state_file.state.decoder)
            prepared_tables = prepare_tables(self.checked_job, feed_factory, self.clock)  # step 2
            load = self._begin_load(prepared_tables)
            # step 3
            source_reader: SourceReader[Any] = source_reader_of(
                source_config=self.job_tables.source,
                reader_settings=self.checked_job.reader_settings,
                spark=self.spark,
                checkpoint=self.checked_job.checkpoint,
                driver_messages_max=driver_messages_max,
                load=load,
            )
            round_runner = job_round_runner(
                prepared_tables=prepared_tables,
                feed_factory=feed_factory,
                runner=source_reader.runner,
                epoch_log=EpochLog(
                    self.checked_job.checkpoint, can_reread=source_reader.can_reread
                ),
                settings=self._epoch_settings(),
                clock=self.clock,
                load=load,
            )
            if load is not None:
                self._report_load(load, round_runner.tables)
            epoch_committer = EpochCommitter(
                round_runner, self._on_committed(round_runner.tables, feed_factory.pace)
            )
            self._run_stream(epoch_committer, feed_factory, source_reader)  # step 4
            check_no_table_held(epoch_committer.tables.held_by_name)  # step 5
            check_not_all_bad(
                round_runner.totals, feed_factory.unassigned_count, self.stream_config.quarantine
            )

    def _begin_load(self, prepared_tables: PreparedTables) -> JobLoad | None:
        """Begin or resume the first load that the configuration asks for."""
        return begin_or_resume_load(
            job_tables=self.job_tables,
            prepared_tables=prepared_tables,
            state_file=self.checked_job.state_file,
            reader_settings=self.checked_job.reader_settings,
            clock=self.clock,
            task_count=self._task_count,
        )

    def _report_load(self, load: JobLoad, epoch_tables: EpochTables) -> None:
        """Report the progress of a first load in the job's metrics."""
        self.observers.metrics.read_load_from(lambda: load.progress(epoch_tables.epoch + 1))

    def _on_committed(self, epoch_tables: EpochTables, pace: Pace) -> Callable[[int], None]:
        """Return the function that runs after the commits of an epoch.

        It may record a database snapshot.
        """
        if not self.job_tables.keeps_transactions:
            return pace.note_commit
        record_snapshot = DatabaseSnapshotRecorder(
            epoch_tables=epoch_tables,
            borders=BorderLog(self.checked_job.checkpoint),
            snapshots=database_snapshots(self.job_tables.location, self.job_tables.file_system),
            clock=self.clock,
        )

        def on_committed(epoch: int) -> None:
            pace.note_commit(epoch)
            record_snapshot(epoch)

        return on_committed

    def _compactions_at_once(self) -> int | None:
        table = self.checked_job.table
        options = CoreOptions(self.job_tables.section.options) if table is None else table.options
        return options[COMPACTION_MAX_PARALLELISM] or self.stream_config.compaction_cores

    def _epoch_settings(self) -> EpochSettings:
        return EpochSettings(
            task_count=self.stream_config.write_parallelism or self._task_count,
            sorts_messages=self.job_tables.source.kind is SourceKind.FILES,
        )

    @property
    def _task_count(self) -> int:
        return self.spark.sparkContext.defaultParallelism

    def _feed_factory(self, compaction_queue: SparkCompactionQueue) -> FeedFactory:
        return FeedFactory(
            job_tables=self.job_tables,
            stream_config=self.stream_config,
            state_file=self.checked_job.state_file,
            open_folder=self.session_starter.open_folder,
            compaction_queue=compaction_queue,
            pace=pace_of(self.stream_config, self.clock),
            is_stopping=self.stop_requested.is_set,
            events=self.observers.events,
        )

    def _run_stream(
        self,
        epoch_committer: EpochCommitter[MessagesT],
        feed_factory: FeedFactory,
        source_reader: SourceReader[MessagesT],
    ) -> None:
        """Run the stream until its source is drained or it is stopped."""
        job_tables, stream_config = self.job_tables, self.stream_config
        events = self.observers.events
        checkpoint = self.checked_job.checkpoint
        plan = epoch_committer.round_runner.plan()
        unused_settings_check = UnusedSettingsCheck(
            named_tables=job_tables.named_tables,
            find_idle_expectations=feed_factory.idle_expectations,
            state_file=self.checked_job.state_file,
        )
        with_checks = ChecksBetweenEpochs(epoch_committer.lock).with_checks
        transient_warnings = TransientWarnings(
            state_file=self.checked_job.state_file,
            find_service_problems=events.listeners.problems,
            budget=feed_factory.budget,
            pace=feed_factory.pace,
        )
        running_stream = RunningStream(
            epoch_committer=epoch_committer,
            drains=stream_config.is_available_now,
            on_progress=with_checks(events.report_progress, transient_warnings.write),
            on_idle=with_checks(
                events.report_poll, transient_warnings.write, unused_settings_check.check
            ),
            on_drained=with_checks(events.report_drain, unused_settings_check.check),
            on_check=events.report_heartbeat,
            stop_requested=self.stop_requested,
        )
        settings = StreamSettings(
            job_tables=job_tables,
            trigger=None if stream_config.is_available_now else stream_config.trigger,
            pace=feed_factory.pace,
            checkpoint=checkpoint,
            clock=self.clock,
        )
        stop_on_signals(self.spark, self.stop_requested)
        events.watch_source(lambda: epoch_committer.reached_offsets)
        events.report_start(job_tables.location, str(checkpoint))
        self.signs.watch(lambda: _activity_of(epoch_committer))
        with ExitStack() as stack:
            stack.callback(source_reader.runner.close)
            stack.enter_context(warming_up(self.spark, lambda: source_reader.runner.warm_up(plan)))
            running_stream.run(source_reader.stream(settings, running_stream))
        events.report_end()


def _activity_of(epoch_committer: EpochCommitter[MessagesT]) -> Activity | None:
    epoch = epoch_committer.epoch_at_work
    if epoch is not None:
        return Activity(f"epoch {epoch} is at work")
    return _MESSAGE_SEARCH if epoch_committer.is_untouched else None
