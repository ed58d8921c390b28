"""Both readers give a job the same rows and epochs, and each continues the other's checkpoint."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from confluent_kafka import Producer
from kafka import TopicPartition
from kafka.admin import KafkaAdminClient, NewPartitions

from tests.support.jobs.job_harness import JobHarness, change

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.java, pytest.mark.slow]
NATIVE, SPARK = "source.reader=native", "source.reader=spark"


def configured(harness: JobHarness, *topics: str, **source: int | bool) -> Mapping[str, object]:
    settings = {key.replace("_", "-"): value for key, value in source.items()}
    harness.configure(
        *topics, source=settings, stream={"quarantine": f"{harness.folder}/quarantine"}
    )
    return settings


@pytest.mark.usefixtures("spark_kafka_source")
def test_a_checkpoint_is_both_readers(harness: JobHarness) -> None:
    topic = harness.topic(change(key, "a") for key in range(10))
    configured(harness, topic, max_offsets_per_trigger=4)
    log = harness.run().output
    assert "the native reader reads the topics" in log
    assert log.count("messages are decoded by ") == 1
    assert [event["messages"] for event in harness.events("progress")] == [4, 4, 2]
    harness.send(topic, [change(key, "b", "a") for key in range(5)])
    output = harness.run(SPARK).output
    assert "native reader" not in output
    harness.send(topic, [change(0, None, "b"), (b"k", b"no json"), (b"t", None)])
    harness.run(NATIVE)
    assert harness.rows() == {**dict.fromkeys(range(1, 5), "b"), **dict.fromkeys(range(5, 10), "a")}
    [bad_record] = harness.quarantine()
    assert (bad_record["offset"], bad_record["key"], bad_record["value"]) == (16, "k", "no json")
    ends = [event["end_offsets"] for event in harness.events("progress")]
    assert ends[-1] == {topic: {"0": 18}}
    assert sum(event["messages"] for event in harness.events("progress")) == 18


def test_transactions_and_partitions_that_come_later(harness: JobHarness) -> None:
    topic = harness.topic()
    configured(harness, topic)
    producer = Producer({"bootstrap.servers": harness.broker.bootstrap, "transactional.id": topic})
    producer.init_transactions(30)
    for value, commits in (("a", True), ("lost", False), ("b", True)):
        producer.begin_transaction()
        for key in range(3):
            name, message = change(key, value, None if value == "a" else "a")
            producer.produce(topic, message, name, partition=0)
        producer.flush(30)
        (producer.commit_transaction if commits else producer.abort_transaction)(30)
    harness.run(NATIVE)
    assert harness.rows() == dict.fromkeys(range(3), "b")
    admin = KafkaAdminClient(bootstrap_servers=harness.broker.bootstrap)
    admin.create_partitions({topic: NewPartitions(2)})
    harness.send(topic, [change(7, "new")], partition=1)
    harness.run(NATIVE)
    assert harness.rows() == {**dict.fromkeys(range(3), "b"), 7: "new"}
    # The job reports what is gone of a partition, or leaves it out.
    harness.send(topic, [change(8, "gone"), change(9, "there")], partition=1)
    admin.delete_records({TopicPartition(topic, 1): 2})
    admin.close()
    assert f"records at offsets 1 to 2 of {topic}/1 cannot be read" in harness.fails(NATIVE)
    harness.run(NATIVE, "source.fail-on-data-loss=false")
    assert harness.rows() == {**dict.fromkeys(range(3), "b"), 7: "new", 9: "there"}


@pytest.mark.usefixtures("spark_kafka_source")
def test_the_native_reader_names_the_options_that_it_does_not_know(harness: JobHarness) -> None:
    topic = harness.topic([change(1, "a")])
    configured(harness, topic)
    java_alone = "source.kafka.metadata.max.agee.ms=1000"
    error = harness.fails(NATIVE, java_alone)
    assert error.startswith("the native reader cannot read these topics:\n")
    assert "metadata.max.agee.ms: is unknown; did you mean 'metadata.max.age.ms'?" in error
    assert "or leave source.reader out" in error
    output = harness.run(java_alone).output
    assert "Spark's source reads the topics" in output
    assert harness.rows() == {1: "a"}
