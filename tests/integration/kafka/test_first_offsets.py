"""A new job begins at a time or at a group's offsets, and commits its offsets to the group."""

from __future__ import annotations

import json
from uuid import uuid4

import pytest
from kafka import KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka.admin import KafkaAdminClient

from stream_app.app.launch.embedded_broker import EmbeddedBroker
from tests.support.brokers.kafka_broker import new_topic
from tests.support.jobs.job_harness import JobHarness, change

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.java, pytest.mark.slow]
NINE = 1_700_000_000_000
"""Milliseconds since 1970 of the message with the key 0; each further key is a second later."""


def timed_topic(broker: EmbeddedBroker, keys: range, *, partitions: int = 2) -> str:
    """A topic in which the key n is in the partition n % partitions, n seconds after `NINE`."""
    topic = new_topic(broker, partitions=partitions)
    send_timed(broker, topic, keys, partitions)
    return topic


def send_timed(broker: EmbeddedBroker, topic: str, keys: range, partitions: int) -> None:
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap)
    for key in keys:
        name, value = change(key, f"v{key}")
        producer.send(
            topic, key=name, value=value, partition=key % partitions,
            timestamp_ms=NINE + 1000 * key,
        )  # fmt: skip
    producer.close()


def group_offsets(broker: EmbeddedBroker, group: str) -> dict[tuple[str, int], int]:
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    try:
        offsets = admin.list_group_offsets([group])[group]
    finally:
        admin.close()
    return {(place.topic, place.partition): offset.offset for place, offset in offsets.items()}


@pytest.mark.parametrize("reader", ["native", pytest.param("spark", marks=pytest.mark.variant)])
def test_a_job_begins_at_a_time(
    harness: JobHarness, reader: str, request: pytest.FixtureRequest
) -> None:
    """A partition without such a message begins at its end; the time only counts once."""
    if reader == "spark":
        request.getfixturevalue("spark_kafka_source")
    topic = timed_topic(harness.broker, range(10))
    # 2023-11-14T22:13:28Z is NINE and 8 s: key 8 is in partition 0, key 9 in partition 1.
    source = {"reader": reader, "starting-timestamp": "2023-11-14T22:13:28.500Z"}
    harness.configure(topic, source=source)
    harness.run()
    assert harness.rows() == {9: "v9"}
    send_timed(harness.broker, topic, range(10, 12), 2)
    harness.run()
    assert harness.rows() == {9: "v9", 10: "v10", 11: "v11"}


def test_topics_begin_at_times_of_their_own(harness: JobHarness) -> None:
    early, late = (timed_topic(harness.broker, keys) for keys in (range(6), range(6, 12)))
    times = {early: {"0": NINE + 4000, "1": NINE + 1000}, late: NINE + 9000}
    source = {"starting-offsets-by-timestamp": json.dumps(times), "merge-shards": True}
    harness.configure(early, late, source=source)
    harness.run()
    assert sorted(harness.rows()) == [1, 3, 4, 5, 9, 10, 11]


def test_times_must_name_what_is_there(harness: JobHarness) -> None:
    topic = timed_topic(harness.broker, range(2))
    times = json.dumps({topic: {"0": NINE, "7": NINE}, "other": NINE})
    harness.configure(topic, source={"starting-offsets-by-timestamp": times})
    error = harness.fails()
    assert "source.starting-offsets-by-timestamp" in error
    for problem in (f"{topic}/1 has no time", f"{topic}/7 does not exist", "other does not exist"):
        assert problem in error


def test_a_job_takes_over_from_a_consumer_group(harness: JobHarness) -> None:
    """The job begins at the group's offsets, and then stores its progress as the group's."""
    topic, group = timed_topic(harness.broker, range(10)), f"group-{uuid4().hex}"
    consumer = KafkaConsumer(bootstrap_servers=harness.broker.bootstrap, group_id=group)
    consumer.commit({TopicPartition(topic, 0): OffsetAndMetadata(3, "", -1)})
    consumer.close()
    harness.configure(topic, source={"group-id": group, "starting-offsets": "latest"})
    harness.run()
    # Partition 0 has 0, 2, 4, 6, 8, of which three were read; partition 1 has no offset.
    assert sorted(harness.rows()) == [6, 8]
    assert group_offsets(harness.broker, group) == {(topic, 0): 5, (topic, 1): 5}
    send_timed(harness.broker, topic, range(10, 13), 2)
    harness.run()
    assert sorted(harness.rows()) == [6, 8, 10, 11, 12]
    assert group_offsets(harness.broker, group) == {(topic, 0): 7, (topic, 1): 6}


def test_a_group_with_members_holds_nothing_back(harness: JobHarness) -> None:
    topic, group = timed_topic(harness.broker, range(4)), f"group-{uuid4().hex}"
    member = KafkaConsumer(
        topic, bootstrap_servers=harness.broker.bootstrap, group_id=group, enable_auto_commit=False
    )
    member.poll(5000)
    try:
        harness.configure(topic, source={"group-id": group})
        result = harness.run()
    finally:
        member.close()
    assert sorted(harness.rows()) == [0, 1, 2, 3]
    assert f"group {group} is behind, and the job continues" in result.output
    assert "stop the consumers that are members of the group" in result.output
