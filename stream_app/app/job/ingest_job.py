"""The job: configuration → checks → session → streaming query. Runs in Spark's driver.

``spark-submit`` starts it through `submit/ingest.py`; ``stream-app ingest`` builds that command
line. It checks everything before Spark reads the first record. Checks that need no JVM run before
it starts one.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import threading
import traceback
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession

from stream_app.app.arguments.ingest import add_arguments
from stream_app.app.cli import exit_code
from stream_app.app.config.app_config import AppConfig, SourceConfig, load_config
from stream_app.app.config.format_setup import format_setup, job_format
from stream_app.app.config.secrets import hidden, hiding
from stream_app.app.config.source_reader import native_reader
from stream_app.app.job.event_log import EventLog, warn_of_ignored_options
from stream_app.app.job.first_messages import check_first_messages
from stream_app.app.job.job_folders import hadoop_settings, make_local, open_folder, spark_location
from stream_app.app.job.job_log import log_to_stderr
from stream_app.app.job.preflight import TopicInfo, check_topics, recreated, uncheckable
from stream_app.app.job.prometheus_metrics import JobMetrics, serving, table_label
from stream_app.app.job.signs_of_life import Activity, SignsOfLife, signs_of_life
from stream_app.app.job.stale_checksums import clear_stale_checksums
from stream_app.cdc.formats import format_named
from stream_app.clock import Clock, SystemClock
from stream_app.errors import (
    NoGoodRecordError,
    StreamAppError,
    TableNotFoundError,
    UsageError,
    WrongSourceError,
)
from stream_app.fileio.file_io_registry import scheme_of
from stream_app.fileio.local_file_io import local_path
from stream_app.kafka.range_reader import ReaderSettings
from stream_app.model.options.compaction_options import COMPACTION_MAX_PARALLELISM
from stream_app.model.schema.table_schema import TableSchema, new_table_schema
from stream_app.spark.compact_jobs import SparkCompactExecutor, SparkCompactions
from stream_app.spark.epoch.decode_counts import DecodeCounts
from stream_app.spark.epoch.epoch_plan import EpochShape
from stream_app.spark.epoch.frame_epochs import FrameEpochs
from stream_app.spark.epoch.range_epochs import RangeEpochs
from stream_app.spark.epoch.warm_up import warming_up
from stream_app.spark.ingest.checkpoint_state import (
    is_begun,
    open_checkpoint,
    remember_topics,
)
from stream_app.spark.ingest.dead_letters import DeadLetters
from stream_app.spark.ingest.epoch_log import EpochLog
from stream_app.spark.ingest.epoch_run import EpochRun
from stream_app.spark.ingest.files_source import FilesSource
from stream_app.spark.ingest.kafka_source import KafkaSource
from stream_app.spark.ingest.micro_batch import MicroBatch
from stream_app.spark.ingest.source_table_check import SourceTableCheck
from stream_app.spark.ingest.streaming_query import RunningStream
from stream_app.spark.ingest.table_feed import TableFeed
from stream_app.spark.job_folder import Folder
from stream_app.spark.session import start_session
from stream_app.spark.stop_signals import stop_on_signals
from stream_app.spark.task_errors import readable
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.job.table_job import TableJob
from stream_app.table.opening import create_or_open, open_table

_LOG = logging.getLogger("stream_app")
_LOOKING = Activity("no epoch has begun: Spark looks for messages", repeats=False)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job; returns the process's exit code."""
    parser = argparse.ArgumentParser(
        prog="spark-submit … ingest.py", description="Ingest CDC records into a Paimon table."
    )
    add_arguments(parser)
    args = parser.parse_args(argv)
    log_to_stderr()
    try:
        config = load_config(args.conf, args.set, os.environ)
    except UsageError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    with hiding(config.secrets):
        return _run(config, args.events)


def _run(config: AppConfig, events: Path | None) -> int:
    try:
        run(config, SystemClock(), events)
    except (StreamAppError, OSError) as error:
        found = readable(error)
        print(f"error: {found}", file=sys.stderr)
        return exit_code(found)
    except Exception:
        traceback.print_exc()
        return 1
    return 0


