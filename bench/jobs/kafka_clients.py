"""Measures reads of a topic into Arrow: the native reader beside two Python clients of Kafka.

    python -m bench.jobs.kafka_clients [--messages N] [--rounds N]

One process, one partition, uncompressed messages of about 330 bytes. All arms take turns, after one
round that warms up. Figures are the processor's microseconds a message, with those of the client's
threads, and the median of the rounds. It takes 15 seconds.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from confluent_kafka import Consumer, Message, Producer
from confluent_kafka import TopicPartition as ConfluentPartition
from kafka import KafkaConsumer, TopicPartition
from kafka.admin import KafkaAdminClient, NewTopic

from stream_app.app.launch.embedded_broker import EmbeddedBroker
from stream_app.cdc.change_batch import MESSAGE_SCHEMA
from stream_app.kafka.client_options import client_options
from stream_app.kafka.librdkafka import load_librdkafka
from stream_app.kafka.offset_ranges import OffsetRange
from stream_app.kafka.range_reader import BATCH_MESSAGES_MAX, RangeReader, ReaderSettings

MESSAGES = 200_000
ROUNDS = 5
TOPIC = "bench.clients"
NATIVE = "native reader → Arrow"


def lines(folder: Path, messages: int = MESSAGES, rounds: int = ROUNDS) -> Iterator[str]:
    """Yield a table of all arms."""
    with EmbeddedBroker(folder / "clients-kafka") as broker:
        fill(broker, messages)
        arms = arms_of(broker.bootstrap, messages)
        seconds: dict[str, list[float]] = {name: [] for name in arms}
        for round_number in range(rounds + 1):
            for name, read in arms.items():
                start_s = time.process_time()
                read()
                if round_number:
                    seconds[name].append(time.process_time() - start_s)
    micros_of = {name: statistics.median(runs) / messages * 1e6 for name, runs in seconds.items()}
    yield "| client | µs a message | × the native reader |"
    yield "| --- | ---: | ---: |"
    for name, micros in micros_of.items():
        yield f"| {name} | {micros:.2f} | {micros / micros_of[NATIVE]:.1f} |"


def fill(broker: EmbeddedBroker, messages: int) -> None:
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    admin.create_topics([NewTopic(TOPIC, num_partitions=1)])
    admin.close()
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 20})
    for number in range(messages):
        value = b'{"before":null,"after":{"id":%d,"text":"%s"},"op":"c"}' % (number, b"x" * 270)
        producer.produce(TOPIC, value, b'{"id":%d}' % number)
        if number % 10_000 == 0:
            producer.flush()
    producer.flush()


def arms_of(bootstrap: str, messages: int) -> dict[str, Callable[[], None]]:
    options = client_options(bootstrap, {}, load_librdkafka().features).options
    reader = RangeReader(ReaderSettings(client_settings=tuple(options.items())))

    def native() -> None:
        batches = reader.read([OffsetRange(TOPIC, 0, 0, messages)])
        assert sum(batch.num_rows for batch in batches) == messages

    def confluent(take: Callable[[list[Message]], object]) -> None:
        consumer = Consumer({**options, "group.id": "bench", "enable.partition.eof": "false"})
        consumer.assign([ConfluentPartition(TOPIC, 0, 0)])
        count = 0
        while count < messages:
            messages_read = consumer.consume(min(BATCH_MESSAGES_MAX, messages - count), 0.1)
            take(messages_read)
            count += len(messages_read)
        consumer.close()

    def python() -> None:
        consumer = KafkaConsumer(
            bootstrap_servers=bootstrap,
            enable_auto_commit=False,
            max_poll_records=BATCH_MESSAGES_MAX,
            max_partition_fetch_bytes=4 << 20,
        )
        partition, count = TopicPartition(TOPIC, 0), 0
        consumer.assign([partition])
        consumer.seek(partition, 0)
        while count < messages:
            for records in consumer.poll(timeout_ms=500).values():
                count += kafka_python_batch(records).num_rows
        consumer.close()

    return {
        NATIVE: native,
        "confluent-kafka, `consume` alone": lambda: confluent(len),
        "confluent-kafka, `consume` → Arrow": lambda: confluent(confluent_batch),
        "kafka-python → Arrow": python,
    }


def kafka_python_batch(records: list[Any]) -> pa.RecordBatch:
    """Return messages of kafka-python as a batch of `MESSAGE_SCHEMA`."""
    columns = [
        [record.topic for record in records],
        [record.partition for record in records],
        [record.offset for record in records],
        [record.timestamp * 1000 for record in records],
        [record.key for record in records],
        [record.value for record in records],
    ]
    arrays = map(pa.array, columns, MESSAGE_SCHEMA.types)
    return pa.RecordBatch.from_arrays(list(arrays), schema=MESSAGE_SCHEMA)


def confluent_batch(messages: list[Message]) -> pa.RecordBatch:
    """Return messages of confluent-kafka as a batch of `MESSAGE_SCHEMA`."""
    columns = [
        [message.topic() for message in messages],
        [message.partition() for message in messages],
        [message.offset() for message in messages],
        [message.timestamp()[1] * 1000 for message in messages],
        [message.key() for message in messages],
        [message.value() for message in messages],
    ]
    arrays = map(pa.array, columns, MESSAGE_SCHEMA.types)
    return pa.RecordBatch.from_arrays(list(arrays), schema=MESSAGE_SCHEMA)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.jobs.kafka_clients")
    parser.add_argument("--messages", type=int, default=MESSAGES)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="stream_app-bench-") as folder:
        for line in lines(Path(folder), args.messages, args.rounds):
            print(line, flush=True)


if __name__ == "__main__":
    main()
