"""Spark alone on a topic: Kafka → from_json → nowhere. What others' numbers are held against.

Also the pieces that every measurement on a real topic needs: filling the topic, and running a
stream of epochs over it with the clock running.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from kafka.admin import KafkaAdminClient, NewTopic
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from stream_app.app.jars import installed_spark_version, spark_kafka_jars
from stream_app.spark.kafka_source import KafkaSource
from stream_app.spark.session import launch_settings, start_session

ROW = "id BIGINT, customer STRING, amount STRING, updated_at BIGINT, dt STRING"
ENVELOPE = f"before STRUCT<{ROW}>, after STRUCT<{ROW}>, op STRING"
Epoch = Callable[[DataFrame, int], None]


@dataclass(frozen=True)
class Timing:
    """Seconds of a drained stream, and of each of its epochs."""

    seconds: float
    epochs: tuple[float, ...]


def bench_session(cores: int, **settings: str) -> SparkSession:
    """A session as the job starts it, with Spark's Kafka source."""
    scheduler = Path(__file__).parents[1] / "conf" / "fairscheduler.xml"
    user = {"spark.master": f"local[{cores}]", "spark.driver.memory": "2g", **settings}
    launch = launch_settings(
        user, jars=spark_kafka_jars(installed_spark_version()), scheduler=scheduler
    )
    return start_session("bench", user, launch)


def fill_topic(
    spark: SparkSession,
    bootstrap: str,
    topic: str,
    values: Iterable[list[bytes]],
    *,
    partitions: int,
) -> None:
    """Make a topic of these values, in turn over its partitions; by Spark, whose client is fast."""
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    admin.create_topics([NewTopic(topic, num_partitions=partitions)])
    admin.close()
    for part in values:
        table = pa.table(
            {
                "value": pa.array(part, pa.binary()),
                "partition": pa.array([i % partitions for i in range(len(part))], pa.int32()),
            }
        )
        rows = spark.createDataFrame(table).repartition(partitions, "partition")
        rows.write.format("kafka").option("kafka.bootstrap.servers", bootstrap).option(
            "topic", topic
        ).save()


def drain(messages: DataFrame, each: Epoch) -> Timing:
    """Run all epochs of a stream; the clock runs from the query's start to its end."""
    epochs: list[float] = []

    def timed(batch: DataFrame, epoch: int) -> None:
        start = time.perf_counter()
        each(batch, epoch)
        epochs.append(time.perf_counter() - start)

    with tempfile.TemporaryDirectory() as checkpoint:
        start = time.perf_counter()
        writer = messages.writeStream.foreachBatch(timed).trigger(availableNow=True)
        writer.option("checkpointLocation", checkpoint).start().awaitTermination()
        return Timing(time.perf_counter() - start, tuple(epochs))


def from_json_only(messages: DataFrame) -> Timing:
    """The baseline, by Spark's own noop sink; epochs are not timed one by one."""
    parsed = messages.select(F.from_json(F.col("value").cast("string"), ENVELOPE).alias("change"))
    with tempfile.TemporaryDirectory() as checkpoint:
        start = time.perf_counter()
        writer = parsed.writeStream.format("noop").trigger(availableNow=True)
        writer.option("checkpointLocation", checkpoint).start().awaitTermination()
        return Timing(time.perf_counter() - start, ())


def from_json_epoch(messages: DataFrame, _: int) -> None:
    """The same as one epoch, for `drain`."""
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


def in_parts(values: list[bytes], total: int) -> Iterator[list[bytes]]:
    """`total` values, by repeating the given ones."""
    while total > 0:
        yield values[:total]
        total -= len(values)
