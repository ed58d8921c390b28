"""A job by either reader: the same rows, the same epochs, and one continues where the other was."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from confluent_kafka import Producer
from kafka import TopicPartition
from kafka.admin import KafkaAdminClient, NewPartitions

from tests.support.jobs.job_bench import JobBench, change

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.java, pytest.mark.slow]
NATIVE, SPARK = "source.reader=native", "source.reader=spark"


def configured(bench: JobBench, *topics: str, **source: int | bool) -> Mapping[str, object]:
    settings = {key.replace("_", "-"): value for key, value in source.items()}
    bench.configure(*topics, source=settings, stream={"quarantine": f"{bench.folder}/quarantine"})
    return settings


@pytest.mark.usefixtures("spark_kafka_source")
def test_a_checkpoint_is_both_readers(bench: JobBench) -> None:
    topic = bench.topic(change(key, "a") for key in range(10))
    configured(bench, topic, max_offsets_per_trigger=4)
    log = bench.run().output
    assert "the native reader reads the topics" in log
    assert log.count("messages are decoded by ") == 1
    assert [event["messages"] for event in bench.events("progress")] == [4, 4, 2]
    bench.send(topic, [change(key, "b", "a") for key in range(5)])
    output = bench.run(SPARK).output
    assert "native reader" not in output
    bench.send(topic, [change(0, None, "b"), (b"k", b"no json"), (b"t", None)])
    bench.run(NATIVE)
    assert bench.rows() == {**dict.fromkeys(range(1, 5), "b"), **dict.fromkeys(range(5, 10), "a")}
    [bad] = bench.quarantine()
    assert (bad["offset"], bad["key"], bad["value"]) == (16, "k", "no json")
    ends = [event["end_offsets"] for event in bench.events("progress")]
    assert ends[-1] == {topic: {"0": 18}}
    assert sum(event["messages"] for event in bench.events("progress")) == 18


def test_transactions_and_partitions_that_come_later(bench: JobBench) -> None:
    topic = bench.topic()
    configured(bench, topic)
    producer = Producer({"bootstrap.servers": bench.broker.bootstrap, "transactional.id": topic})
    producer.init_transactions(30)
    for value, commits in (("a", True), ("lost", False), ("b", True)):
        producer.begin_transaction()
        for key in range(3):
            name, message = change(key, value, None if value == "a" else "a")
            producer.produce(topic, message, name, partition=0)
        producer.flush(30)
        (producer.commit_transaction if commits else producer.abort_transaction)(30)
    bench.run(NATIVE)
    assert bench.rows() == dict.fromkeys(range(3), "b")
    admin = KafkaAdminClient(bootstrap_servers=bench.broker.bootstrap)
    admin.create_partitions({topic: NewPartitions(2)})
    bench.send(topic, [change(7, "new")], partition=1)
    bench.run(NATIVE)
    assert bench.rows() == {**dict.fromkeys(range(3), "b"), 7: "new"}
    # The job reports what is gone of a partition, or leaves it out.
    bench.send(topic, [change(8, "gone"), change(9, "there")], partition=1)
    admin.delete_records({TopicPartition(topic, 1): 2})
    admin.close()
    assert f"records at offsets 1 to 2 of {topic}/1 cannot be read" in bench.fails(NATIVE)
    bench.run(NATIVE, "source.fail-on-data-loss=false")
    assert bench.rows() == {**dict.fromkeys(range(3), "b"), 7: "new", 9: "there"}


@pytest.mark.usefixtures("spark_kafka_source")
def test_what_the_native_reader_cannot_follow(bench: JobBench) -> None:
    topic = bench.topic([change(1, "a")])
    configured(bench, topic)
    java_alone = "source.kafka.metadata.max.agee.ms=1000"
    error = bench.fails(NATIVE, java_alone)
    assert error.startswith("the native reader cannot read these topics:\n")
    assert "metadata.max.agee.ms: is unknown; did you mean 'metadata.max.age.ms'?" in error
    assert "or leave source.reader out" in error
    output = bench.run(java_alone).output
    assert "Spark's source reads the topics" in output
    assert bench.rows() == {1: "a"}
