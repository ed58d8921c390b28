"""Chooses the reader of a job's source, and the stream that cuts it into epochs.

The native reader plans its epochs by itself. Files, and topics that only Spark's Kafka source can
read, are a streaming query of Spark. Called by `ingest_job`.
"""

from __future__ import annotations

from pyspark.sql import SparkSession

from stream_app.app.config.source_config import SourceConfig, SourceKind
from stream_app.app.config.stream_config import StreamConfig
from stream_app.app.config.tables_of_job import TablesOfJob
from stream_app.app.source.first_offsets import first_offsets_of
from stream_app.app.tables.job_folders import spark_location
from stream_app.clock import Clock
from stream_app.kafka.cluster_offsets import ClusterOffsets
from stream_app.kafka.range_reader import ReaderSettings
from stream_app.spark.epoch.frame_epochs import FrameEpochs
from stream_app.spark.epoch.range_epochs import RangeEpochs
from stream_app.spark.ingest.epoch_log_writer import EpochLogWriter
from stream_app.spark.job_folder import Folder
from stream_app.spark.stream.files_source import FilesSource
from stream_app.spark.stream.kafka_source import KafkaSource
from stream_app.spark.stream.running_stream import RunningStream, Stream
from stream_app.spark.stream.spark_stream import SparkStream
from stream_app.spark.stream.topic_stream import EpochRules, JobGroup, TopicStream


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
