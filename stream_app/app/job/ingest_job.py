"""The job: configuration → checks → session → streaming query. Runs in Spark's driver.

``spark-submit`` starts it through `submit/ingest.py`; ``stream-app ingest`` builds that command
line. It checks everything before Spark reads the first record. Checks that need no JVM run before
it starts one.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from stream_app.app.config.app_config import AppConfig
from stream_app.app.config.secrets import hidden
from stream_app.app.config.source_config import SourceConfig
from stream_app.app.config.stream_config import StreamConfig
from stream_app.app.config.tables_of_job import SingleTable, WholeDatabase
from stream_app.app.job.job_feeds import JobFeeds
from stream_app.app.job.job_stream import runner_of, source_of, stream_of
from stream_app.app.job.unmet_tables import UnmetTables
from stream_app.app.observe.monitoring.signs_of_life import Activity, SignsOfLife, signs_of_life
from stream_app.app.observe.watched_job import WatchedJob
from stream_app.app.source.preflight import (
    RECREATED_FIX,
    TopicInfo,
    check_topics,
    recreated,
    uncheckable,
)
from stream_app.app.source.source_reader import native_reader
from stream_app.app.tables.damaged_checkpoint import check_whole
from stream_app.app.tables.database_tables import DatabaseTables
from stream_app.app.tables.first_messages import (
    check_first_messages,
    first_messages_of_all,
    first_remarks,
    warn_of_first_messages,
)
from stream_app.app.tables.format_setup import format_setup
from stream_app.app.tables.job_folders import (
    check_writable,
    hadoop_settings,
    make_local,
    open_folder,
)
from stream_app.app.tables.one_table import column_warnings, job_table, wanted_schema
from stream_app.cdc.change_batch import MESSAGE_SCHEMA
from stream_app.clock import Clock
from stream_app.errors import NoGoodRecordError, TablesHeldError, WrongSourceError
from stream_app.fileio.file_io_registry import scheme_of
from stream_app.fileio.local_file_io import local_path
from stream_app.kafka.range_reader import ReaderSettings
from stream_app.model.options.compaction_options import COMPACTION_MAX_PARALLELISM
from stream_app.model.options.core_options import CoreOptions
from stream_app.spark.compact_jobs import SparkCompactions
from stream_app.spark.epoch.decode_counts import DecodeCounts
from stream_app.spark.epoch.epoch_plan import EpochShape
from stream_app.spark.epoch.frame_epochs import FrameEpochs
from stream_app.spark.epoch.range_epochs import RangeEpochs
from stream_app.spark.epoch.warm_up import warming_up
from stream_app.spark.hadoop_files import HadoopFiles
from stream_app.spark.ingest.checkpoint_owner import DATABASE, own_checkpoint, remember_topics
from stream_app.spark.ingest.epoch_committer import EpochCommitter
from stream_app.spark.ingest.epoch_log import EpochLog
from stream_app.spark.ingest.epoch_writer import EpochWriter
from stream_app.spark.ingest.held_tables import HeldTable
from stream_app.spark.ingest.job_state import (
    JobStateFile,
    JobWarning,
)
from stream_app.spark.ingest.job_tables import JobTables, OnFailure
from stream_app.spark.ingest.table_feed import TableFeed
from stream_app.spark.job_folder import Folder
from stream_app.spark.jvm_watch import ending_with_jvm
from stream_app.spark.session import start_session
from stream_app.spark.stop_signals import stop_on_signals
from stream_app.spark.stream.files_source import FilesSource
from stream_app.spark.stream.kafka_source import KafkaSource
from stream_app.spark.stream.running_stream import RunningStream
from stream_app.table.file_store_table import FileStoreTable

_LOG = logging.getLogger("stream_app")
_LOOKING = Activity("no epoch has begun: Spark looks for messages", repeats=False)


def ingest(config: AppConfig, clock: Clock, watched: WatchedJob, events: Path | None) -> None:
    """Run the job until its source is drained or it is stopped.

    Args:
        watched: gets the job's events.
        events: file that gets a JSON line for each epoch and commit.

    Raises:
        StreamAppError: an error in the setup, or while the job runs.
    """
    with ExitStack() as stack:
        signs = stack.enter_context(signs_of_life(clock))
        signs.begin("topics, table and checkpoint are looked at")
        prepared = _prepared(config, clock)
        if events is not None:
            file = stack.enter_context(events.open("a", encoding="utf-8"))
            watched.log.sink = hidden(file, config.secrets)
        signs.begin("Spark's session begins")
        _stream(config, prepared, clock, watched, signs)


class _Prepared(NamedTuple):
    """The checked parts of the job.

    Attributes:
        table: the only table; None: the job has a whole database.
        state: the job's state in its checkpoint.
        first_messages: of a whole database, to make its tables of; `MESSAGE_SCHEMA`.
    """

    table: FileStoreTable | None
    state: JobStateFile
    reader: ReaderSettings | None
    first_messages: pa.Table


def _prepared(config: AppConfig, clock: Clock) -> _Prepared:
    """Prepare everything that needs no Spark session."""
    reader = native_reader(config.source)
    quarantine = config.stream.quarantine or ""
    make_local(quarantine)
    check_writable(config.tables.location, config.stream.checkpoint, quarantine)
    topic_ids = _check_source(config.source)
    if scheme_of(config.stream.checkpoint) in ("", "file"):
        check_whole(Path(local_path(config.stream.checkpoint)))
    state = JobStateFile(job_folder(config, config.stream.checkpoint))
    reads_first = config.source.starting_offsets == "earliest" and not state.state.table
    table, first = None, MESSAGE_SCHEMA.empty_table()
    tables, warnings = config.tables, _warnings_of(config.stream)
    if isinstance(tables, SingleTable):
        table, of_columns = _checked_table(tables, clock, topic_ids, reads_first=reads_first)
        warnings += of_columns
        own_checkpoint(state, table.location, table.identity())
    else:
        if reads_first and topic_ids:
            first = first_messages_of_all(config.source, topic_ids)
            warn_of_first_messages(tables, first, clock)
        own_checkpoint(state, tables.location, DATABASE)
    state.begin()
    state.warn(warnings)
    if lost := recreated(state.state.topic_ids, topic_ids):
        raise WrongSourceError(
            f"the topic {', '.join(sorted(lost))} was deleted and made anew since this checkpoint "
            "was begun: its offsets mean other records now",
            where=str(state.folder),
            fix=RECREATED_FIX,
        )
    remember_topics(
        state, {name: topic.topic_id for name, topic in topic_ids.items() if topic.topic_id}
    )
    return _Prepared(table, state, reader, first)


def _warnings_of(stream: StreamConfig) -> list[JobWarning]:
    """Warnings about keys that look complete but have no effect."""
    if stream.otlp_endpoint is None or stream.metrics_port is not None:
        return []
    what = "stream.otlp-endpoint gets traces, and no numbers"
    fix = "set stream.metrics-port, from where the collector's Prometheus receiver takes them"
    return [JobWarning(what=what, fix=fix)]


def _checked_table(
    only: SingleTable, clock: Clock, topics: Mapping[str, TopicInfo], *, reads_first: bool
) -> tuple[FileStoreTable, list[JobWarning]]:
    """The job's table, and warnings about its columns from the first messages."""
    wanted, warnings = wanted_schema(only.table, clock), list[JobWarning]()
    if topics:
        setup = format_setup(only.source, only.table, wanted)
        seen = check_first_messages(only.source, setup, topics, reads_them=reads_first)
        remarks = first_remarks(only.source, seen, wanted.fields)
        warnings = column_warnings(only.name, remarks, only.full_key)
    return job_table(only, wanted, clock), warnings


