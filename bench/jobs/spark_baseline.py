"""Runs Spark alone on the shop's topic, Kafka → from_json → noop, as the baseline of benches.

Measurements on a real topic also take their session and the times of their epochs from here.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from stream_app.app.launch.jars import installed_spark_version, spark_kafka_jars
from stream_app.app.launch.spark_submit import SCHEDULER
from stream_app.spark.driver.session import launch_settings, start_session
from stream_app.spark.stream.kafka_source import KafkaSource

ROW = "id BIGINT, customer STRING, amount STRING, status STRING, updated_at BIGINT, dt STRING"
ENVELOPE = f"before STRUCT<{ROW}>, after STRUCT<{ROW}>, op STRING"
Epoch = Callable[[DataFrame, int], None]


@dataclass(frozen=True)
class Timing:
    """The seconds of a drained stream, and of each of its epochs."""

    seconds: float
    epochs: tuple[float, ...]


def bench_session(cores: int, **settings: str) -> SparkSession:
    """Start a session as the job does, with Spark's Kafka source."""
    session_settings = {
        "spark.master": f"local[{cores}]",
        "spark.driver.memory": "2g",
        # Each stream leaves consumers behind, with the messages that they have prefetched.
        "spark.kafka.consumer.cache.timeout": "1s",
        "spark.kafka.consumer.cache.evictorThreadRunInterval": "1s",
        **settings,
    }
    launch = launch_settings(
        session_settings, jars=spark_kafka_jars(installed_spark_version()), scheduler=SCHEDULER
    )
    return start_session("bench", session_settings, launch)


def drain(messages: DataFrame, take: Epoch) -> Timing:
    """Run all epochs of a stream, and return the times from the query's start to its end."""
    epochs: list[float] = []

    def timed(batch: DataFrame, epoch: int) -> None:
        start_s = time.perf_counter()
        take(batch, epoch)
        epochs.append(time.perf_counter() - start_s)

    with tempfile.TemporaryDirectory() as checkpoint:
        start_s = time.perf_counter()
        writer = messages.writeStream.foreachBatch(timed).trigger(availableNow=True)
        writer.option("checkpointLocation", checkpoint).start().awaitTermination()
        return Timing(time.perf_counter() - start_s, tuple(epochs))


def from_json_epoch(messages: DataFrame, _: int) -> None:
    """Parse an epoch by Spark, and discard the columns."""
    to_noop(messages.select(F.from_json(F.col("value").cast("string"), ENVELOPE).alias("change")))


def to_noop(rows: DataFrame) -> None:
    """Compute all rows, and discard them."""
    rows.write.format("noop").mode("overwrite").save()


def source_of(bootstrap: str, topic: str, epoch_messages: int, **options: str) -> KafkaSource:
    return KafkaSource(
        bootstrap_servers=bootstrap,
        topics=(topic,),
        max_offsets_per_trigger=epoch_messages,
        kafka_options=options,
    )
