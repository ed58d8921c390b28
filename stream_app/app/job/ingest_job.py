"""The job: configuration → checks → session → stream. Runs in Spark's driver.

``spark-submit`` starts it through `submit/ingest.py`; ``stream-app ingest`` builds that command
line. `_IngestJob.run` has the steps behind the checks (`job_checks`).

A ``[sync.tables.NAME]`` to which no message belongs is a likely misspelling. The job warns of it
once in a run, when it first reaches the end of its topics: until then a table may still appear.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple, TypeVar

from pyspark.sql import SparkSession

from stream_app.app.config.app_config import AppConfig
from stream_app.app.config.secrets import hidden
from stream_app.app.config.source_config import SourceKind
from stream_app.app.config.tables_of_job import WholeDatabase
from stream_app.app.job.job_checks import CheckedJob, checked_job
from stream_app.app.job.job_stream import JobFeeds, runner_of, source_of, stream_of
from stream_app.app.observe.monitoring.signs_of_life import Activity, SignsOfLife, signs_of_life
from stream_app.app.observe.watched_job import WatchedJob
from stream_app.app.tables.database_tables import DatabaseTables
from stream_app.app.tables.job_folders import (
    hadoop_settings,
    open_folder,
)
from stream_app.clock import Clock
from stream_app.errors import NoGoodRecordError, TablesHeldError
from stream_app.model.options.compaction_options import COMPACTION_MAX_PARALLELISM
from stream_app.model.options.core_options import CoreOptions
from stream_app.planning.sync.named_tables import nearest_table
from stream_app.spark.compact_jobs import SparkCompactions
from stream_app.spark.epoch.decode_counts import DecodeCounts
from stream_app.spark.epoch.epoch_plan import EpochShape
from stream_app.spark.epoch.epoch_runner import EpochRunner
from stream_app.spark.epoch.frame_epochs import FrameEpochs
from stream_app.spark.epoch.range_epochs import RangeEpochs
from stream_app.spark.epoch.warm_up import warming_up
from stream_app.spark.hadoop_files import HadoopFiles
from stream_app.spark.ingest.epoch_committer import EpochCommitter
from stream_app.spark.ingest.epoch_log import EpochLog
from stream_app.spark.ingest.epoch_writer import EpochWriter
from stream_app.spark.ingest.held_table import HeldTable
from stream_app.spark.ingest.job_state import JobStateFile, JobWarning
from stream_app.spark.ingest.job_tables import HoldingTables, StoppingTables
from stream_app.spark.ingest.table_feed import TableFeed
from stream_app.spark.job_folder import Folder
from stream_app.spark.jvm_watch import ending_with_jvm
from stream_app.spark.session import start_session
from stream_app.spark.stop_signals import stop_on_signals
from stream_app.spark.stream.files_source import FilesSource
from stream_app.spark.stream.kafka_source import KafkaSource
from stream_app.spark.stream.running_stream import RunningStream

_SHOWN_MAX = 20
_T = TypeVar("_T")


@dataclass(slots=True)
class UnmetTables:
    """Checks once in a run.

    Attributes:
        named: the tables with settings of their own.
        state: has the tables that the job has met, and keeps the warnings.
        lock: that of the state's writers; while an epoch has it, the check waits for the next time.
    """

    named: Sequence[str]
    state: JobStateFile
    lock: Lock
    _is_done: bool = field(init=False, default=False)

    def behind(self, first: Callable[[_T], None]) -> Callable[[_T], None]:
        """Call `first`, and then check."""

        def call(progress: _T) -> None:
            first(progress)
            self.check()

        return call

    def check(self) -> None:
        """Log a warning for each unmet table, and remember it."""
        if self._is_done or not self.named or not self.lock.acquire(blocking=False):
            return
        try:
            self._is_done = True
            known = sorted(set(self.state.state.origins.values()))
            unmet = [name for name in self.named if name not in known] if known else []
            self.state.warn(_warning(name, known) for name in unmet)
        finally:
            self.lock.release()


def _warning(name: str, known: Sequence[str]) -> JobWarning:
    near = nearest_table(name, known)
    meant = f"rename it to [sync.tables.{near}]; " if near else ""
    more = "" if len(known) <= _SHOWN_MAX else f" and {len(known) - _SHOWN_MAX} more"
    return JobWarning(
        what=f"[sync.tables.{name}] does nothing so far: no message belongs to a table of that "
        "name",
        fix=f"{meant}the tables are {', '.join(known[:_SHOWN_MAX])}{more}",
    )


_LOG = logging.getLogger("stream_app")
_LOOKING = Activity("no epoch has begun: Spark looks for messages", repeats=False)


def ingest(config: AppConfig, clock: Clock, watched: WatchedJob, events_file: Path | None) -> None:
    """Run the job until its source is drained or it is stopped.

    Args:
        watched: gets the job's events.
        events_file: gets a JSON line for each epoch and commit.

    Raises:
        StreamAppError: an error in the setup, or while the job runs.
    """
    with ExitStack() as stack:
        signs = stack.enter_context(signs_of_life(clock))
        signs.begin("topics, table and checkpoint are looked at")
        folder_of = partial(job_folder, config)
        checked = checked_job(config.tables, config.stream, clock, folder_of)
        if events_file is not None:
            file = stack.enter_context(events_file.open("a", encoding="utf-8"))
            watched.events.sink = hidden(file, config.secrets)
        signs.begin("Spark's session begins")
        spark, stop_requested = _session(config), threading.Event()
        stack.enter_context(ending_with_jvm(spark, stop_requested))
        _IngestJob(config, checked, clock, watched, signs, spark, stop_requested).run()


def job_folder(config: AppConfig, location: str) -> Folder:
    """A folder of the job; starts Spark's session if only Spark reaches the folder."""
    return open_folder(location, config.file_system, lambda: HadoopFiles(_session(config)))