def run(config: AppConfig, clock: Clock, events: Path | None = None) -> None:
    """Run the job until its source is drained or it is stopped.

    Raises:
        StreamAppError: an error in the setup, or while the job runs.
    """
    metrics = JobMetrics(table_label(config.table.path))
    # Take the port first: if it is taken, the job ends before it reads or writes anything.
    with ExitStack() as stack:
        stack.enter_context(serving(metrics.registry, config.stream.metrics_port))
        signs = stack.enter_context(signs_of_life(clock))
        signs.begin("topics, table and checkpoint are looked at")
        prepared = _prepared(config, clock)
        sink = None
        if events is not None:
            file = stack.enter_context(events.open("a", encoding="utf-8"))
            sink = hidden(file, config.secrets)
        signs.begin("Spark's session begins")
        log = EventLog(clock, sink, metrics, format_named(config.source.format))
        _stream(config, prepared, log, signs)


class _Prepared(NamedTuple):
    """Table and checkpoint, which fit each other and the source; and the source's reader."""

    table: FileStoreTable
    checkpoint: Folder
    reader: ReaderSettings | None


def _prepared(config: AppConfig, clock: Clock) -> _Prepared:
    """Everything that needs no Spark session."""
    reader = native_reader(config.source)
    if config.stream.quarantine is not None:
        make_local(config.stream.quarantine)
    topic_ids = _check_source(config)
    if scheme_of(config.stream.checkpoint) in ("", "file"):
        clear_stale_checksums(Path(local_path(config.stream.checkpoint)))
    checkpoint = _folder(config, config.stream.checkpoint)
    wanted = wanted_schema(config, clock)
    if topic_ids:
        check_first_messages(
            config.source,
            format_setup(config.source, config.table, wanted),
            topic_ids,
            reads_them=config.source.starting_offsets == "earliest" and not is_begun(checkpoint),
        )
    table = job_table(config, wanted, clock)
    state = open_checkpoint(checkpoint, table)
    if lost := recreated(state.topic_ids, topic_ids):
        raise WrongSourceError(
            f"the topic {', '.join(sorted(lost))} was deleted and made anew since this checkpoint "
            "was begun: its offsets mean other records now",
            where=str(checkpoint),
            fix="give the job a new checkpoint folder, and a new table unless its rows stay right",
        )
    remember_topics(
        checkpoint,
        state,
        {name: topic.topic_id for name, topic in topic_ids.items() if topic.topic_id},
    )
    return _Prepared(table, checkpoint, reader)


def _folder(config: AppConfig, location: str) -> Folder:
    return open_folder(location, config.file_system, lambda: _session(config))


def _session(config: AppConfig) -> SparkSession:
    """The Spark session of this process."""
    settings = hadoop_settings(config.stream.checkpoint, config.file_system, os.environ)
    return start_session(f"stream_app {_job_name(config)}", {**settings, **config.spark})


def _job_name(config: AppConfig) -> str:
    return f"{config.table.database}.{config.table.name}"


def _check_source(config: AppConfig) -> Mapping[str, TopicInfo]:
    source = config.source
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


def wanted_schema(config: AppConfig, clock: Clock) -> TableSchema:
    """The schema that the configuration asks for, as version 0 of a new table."""
    return new_table_schema(
        columns=config.table.all_columns,
        primary_keys=config.table.primary_keys,
        partition_keys=config.table.partition_keys,
        options={**_defaults(config), **config.table.options},
        time_millis=clock.now_ms(),
        comment=config.table.comment,
    )


def job_table(config: AppConfig, wanted: TableSchema, clock: Clock) -> FileStoreTable:
    """Open the job's table, or create it.

    Raises:
        UsageError, StorageError, SchemaMismatchError, UnsupportedTableError: as `create_or_open`.
    """
    table = create_or_open(config.table.path, wanted, clock, file_io_options=config.file_system)
    warn_of_ignored_options(table)
    return table


def _defaults(config: AppConfig) -> Mapping[str, str]:
    """Defaults for options that the configuration omits; an existing table keeps its own."""
    if not config.table.defaults:
        return {}
    try:
        there = open_table(config.table.path, file_io_options=config.file_system).schema.options
    except TableNotFoundError:
        there = config.table.defaults
    chosen = {key: there.get(key, value) for key, value in config.table.defaults.items()}
    for key, value in chosen.items():
        _LOG.info("table.options.%s is not set: the table has %s", key, value)
    return chosen


