"""Makes the reader of a job's source, the runner of its epochs, and the stream that cuts them.

The native reader plans its epochs by itself. Files, and topics that only Spark's Kafka source can
read, are a streaming query of Spark. Called by `ingest_job`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark.sql import SparkSession

from stream_app.app.config.source_config import SourceConfig, SourceKind
from stream_app.app.config.stream_config import StreamConfig
from stream_app.app.config.tables_of_job import TablesOfJob
from stream_app.app.source.first_offsets import first_offsets_of
from stream_app.app.tables.job_folders import spark_location
from stream_app.clock import Clock
from stream_app.kafka.cluster_offsets import ClusterOffsets
from stream_app.kafka.range_reader import ReaderSettings
from stream_app.spark.epoch.driver_epochs import DriverEpochs
from stream_app.spark.epoch.frame_epochs import FrameEpochs
from stream_app.spark.epoch.range_epochs import RangeEpochs
from stream_app.spark.job_folder import Folder
from stream_app.spark.stream.epoch_log_writer import EpochLogWriter
from stream_app.spark.stream.json_lines_source import JsonLinesSource
from stream_app.spark.stream.kafka_source import KafkaSource
from stream_app.spark.stream.running_stream import RunningStream, Stream
from stream_app.spark.stream.spark_stream import SparkStream
from stream_app.spark.stream.topic_stream import EpochRules, JobGroup, TopicStream


def source_of(source: SourceConfig, checkpoint: Folder) -> KafkaSource | JsonLinesSource:
    """The source that the configuration describes.

    Raises:
        SourceError: a new job begins by time or by group, and the broker does not answer.
    """
    if source.kind is SourceKind.FILES:
        return JsonLinesSource(
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
    source: KafkaSource | JsonLinesSource,
    driver_messages: int,
) -> FrameEpochs | DriverEpochs:
    """The runner of an epoch's tasks.

    Args:
        reader: settings of the native reader; None: Spark reads.
        driver_messages: see `DriverEpochs.most_messages`.
    """
    if reader is None:
        return FrameEpochs(spark, source.read_between if isinstance(source, KafkaSource) else None)
    readers = config.min_partitions or spark.sparkContext.defaultParallelism
    return DriverEpochs(RangeEpochs(spark, reader, readers), driver_messages)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStream:
    """The stream of a job, but for the parts that run it.

    Attributes:
        client: options of the native reader's client; empty if Spark reads.
    """

    tables: TablesOfJob
    stream: StreamConfig
    checkpoint: Folder
    client: Mapping[str, str] = field(repr=False)
    clock: Clock

    def over(
        self,
        source: KafkaSource | JsonLinesSource,
        runner: FrameEpochs | DriverEpochs,
        running: RunningStream,
    ) -> Stream:
        """The stream that cuts the source into epochs and gives them to the sink."""
        committer, topics = running.committer, self.tables.source
        is_available_now = self.stream.is_available_now
        if isinstance(runner, FrameEpochs):
            return SparkStream(
                messages=source.read_stream(runner.spark),
                name=self.tables.name,
                committer=committer,
                checkpoint=spark_location(self.checkpoint.location),
                trigger=None if is_available_now else self.stream.trigger,
                stop_requested=running.stop_requested,
            )
        assert isinstance(source, KafkaSource), "ranges are of topics"
        return TopicStream(
            rules=EpochRules(
                starting_offsets=source.starting_offsets,
                limit=topics.max_offsets_per_trigger,
                fails_on_loss=topics.fail_on_data_loss,
                trigger_s=None if is_available_now else self.stream.trigger_ms / 1000,
            ),
            source=ClusterOffsets(self.client, topics=topics.topics, pattern=topics.topic_pattern),
            epoch_log=committer.epoch_log,
            writer=EpochLogWriter(self.checkpoint),
            give=committer,
            failure=lambda: committer.failure,
            jobs=JobGroup(runner.spark, f"stream {self.tables.name}"),
            clock=self.clock,
        )
