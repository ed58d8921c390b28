"""Makes the parts of a job: the reader of its source, the stream of its epochs, and its feeds.

The native reader plans its epochs by itself. Files, and topics that only Spark's Kafka source can
read, are a streaming query of Spark. A feed joins a table with its job, its format and its
quarantine. Called by `ingest_job`: for the only table, or for each table of a whole database.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark.sql import SparkSession

from stream_app.app.config.source_config import SourceConfig, SourceKind
from stream_app.app.config.stream_config import NonInsertRecords, RepeatedRecords, StreamConfig
from stream_app.app.config.tables_of_job import TablesOfJob
from stream_app.app.observe.events.event_log import EventLog
from stream_app.app.source.first_offsets import first_offsets_of
from stream_app.app.tables.job_folders import spark_location
from stream_app.app.tables.table_pipeline import job_pipeline, job_rows
from stream_app.clock import Clock
from stream_app.kafka.cluster_offsets import ClusterOffsets
from stream_app.kafka.range_reader import ReaderSettings
from stream_app.spark.compact_jobs import SparkCompactExecutor, SparkCompactions
from stream_app.spark.epoch.frame_epochs import FrameEpochs
from stream_app.spark.epoch.range_epochs import RangeEpochs
from stream_app.spark.ingest.epoch_log_writer import EpochLogWriter
from stream_app.spark.ingest.job_state import ONLY_TABLE, JobStateFile
from stream_app.spark.ingest.quarantine_writer import QuarantineWriter
from stream_app.spark.ingest.schema_evolution import SchemaEvolution
from stream_app.spark.ingest.source_table_check import SourceTableCheck
from stream_app.spark.ingest.table_feed import TableFeed
from stream_app.spark.job_folder import Folder
from stream_app.spark.stream.files_source import FilesSource
from stream_app.spark.stream.kafka_source import KafkaSource
from stream_app.spark.stream.running_stream import RunningStream, Stream
from stream_app.spark.stream.spark_stream import SparkStream
from stream_app.spark.stream.topic_stream import EpochRules, JobGroup, TopicStream
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.job.table_job import TableJob


def source_of(source: SourceConfig, checkpoint: Folder) -> KafkaSource | FilesSource:
    """The source that the configuration describes.

    Raises:
        SourceError: a new job begins by time or by group, and the broker does not answer.
    """
    if source.kind is SourceKind.FILES:
        return FilesSource(
            path=source.path or "", max_files_per_trigger=source.max_files_per_trigger
        )
    return KafkaSource(
        bootstrap_servers=source.bootstrap_servers,
        topics=source.topics,
        topic_pattern=source.topic_pattern,
        starting_offsets=source.starting_offsets
        if EpochLogWriter(checkpoint).has_first()
        else first_offsets_of(source),
        max_offsets_per_trigger=source.max_offsets_per_trigger,
        min_partitions=source.min_partitions,
        fail_on_data_loss=source.fail_on_data_loss,
        kafka_options=source.kafka_options,
    )


def runner_of(
    config: SourceConfig,
    reader: ReaderSettings | None,
    spark: SparkSession,
    source: KafkaSource | FilesSource,
) -> FrameEpochs | RangeEpochs:
    """The runner of an epoch's tasks.

    Args:
        reader: settings of the native reader; None: Spark reads.
    """
    if reader is None:
        return FrameEpochs(spark, source.read_between if isinstance(source, KafkaSource) else None)
    return RangeEpochs(
        spark, reader, config.min_partitions or spark.sparkContext.defaultParallelism
    )


def stream_of(
    tables: TablesOfJob,
    stream: StreamConfig,
    runner: FrameEpochs | RangeEpochs,
    source: KafkaSource | FilesSource,
    running: RunningStream,
    checkpoint: Folder,
    clock: Clock,
) -> Stream:
    """The stream that cuts the source into epochs and gives them to the sink."""
    committer, topics = running.committer, tables.source
    if isinstance(runner, FrameEpochs):
        return SparkStream(
            messages=source.read_stream(runner.spark),
            name=tables.name,
            committer=committer,
            checkpoint=spark_location(checkpoint.location),
            trigger=None if stream.is_available_now else stream.trigger,
            stop_requested=running.stop_requested,
        )
    assert isinstance(source, KafkaSource), "ranges are of topics"
    return TopicStream(
        rules=EpochRules(
            starting_offsets=source.starting_offsets,
            limit=topics.max_offsets_per_trigger,
            fails_on_loss=topics.fail_on_data_loss,
            trigger_s=None if stream.is_available_now else stream.trigger_ms / 1000,
        ),
        source=ClusterOffsets(
            dict(runner.settings.client), topics=topics.topics, pattern=topics.topic_pattern
        ),
        epoch_log=committer.epoch_log,
        writer=EpochLogWriter(checkpoint),
        give=committer,
        failure=lambda: committer.failure,
        jobs=JobGroup(runner.spark, f"stream {tables.name}"),
        clock=clock,
    )


@dataclass(slots=True, kw_only=True)
class JobFeeds:
    """Makes feeds, and closes them.

    Attributes:
        state_file: the job's state.
        open_folder: opens a folder, such as the quarantine's.
        of_no_table: number of messages that were quarantined without a table.
        stopping: whether the job shall end.
    """

    tables: TablesOfJob
    stream: StreamConfig
    state_file: JobStateFile
    open_folder: Callable[[str], Folder]
    compactions: SparkCompactions
    stopping: Callable[[], bool]
    events: EventLog
    of_no_table: int = field(init=False, default=0)
    _jobs: list[TableJob] = field(init=False, default_factory=list)
    _unassigned: QuarantineWriter | None = field(init=False, default=None)

    def only(self, table: FileStoreTable) -> TableFeed:
        """The feed of a job of one table."""
        takes_all = self.tables.source.merge_shards
        sources = None if takes_all else SourceTableCheck(self.state_file)
        return self._feed(ONLY_TABLE, table, self.events, sources)

    def of_table(self, name: str, table: FileStoreTable) -> TableFeed:
        """The feed of one table of a database; the source table decides its messages."""
        return self._feed(name, table, self.events.of_table(name))

    def quarantine(self, epoch: int, messages: pa.Table) -> None:
        """Keep messages that belong to no table.

        Args:
            messages: of `BAD_RECORD_SCHEMA`.

        Raises:
            BadRecordsError: the run has exceeded the limit.
        """
        if self._unassigned is None:
            self._unassigned = self._quarantine_writer("")
        self.of_no_table += messages.num_rows
        if (kept := self._unassigned.write(epoch, messages)) is not None:
            self.events.unassigned(epoch, kept)

    def close(self) -> None:
        """Wait for upkeep that runs beside the job."""
        for job in self._jobs:
            job.close()

    def _feed(
        self,
        name: str,
        table: FileStoreTable,
        events: EventLog,
        sources: SourceTableCheck | None = None,
    ) -> TableFeed:
        if self.events.metrics is not None:
            table = table.counted(self.events.metrics.store.requests)
        executor_of = functools.partial(SparkCompactExecutor, self.compactions)
        takes_repeats = self.stream.repeated_records is RepeatedRecords.STORE
        job = TableJob(
            table,
            executor_of,
            self.stopping,
            takes_repeats,
            freshness=self.stream.policy_freshness,
        )
        rules = job_rows(self.tables, table).evolution
        self._jobs.append(job)
        events.watch(job)
        events.history.watch(events.table or "", job)
        return TableFeed(
            name=name,
            job=job,
            format_of=lambda seen: job_pipeline(
                self.tables,
                seen,
                choice=None if sources is None else sources.choice,
                restores=True,
                quarantines=self.stream.non_insert_records is NonInsertRecords.QUARANTINE,
            ),
            sources=sources,
            quarantine=self._quarantine_writer(name),
            listener=events,
            evolution=None
            if rules is None
            else SchemaEvolution(rules, self.tables.full_name(name), self.tables.full_key),
        )

    def _quarantine_writer(self, name: str) -> QuarantineWriter:
        quarantine, limit = self.stream.quarantine, self.stream.max_bad_records
        if quarantine is None:
            return QuarantineWriter(None, limit)
        return QuarantineWriter(
            self.open_folder(self.tables.quarantine_of(quarantine, name)), limit
        )