def _stream(config: AppConfig, prepared: _Prepared, log: EventLog, signs: SignsOfLife) -> None:
    table, checkpoint, reader = prepared
    stream = config.stream
    spark = _session(config)
    stop_requested = threading.Event()
    source = _source(config)
    epochs = EpochLog(checkpoint, goes_back=isinstance(source, KafkaSource))
    runner: FrameEpochs | RangeEpochs = FrameEpochs(
        spark, source.read_between if isinstance(source, KafkaSource) else None
    )
    if reader is not None:
        readers = config.source.min_partitions or spark.sparkContext.defaultParallelism
        runner = RangeEpochs(spark, reader, epochs.query_id, readers)
    compactions = SparkCompactions(spark, table.options[COMPACTION_MAX_PARALLELISM])
    job = TableJob(table, SparkCompactExecutor(compactions, table), stop_requested.is_set)
    try:
        batch = MicroBatch(
            work=EpochRun(
                feeds=[_feed(config, job, checkpoint, log)],
                shape=EpochShape(
                    tasks=stream.write_parallelism or spark.sparkContext.defaultParallelism,
                    topic=_only_topic(config.source),
                    sort_messages=config.source.kind == "files",
                ),
                runner=runner,
                clock=table.clock,
            ),
            log=epochs,
        )
        plan = batch.plan()
        log.watch_maintenance(job.upkeep.metrics)
        log.watch_compactions(job.compaction_metrics)
        running = RunningStream(
            batch=batch,
            checkpoint=spark_location(checkpoint.location),
            trigger=None if stream.is_available_now else stream.trigger,
            on_progress=log.progress,
            on_idle=log.idle,
            on_drained=log.drained,
            stop_requested=stop_requested,
        )
        stop_on_signals(spark, stop_requested)
        log.started(table.location, str(checkpoint))
        signs.at_work = lambda: _at_work(batch)
        with warming_up(spark, lambda: runner.warm_up(plan)):
            running.run(source.read_stream(spark), _job_name(config))
        log.ended()
        _check_not_all_bad(batch.totals, stream.quarantine)
    finally:
        signs.begin("Spark ends")
        job.close()
        compactions.close()
        spark.stop()


def _feed(config: AppConfig, job: TableJob, checkpoint: Folder, log: EventLog) -> TableFeed:
    quarantine = config.stream.quarantine
    return TableFeed(
        name=_job_name(config),
        job=job,
        format_of=lambda table: job_format(config, table),
        dead_letters=DeadLetters(
            None if quarantine is None else _folder(config, quarantine),
            config.stream.max_bad_records,
        ),
        check_tables=SourceTableCheck(checkpoint).check,
        listener=log,
    )


def _check_not_all_bad(totals: DecodeCounts, quarantine: str | None) -> None:
    """A run that stored no message although it read some must not look successful."""
    if totals.bad and totals.bad == totals.messages - totals.skipped:
        raise NoGoodRecordError(
            f"all {totals.bad} records of this run are bad; none is in the table",
            where=f"stream.quarantine: {quarantine}",
            fix="see the reasons there, mend the configuration or the source, and let a job with a "
            "new checkpoint read the records again (or these files, with source.kind = 'files')",
        )


def _at_work(batch: MicroBatch[DataFrame]) -> Activity | None:
    epoch = batch.epoch_at_work
    if epoch is not None:
        return Activity(f"epoch {epoch} is at work")
    return _LOOKING if batch.is_untouched else None


def _source(config: AppConfig) -> KafkaSource | FilesSource:
    source = config.source
    if source.kind == "files":
        return FilesSource(
            path=source.path or "", max_files_per_trigger=source.max_files_per_trigger
        )
    return KafkaSource(
        bootstrap_servers=source.bootstrap_servers,
        topics=source.topics,
        topic_pattern=source.topic_pattern,
        starting_offsets=source.starting_offsets,
        max_offsets_per_trigger=source.max_offsets_per_trigger,
        min_partitions=source.min_partitions,
        fail_on_data_loss=source.fail_on_data_loss,
        kafka_options=source.kafka_options,
    )


def _only_topic(source: SourceConfig) -> str | None:
    """The topic of all messages, if there can be only one."""
    return source.topics[0] if source.kind == "kafka" and len(source.topics) == 1 else None