def job_folder(config: AppConfig, location: str) -> Folder:
    """A folder of the job; starts Spark's session if only Spark reaches the folder."""
    return open_folder(location, config.file_system, lambda: HadoopFiles(_session(config)))


def _session(config: AppConfig) -> SparkSession:
    """The Spark session of this process."""
    settings = hadoop_settings(config.stream.checkpoint, config.file_system, os.environ)
    return start_session(f"stream_app {config.tables.name}", {**settings, **config.spark})


def _check_source(source: SourceConfig) -> Mapping[str, TopicInfo]:
    if source.kind != "kafka":
        return {}
    if settings := uncheckable(source.kafka_options):
        _LOG.warning("the topics are not checked, because of %s", ", ".join(settings))
        return {}
    return check_topics(
        source.bootstrap_servers,
        topics=source.topics,
        pattern=source.topic_pattern,
        kafka_options=source.kafka_options,
    )


class _Driver(NamedTuple):
    """The process that a job runs in."""

    config: AppConfig
    spark: SparkSession
    stop_requested: threading.Event
    clock: Clock
    watched: WatchedJob
    signs: SignsOfLife


def _stream(
    config: AppConfig, prepared: _Prepared, clock: Clock, watched: WatchedJob, signs: SignsOfLife
) -> None:
    spark, stop_requested = _session(config), threading.Event()
    with ending_with_jvm(spark, stop_requested):
        _stream_in(_Driver(config, spark, stop_requested, clock, watched, signs), prepared)


