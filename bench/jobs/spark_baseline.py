"""Spark alone on the shop's topic: Kafka → from_json → nowhere. What our numbers are held against.

Also what every measurement on a real topic needs: a session as the job starts it, and a stream of
epochs with the clock running.
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
    """Seconds of a drained stream, and of each of its epochs."""

    seconds: float
    epochs: tuple[float, ...]


def bench_session(cores: int, **settings: str) -> SparkSession:
    """A session as the job starts it, with Spark's Kafka source."""
    user = {
        "spark.master": f"local[{cores}]",
        "spark.driver.memory": "2g",
        # Each stream leaves consumers behind, with all that they have fetched ahead.
        "spark.kafka.consumer.cache.timeout": "1s",
        "spark.kafka.consumer.cache.evictorThreadRunInterval": "1s",
        **settings,
    }
    launch = launch_settings(
        user, jars=spark_kafka_jars(installed_spark_version()), scheduler=SCHEDULER
    )
    return start_session("bench", user, launch)


def drain(messages: DataFrame, take: Epoch) -> Timing:
    """Run all epochs of a stream; the clock runs from the query's start to its end."""
    epochs: list[float] = []

    def timed(batch: DataFrame, epoch: int) -> None:
        start = time.perf_counter()
        take(batch, epoch)
        epochs.append(time.perf_counter() - start)

    with tempfile.TemporaryDirectory() as checkpoint:
        start = time.perf_counter()
        writer = messages.writeStream.foreachBatch(timed).trigger(availableNow=True)
        writer.option("checkpointLocation", checkpoint).start().awaitTermination()
        return Timing(time.perf_counter() - start, tuple(epochs))


def from_json_epoch(messages: DataFrame, _: int) -> None:
    """Spark parses an epoch and throws the columns away."""
    to_noop(messages.select(F.from_json(F.col("value").cast("string"), ENVELOPE).alias("change")))


def to_noop(rows: DataFrame) -> None:
    """Compute all rows and throw them away."""
    rows.write.format("noop").mode("overwrite").save()


def source_of(bootstrap: str, topic: str, epoch_messages: int, **options: str) -> KafkaSource:
    return KafkaSource(
        bootstrap_servers=bootstrap,
        topics=(topic,),
        max_offsets_per_trigger=epoch_messages,
        kafka_options=options,
    )
