"""Starts one real Kafka broker for a test session, and creates topics for each test.

tests/conftest.py imports the fixture `kafka_broker`; do not import it elsewhere: pytest starts one
broker for each place that it is imported to.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient, NewTopic

from stream_app.app.launch.embedded_broker import EmbeddedBroker
from tests.support.jobs.ingest_process import a_free_port
from tests.support.suite.polling import wait_until

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def kafka_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    """Yield a running broker; start it once (2 to 6 s), use a new topic for each test."""
    with EmbeddedBroker(tmp_path_factory.mktemp("kafka"), port=a_free_port()) as broker:
        yield broker


def new_topic(
    broker: EmbeddedBroker,
    *,
    name: str = "",
    partitions: int = 1,
    configs: Mapping[str, str] | None = None,
) -> str:
    """Create a topic that clients can use at once; without a name it gets a unique one."""
    name = name or f"test-{next(_numbers)}-{uuid.uuid4().hex[:6]}"
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    try:
        admin.create_topics(
            [NewTopic(name, num_partitions=partitions, topic_configs=dict(configs or {}))]
        )
        wait_until(lambda: _is_known(admin, name))
    finally:
        admin.close()
    return name


def delete_topic(broker: EmbeddedBroker, name: str) -> None:
    """Delete a topic and wait until the broker has forgotten it."""
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    try:
        admin.delete_topics([name])
        wait_until(lambda: name not in admin.list_topics())
    finally:
        admin.close()


def _is_known(admin: KafkaAdminClient, name: str) -> bool:
    """Return whether the broker lists, describes and leads a topic, which takes a moment."""
    [description] = admin.describe_topics([name])
    partitions = description["partitions"]
    ready = not description["error_code"] and not any(
        partition["error_code"] for partition in partitions
    )
    return bool(partitions) and ready and name in admin.list_topics()


def produce(
    broker: EmbeddedBroker,
    topic: str,
    messages: Iterable[tuple[bytes | None, bytes | None]],
    *,
    partition: int | None = None,
    timestamp_ms: int | None = None,
    headers: Sequence[tuple[str, bytes]] = (),
) -> None:
    """Send (key, value) pairs in order and wait until all are written."""
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap, acks="all", linger_ms=5)
    try:
        sent = [
            producer.send(
                topic,
                key=key,
                value=value,
                partition=partition,
                timestamp_ms=timestamp_ms,
                headers=list(headers),
            )
            for key, value in messages
        ]
        producer.flush()
        for future in sent:
            future.get(timeout=120)
    finally:
        producer.close()


def count(broker: EmbeddedBroker, topic: str) -> int:
    """Return how many records a topic holds."""
    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap)
    try:
        partitions = consumer.partitions_for_topic(topic) or ()
        ends = consumer.end_offsets([TopicPartition(topic, number) for number in partitions])
        return sum(ends.values())
    finally:
        consumer.close()


def consume(
    broker: EmbeddedBroker, topic: str, *, count: int, timeout_ms: int = 60_000
) -> list[tuple[int, int, bytes | None, bytes | None]]:
    """(partition, offset, key, value) of the first `count` records, fewer after the timeout."""
    consumer = KafkaConsumer(
        bootstrap_servers=broker.bootstrap,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        consumer_timeout_ms=timeout_ms,
    )
    try:
        partitions = sorted(consumer.partitions_for_topic(topic) or ())
        consumer.assign([TopicPartition(topic, number) for number in partitions])
        records = itertools.islice(consumer, count)
        return [(record.partition, record.offset, record.key, record.value) for record in records]
    finally:
        consumer.close()
