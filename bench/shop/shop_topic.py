"""Fills a topic with the shop's changes, once for all runs that read it."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
from kafka.admin import KafkaAdminClient, NewTopic
from pyspark.sql import SparkSession

from bench.shop.shop_orders import Shop
from stream_app.app.launch.embedded_broker import EmbeddedBroker

TOPIC = "bench.orders"
PARTITIONS = 4
_CHUNK = 100_000


def write_messages(path: Path, count: int) -> int:
    """Write keys and values into a Parquet file, and return the bytes of all values."""
    changes = Shop(Random(5)).changes(count)
    schema = pa.schema([("key", pa.binary()), ("value", pa.binary())])
    size = 0
    with pq.ParquetWriter(path, schema) as writer:
        while chunk := list(islice(changes, _CHUNK)):
            keys, values = zip(*chunk, strict=True)
            size += sum(map(len, values))
            writer.write_table(pa.table([pa.array(keys), pa.array(values)], schema=schema))
    return size


def fill_topic(spark: SparkSession, broker: EmbeddedBroker, messages: Path) -> None:
    """Create the topic, and send the messages by Spark's own sink, which keeps their order."""
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    try:
        admin.create_topics([NewTopic(TOPIC, num_partitions=PARTITIONS)])
    finally:
        admin.close()
    rows = spark.read.parquet(str(messages)).coalesce(1)
    rows.write.format("kafka").option("kafka.bootstrap.servers", broker.bootstrap).option(
        "topic", TOPIC
    ).save()
