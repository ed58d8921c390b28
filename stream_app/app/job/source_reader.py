"""Decides whether the native reader or Spark reads a job's source, and makes its runner and stream.

With the native reader the job plans its own epochs. Files, and topics that only Spark's Kafka
source can read, become a streaming query of Spark. `ingest_job` calls it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

from pyspark.sql import DataFrame, SparkSession

from stream_app.app.config.job_tables.job_tables import JobTables
from stream_app.app.config.source_config import SourceConfig, SourceKind
from stream_app.app.config.stream_config import StreamConfig
from stream_app.app.load.begin_load import JobLoad
from stream_app.app.opening.job_folder_access import spark_location
from stream_app.app.source.first_offsets import read_first_offsets
from stream_app.app.source.kafka_reader import open_offset_client
from stream_app.checkpoint.border_log import BorderLog
from stream_app.checkpoint.epoch_log_writer import EpochLogWriter
from stream_app.checkpoint.job_folder import JobFolder
from stream_app.clock import Clock
from stream_app.epochs.stages.epoch_runner import JobRunner, MessagesT
from stream_app.epochs.stream.epoch_pace import FixedPace, FreshPace, Pace
from stream_app.epochs.stream.running_stream import RunningStream, Stream
from stream_app.epochs.stream.whole_borders import (
    MESSAGES_MAX,
    TRANSACTION_WAIT_S,
    WholeEpochCutter,
)
from stream_app.kafka.offset_client import OffsetClient, OffsetEnd
from stream_app.kafka.offset_ranges import OffsetRange
from stream_app.kafka.range_reader import ReaderSettings
from stream_app.kafka.several_clusters import JoinedOffsetClient
from stream_app.kafka.transactions.transaction_reader import TransactionReader
from stream_app.spark.jobs.dataframe_epochs import DataFrameEpochRunner
from stream_app.spark.jobs.driver_epochs import DriverEpochRunner
from stream_app.spark.jobs.load_epochs import LoadEpochRunner
from stream_app.spark.jobs.range_epochs import RangeEpochRunner
from stream_app.spark.stream.json_lines_source import JsonLinesSource
from stream_app.spark.stream.kafka_source import KafkaSource
from stream_app.spark.stream.spark_stream import SparkStream
from stream_app.spark.stream.topic_stream import EpochRules, JobGroup, TopicStream


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamSettings:
    """The settings of a job's stream that do not depend on its reader.

    Attributes:
        trigger: the time between the starts of two epochs, or None to end when the source is
            drained.
        pace: decides when an epoch of the native reader begins.
    """

    job_tables: JobTables
    trigger: str | None
    pace: Pace
    checkpoint: JobFolder
    clock: Clock


class SourceReader(Protocol[MessagesT]):
    """A way to read a job's source: its epochs, and the stream that cuts the source into them."""

    @property
    def runner(self) -> JobRunner[MessagesT]:
        """Runs the epochs."""
        ...

    @property
    def can_reread(self) -> bool:
        """Whether the messages of earlier epochs can be read again."""
        ...

    def stream(self, settings: StreamSettings, running_stream: RunningStream[MessagesT]) -> Stream:
        """Return the stream that cuts the source into epochs and passes them to the committer."""
        ...


@dataclass(frozen=True, slots=True)
class SparkSourceReader:
    """A reader of a source by Spark's streaming query, which cuts the source into epochs.

    Implements `SourceReader`.
    """

    source: KafkaSource | JsonLinesSource
    runner: DataFrameEpochRunner

    @property
    def can_reread(self) -> bool:
        """See `SourceReader.can_reread`."""
        return self.runner.read_between is not None

    def stream(self, settings: StreamSettings, running_stream: RunningStream[DataFrame]) -> Stream:
        """See `SourceReader.stream`."""
        return SparkStream(
            messages=self.source.read_stream(self.runner.spark),
            name=settings.job_tables.name,
            epoch_committer=running_stream.epoch_committer,
            checkpoint_location=spark_location(settings.checkpoint.location),
            trigger=settings.trigger,
            stop_requested=running_stream.stop_requested,
        )