def _stream_in(driver: _Driver, prepared: _Prepared) -> None:
    """Join and run the parts, judge the outcome, and end the parts in any case."""
    config, spark = driver.config, driver.spark
    compactions = SparkCompactions(spark, _compactions_at_once(config, prepared.table))
    feeds = JobFeeds(
        tables=config.tables,
        stream=config.stream,
        state=prepared.state,
        open_folder=lambda location: job_folder(config, location),
        compactions=compactions,
        stopping=driver.stop_requested.is_set,
        log=driver.watched.log,
    )
    try:
        driver.watched.metrics.jvm.attach(spark)
        source = source_of(config.source)
        runner = runner_of(config.source, prepared.reader, spark, source)
        log = EpochLog(prepared.state.folder, goes_back=isinstance(source, KafkaSource))
        batch = EpochCommitter(_work(driver, prepared, feeds, runner, log))
        _run(driver, prepared, batch, runner, source)
        _check_none_held(batch.tables.held)
        _check_not_all_bad(batch.work.totals, feeds.of_no_table, config.stream.quarantine)
    finally:
        driver.signs.begin("Spark ends")
        feeds.close()
        compactions.close()
        driver.watched.metrics.jvm.detach()
        spark.stop()


def _run(
    driver: _Driver,
    prepared: _Prepared,
    batch: EpochCommitter[Any],
    runner: FrameEpochs | RangeEpochs,
    source: KafkaSource | FilesSource,
) -> None:
    """Run the stream until its source is drained or it is stopped."""
    tables, stream = driver.config.tables, driver.config.stream
    log, checkpoint = driver.watched.log, prepared.state.folder
    plan, unmet = batch.work.plan(), UnmetTables(tables.named, prepared.state, batch.lock)
    running = RunningStream(
        batch=batch,
        drains=stream.is_available_now,
        on_progress=log.progress,
        on_idle=unmet.behind(log.idle),
        on_drained=unmet.behind(log.drained),
        watched=log.looked,
        stop_requested=driver.stop_requested,
    )
    stop_on_signals(driver.spark, driver.stop_requested)
    log.watch_source(lambda: batch.position)
    log.started(tables.location, str(checkpoint))
    driver.signs.at_work = lambda: _at_work(batch)
    with warming_up(driver.spark, lambda: runner.warm_up(plan)):
        running.run(stream_of(tables, stream, runner, source, running, checkpoint, driver.clock))
    log.ended()


def _compactions_at_once(config: AppConfig, table: FileStoreTable | None) -> int | None:
    if table is not None:
        return table.options[COMPACTION_MAX_PARALLELISM]
    return CoreOptions(config.tables.section.options)[COMPACTION_MAX_PARALLELISM]


def _work(
    driver: _Driver, prepared: _Prepared, feeds: JobFeeds, runner: Any, log: EpochLog
) -> EpochWriter[Any]:
    """The tables of the job, and what brings epochs into them."""
    config, state = driver.config, prepared.state
    shape = EpochShape(
        tasks=config.stream.write_parallelism or runner.spark.sparkContext.defaultParallelism,
        sort_messages=config.source.kind == "files",
        isolates=isinstance(config.tables, WholeDatabase),
    )
    newcomers, known, database = None, list[TableFeed](), config.tables
    if prepared.table is not None:
        known = [feeds.only(prepared.table)]
    elif isinstance(database, WholeDatabase):
        newcomers = DatabaseTables(
            tables=database,
            state=state,
            clock=driver.clock,
            feed_of=feeds.of_table,
            quarantine=feeds.quarantine,
        )
        # A table that cannot be created now is tried again with its first message.
        known = [*newcomers.known(), *newcomers.feeds(prepared.first_messages).feeds]
        shape = shape.with_splitter(newcomers.splitter(known, frozenset(state.state.held)))
    tables = JobTables(
        known,
        log=log,
        state=state,
        now_ms=driver.clock.now_ms,
        on_failure=OnFailure.STOP if newcomers is None else OnFailure.HOLD,
        on_change=driver.watched.log.held,
    )
    return EpochWriter(
        tables=tables, shape=shape, runner=runner, clock=driver.clock, newcomers=newcomers
    )


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


def _at_work(batch: EpochCommitter[DataFrame]) -> Activity | None:
    epoch = batch.epoch_at_work
    if epoch is not None:
        return Activity(f"epoch {epoch} is at work")
    return _LOOKING if batch.is_untouched else None