def _session(config: AppConfig) -> SparkSession:
    """The Spark session of this process."""
    settings = hadoop_settings(config.stream.checkpoint, config.file_system, os.environ)
    return start_session(f"stream_app {config.tables.name}", {**settings, **config.spark})


class _IngestJob(NamedTuple):
    """A checked job in its process; `run` has its steps."""

    config: AppConfig
    checked: CheckedJob
    clock: Clock
    watched: WatchedJob
    signs: SignsOfLife
    spark: SparkSession
    stop_requested: threading.Event

    def run(self) -> None:
        """Join and run the parts, judge the outcome, and end the parts in any case."""
        compactions = SparkCompactions(self.spark, self._compactions_at_once())
        feeds = self._feeds(compactions)
        try:
            self.watched.metrics.jvm.attach(self.spark)
            folder = self.checked.state_file.folder
            source = source_of(self.config.source, folder)
            runner = runner_of(self.config.source, self.checked.reader, self.spark, source)
            epoch_log = EpochLog(folder, goes_back=isinstance(source, KafkaSource))
            committer = EpochCommitter(self._epoch_writer(feeds, runner, epoch_log))
            self._stream(committer, runner, source)
            _check_none_held(committer.tables.held.by_name)
            quarantine = self.config.stream.quarantine
            _check_not_all_bad(committer.writer.totals, feeds.of_no_table, quarantine)
        finally:
            self.signs.begin("Spark ends")
            feeds.close()
            compactions.close()
            self.watched.metrics.jvm.detach()
            self.spark.stop()

    def _compactions_at_once(self) -> int | None:
        table = self.checked.table
        if table is not None:
            return table.options[COMPACTION_MAX_PARALLELISM]
        return CoreOptions(self.config.tables.section.options)[COMPACTION_MAX_PARALLELISM]

    def _feeds(self, compactions: SparkCompactions) -> JobFeeds:
        return JobFeeds(
            tables=self.config.tables,
            stream=self.config.stream,
            state_file=self.checked.state_file,
            open_folder=partial(job_folder, self.config),
            compactions=compactions,
            stopping=self.stop_requested.is_set,
            events=self.watched.events,
        )

    def _epoch_writer(
        self, feeds: JobFeeds, runner: EpochRunner[Any], epoch_log: EpochLog
    ) -> EpochWriter[Any]:
        """The tables of the job, and what brings epochs into them."""
        config, state_file = self.config, self.checked.state_file
        shape = EpochShape(
            tasks=config.stream.write_parallelism or self.spark.sparkContext.defaultParallelism,
            sort_messages=config.source.kind is SourceKind.FILES,
            isolates=isinstance(config.tables, WholeDatabase),
        )
        newcomers, known = None, list[TableFeed]()
        if self.checked.table is not None:
            known = [feeds.only(self.checked.table)]
        elif isinstance(config.tables, WholeDatabase):
            newcomers = DatabaseTables(
                tables=config.tables,
                state=state_file,
                clock=self.clock,
                feed_of=feeds.of_table,
                quarantine=feeds.quarantine,
            )
            # A table that cannot be created now is tried again with its first message.
            known = [*newcomers.known(), *newcomers.feeds(self.checked.first_messages).feeds]
            held = frozenset(state_file.state.held)
            shape = shape.with_splitter(newcomers.splitter(known, held))
        tables = (StoppingTables if newcomers is None else HoldingTables)(
            known,
            epoch_log=epoch_log,
            state_file=state_file,
            now_ms=self.clock.now_ms,
            on_change=self.watched.events.held,
        )
        return EpochWriter(
            tables=tables,
            shape=shape,
            runner=runner,
            clock=self.clock,
            newcomers=newcomers,
        )

    def _stream(
        self,
        committer: EpochCommitter[Any],
        runner: FrameEpochs | RangeEpochs,
        source: KafkaSource | FilesSource,
    ) -> None:
        """Run the stream until its source is drained or it is stopped."""
        tables, stream, events = self.config.tables, self.config.stream, self.watched.events
        checkpoint = self.checked.state_file.folder
        plan = committer.writer.plan()
        unmet = UnmetTables(tables.named, self.checked.state_file, committer.lock)
        running = RunningStream(
            committer=committer,
            drains=stream.is_available_now,
            on_progress=events.progress,
            on_idle=unmet.behind(events.idle),
            on_drained=unmet.behind(events.drained),
            watched=events.looked,
            stop_requested=self.stop_requested,
        )
        stop_on_signals(self.spark, self.stop_requested)
        events.watch_source(lambda: committer.position)
        events.started(tables.location, str(checkpoint))
        self.signs.at_work = lambda: _at_work(committer)
        with warming_up(self.spark, lambda: runner.warm_up(plan)):
            running.run(stream_of(tables, stream, runner, source, running, checkpoint, self.clock))
        events.ended()


def _check_none_held(held: Mapping[str, HeldTable]) -> None:
    """A run whose tables lack changes must not look successful."""
    if held:
        raise TablesHeldError(
            f"{len(held)} of the job's tables are held back; the others have all changes: "
            + "".join(f"\n  {name}: {table.reason}" for name, table in sorted(held.items())),
            fix="mend these, and start the job again: it goes on where each table was",
        )


def _check_not_all_bad(totals: DecodeCounts, of_no_table: int, quarantine: str | None) -> None:
    """A run that stored no message although it read some must not look successful."""
    bad = totals.bad + of_no_table
    if bad and totals.bad == totals.messages - totals.skipped:
        raise NoGoodRecordError(
            f"all {bad} records of this run are bad; none is in the table",
            where=f"stream.quarantine: {quarantine}",
            fix="see the reasons there, mend them, and let a job with a new checkpoint read again",
        )


def _at_work(committer: EpochCommitter[Any]) -> Activity | None:
    epoch = committer.epoch_at_work
    if epoch is not None:
        return Activity(f"epoch {epoch} is at work")
    return _LOOKING if committer.is_untouched else None