@dataclass(frozen=True, slots=True)
class NativeSourceReader:
    """A reader of a source by tasks, whose ranges of offsets the job plans itself.

    Implements `SourceReader`.

    Attributes:
        reader_settings: settings of the native reader; the client's options may contain passwords.
        offset_client: asks the brokers for the topics' end offsets.
        load_epoch_count: the number of epochs of the first load; 0 without one.
    """

    source: KafkaSource
    runner: DriverEpochRunner | LoadEpochRunner
    reader_settings: ReaderSettings
    offset_client: OffsetClient | JoinedOffsetClient
    load_epoch_count: int = 0

    can_reread: ClassVar[bool] = True

    def stream(
        self, settings: StreamSettings, running_stream: RunningStream[Sequence[OffsetRange]]
    ) -> Stream:
        """See `SourceReader.stream`."""
        epoch_committer = running_stream.epoch_committer
        epoch_cutter = self._epoch_cutter(settings)
        return TopicStream(
            rules=EpochRules(
                starting_offsets=self.source.starting_offsets,
                messages_max=self.source.max_offsets_per_trigger
                if epoch_cutter is None
                else epoch_cutter.messages_max,
                fails_on_loss=self.source.fails_on_loss,
                drains=settings.trigger is None,
                load_epoch_count=self.load_epoch_count,
            ),
            offset_reader=self.offset_client,
            epoch_log=epoch_committer.epoch_log,
            writer=EpochLogWriter(settings.checkpoint),
            process_epoch=epoch_committer.process_epoch,
            read_failure=lambda: epoch_committer.failure,
            jobs=JobGroup(self.runner.spark, f"stream {settings.job_tables.name}"),
            clock=settings.clock,
            epoch_cutter=epoch_cutter,
            pace=settings.pace,
        )

    def _epoch_cutter(self, settings: StreamSettings) -> WholeEpochCutter | None:
        """Return the cutter of epochs between transactions; None if epochs may cut transactions."""
        if not settings.job_tables.keeps_transactions:
            return None
        transactions_of = settings.job_tables.source.source_extractor.find_transactions
        assert transactions_of is not None, "the configuration was checked"
        return WholeEpochCutter(
            reader=TransactionReader(
                reader_settings=self.reader_settings,
                transactions_of=transactions_of,
                clock=settings.clock,
            ),
            log=BorderLog(settings.checkpoint),
            read_newest_offsets=lambda: self.offset_client.offsets_at(OffsetEnd.NEWEST),
            clock=settings.clock,
            messages_max=self.source.max_offsets_per_trigger or MESSAGES_MAX,
            patience_s=None if settings.trigger is None else TRANSACTION_WAIT_S,
        )


def pace_of(stream_config: StreamConfig, clock: Clock) -> Pace:
    """Return the pace of a job's epochs: fixed, or derived from ``stream.freshness``."""
    if stream_config.freshness is None or stream_config.is_available_now:
        return FixedPace(stream_config.pause_s)
    return FreshPace(stream_config.freshness / 1000, clock)


def source_reader_of(
    source_config: SourceConfig,
    reader_settings: ReaderSettings | None,
    spark: SparkSession,
    checkpoint: JobFolder,
    driver_messages_max: int,
    load: JobLoad | None = None,
) -> SparkSourceReader | NativeSourceReader:
    """Choose the reader of a job's source.

    Args:
        reader_settings: settings of the native reader, or None if Spark reads the source.
        driver_messages_max: the most messages of an epoch that the driver runs; 0 if it runs none.
        load: a first load from a database, whose epochs run before those of the topics.

    Raises:
        SourceError: a new job begins at a time or at a group's offsets, and the broker does not
            respond.
    """
    if source_config.kind is SourceKind.FILES:
        json_lines_source = JsonLinesSource(
            path=source_config.path or "", max_files_per_trigger=source_config.max_files_per_trigger
        )
        return SparkSourceReader(json_lines_source, DataFrameEpochRunner(spark))
    kafka_source = _kafka_source(source_config, checkpoint)
    if reader_settings is None:
        return SparkSourceReader(
            kafka_source, DataFrameEpochRunner(spark, kafka_source.read_between)
        )
    reader_count = source_config.min_partitions or spark.sparkContext.defaultParallelism
    topic_runner = DriverEpochRunner(
        RangeEpochRunner(spark, reader_settings, reader_count), driver_messages_max
    )
    offset_client = open_offset_client(source_config, reader_settings)
    if load is None:
        return NativeSourceReader(kafka_source, topic_runner, reader_settings, offset_client)
    return NativeSourceReader(
        kafka_source,
        load.runner_before(topic_runner),
        reader_settings,
        offset_client,
        load.epoch_count,
    )


def _kafka_source(source_config: SourceConfig, checkpoint: JobFolder) -> KafkaSource:
    has_begun = EpochLogWriter(checkpoint).has_first_offsets()
    return KafkaSource(
        bootstrap_servers=source_config.bootstrap_servers,
        topics=source_config.topics,
        topic_pattern=source_config.topic_pattern,
        starting_offsets=source_config.starting_offsets
        if has_begun
        else read_first_offsets(source_config),
        max_offsets_per_trigger=source_config.max_offsets_per_trigger,
        min_partitions=source_config.min_partitions,
        fails_on_loss=source_config.fail_on_data_loss,
        kafka_options=source_config.kafka_options,
    )
