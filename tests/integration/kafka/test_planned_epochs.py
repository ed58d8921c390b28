"""A job plans its epochs, also after Spark's source and for topics that come, grow and go."""

from __future__ import annotations

import json
import threading
import time
import zipfile
from pathlib import Path
from uuid import uuid4

import pytest
from kafka import KafkaConsumer, OffsetAndMetadata, TopicPartition
from kafka.admin import KafkaAdminClient, NewPartitions

from stream_app.app.launch.embedded_broker import EmbeddedBroker
from stream_app.errors import SourceError, WrongSourceError
from stream_app.kafka.client_options import client_options
from stream_app.kafka.librdkafka import load_librdkafka
from stream_app.kafka.offset_client import GONE_AFTER_S, OffsetClient, OffsetEnd
from tests.support.brokers.kafka_broker import delete_topic, new_topic, produce
from tests.support.brokers.secure_kafka import SecureKafka
from tests.support.jobs.ingest_process import a_free_port
from tests.support.jobs.job_harness import JobHarness, change

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.java, pytest.mark.slow]
FIXTURES = Path(__file__).parents[2] / "fixtures" / "checkpoints"


def asks(bootstrap: str, *topics: str, **options: str) -> OffsetClient:
    java = {key.replace("_", "."): value for key, value in options.items()}
    client = client_options(bootstrap, java, load_librdkafka().features)
    return OffsetClient(client.options, topics=topics, timeout_s=1.0)


@pytest.mark.parametrize("is_done", [True, False], ids=["done", "begun"])
def test_a_checkpoint_of_sparks_source_goes_on(harness: JobHarness, is_done: bool) -> None:
    """A job of 0.1.0 with Spark 4.1.3's source: offsets 0 to 7 and 0 to 6 in epochs 0 to 3.

    Its epochs had four messages at most. Where Spark had not noted that the last one was done, the
    table has it, and it is not written twice.
    """
    with zipfile.ZipFile(FIXTURES / "spark-4.1.3.zip") as recorded_archive:
        for name in recorded_archive.namelist():
            place = name.replace("table/", "warehouse/db.db/t/", 1)
            (harness.folder / place).parent.mkdir(parents=True, exist_ok=True)
            (harness.folder / place).write_bytes(recorded_archive.read(name))
    state = harness.folder / "checkpoint" / "stream_app.json"
    stored_state = json.loads(state.read_text()) | {"table": str(harness.table), "topic_ids": {}}
    state.write_text(json.dumps(stored_state))
    if not is_done:
        for name in ("3", ".3.crc"):
            (harness.folder / "checkpoint" / "commits" / name).unlink()
    new_topic(harness.broker, name="recorded", partitions=2)
    try:
        for partition in range(2):
            old = [change(key * 2 + partition, "a") for key in range(6)]
            produce(harness.broker, "recorded", old, partition=partition)
        produce(harness.broker, "recorded", [change(0, "b", "a")], partition=0)
        produce(harness.broker, "recorded", [change(1, "c", "a")], partition=1)
        harness.configure("recorded")
        harness.run("source.reader=native")
    finally:
        delete_topic(harness.broker, "recorded")
    assert not state.exists(), "job_state.json has replaced it"
    assert harness.rows() == {**dict.fromkeys(range(12), "a"), 0: "b", 1: "c"}
    assert harness.snapshots() == [f"APPEND {epoch}" for epoch in range(5)]
    [*_, progress] = harness.events("progress")
    assert (progress["epoch"], progress["messages"], progress["lag"]) == (4, 1, 0)
    assert progress["end_offsets"] == {"recorded": {"0": 7, "1": 7}}


@pytest.mark.variant
def test_topics_that_come_partitions_that_come_and_the_newest_first(harness: JobHarness) -> None:
    name = f"come-{uuid4().hex[:6]}"
    new_topic(harness.broker, name=f"{name}.a")
    harness.send(f"{name}.a", [change(1, "before the job")])
    pattern = {"topic-pattern": f"{name}\\..*", "starting-offsets": "latest", "merge-shards": True}
    harness.configure(source=pattern)
    harness.run()
    harness.send(f"{name}.a", [change(2, "two")])
    new_topic(harness.broker, name=f"{name}.b")
    harness.send(f"{name}.b", [change(3, "three")])
    harness.run()
    assert harness.rows() == {2: "two", 3: "three"}
    admin = KafkaAdminClient(bootstrap_servers=harness.broker.bootstrap)
    admin.create_partitions({f"{name}.a": NewPartitions(2)})
    admin.close()
    harness.send(f"{name}.a", [change(4, "four")], partition=1)
    harness.run()
    assert harness.rows() == {2: "two", 3: "three", 4: "four"}
    ends = harness.events("progress")[-1]["end_offsets"]
    assert ends == {f"{name}.a": {"0": 2, "1": 1}, f"{name}.b": {"0": 1}}
    # A topic that is gone is not passed over in silence.
    delete_topic(harness.broker, f"{name}.b")
    assert f"{name}.b/0 was read up to offset 1 and is gone" in harness.fails()
    harness.send(f"{name}.a", [change(5, "five")])
    output = harness.run("source.fail-on-data-loss=false").output
    assert f"{name}.b/0 was read up to offset 1 and is gone; the job continues without it" in output
    assert harness.rows()[5] == "five"


@pytest.mark.variant
def test_offsets_of_brokers_that_ask_for_a_login(secure_kafka: SecureKafka) -> None:
    topic = new_topic(secure_kafka.broker)
    produce(secure_kafka.broker, topic, [(None, b"v")], partition=0)
    for listener in ("PLAIN", "SCRAM512", "TLS", "OAUTH"):
        password = {"password": "known-pass of alice"} if listener == "OAUTH" else {}
        options = secure_kafka.options(listener, **password)
        cluster = asks(secure_kafka.bootstrap(listener), topic, **options)
        cluster.timeout_s = 180.0
        assert cluster.offsets_at(OffsetEnd.NEWEST) == {topic: {"0": 1}}
        assert cluster.offsets_at(OffsetEnd.OLDEST) == {topic: {"0": 0}}
        cluster.close()
    options = secure_kafka.options("PLAIN", "not-the-password-of-alice")
    with pytest.raises(WrongSourceError, match="cannot log in") as caught:
        asks(secure_kafka.bootstrap("PLAIN"), topic, **options).offsets_at(OffsetEnd.NEWEST)
    assert "not-the-password" not in str(caught.value)


def test_a_pattern_chooses_whole_names_and_no_topic_of_kafkas_own(
    kafka_broker: EmbeddedBroker,
) -> None:
    topic = new_topic(kafka_broker)
    new_topic(kafka_broker, name=f"{topic}-more")
    consumer = KafkaConsumer(bootstrap_servers=kafka_broker.bootstrap, group_id=topic)
    consumer.assign([TopicPartition(topic, 0)])
    consumer.commit({TopicPartition(topic, 0): OffsetAndMetadata(0, "", -1)})
    consumer.close()
    cluster = asks(kafka_broker.bootstrap)
    cluster.timeout_s = 180.0
    cluster.pattern = topic
    assert cluster.offsets_at(OffsetEnd.NEWEST) == {topic: {"0": 0}}
    cluster.pattern = ".*"
    chosen = cluster.offsets_at(OffsetEnd.NEWEST).keys()
    cluster.close()
    assert {topic, f"{topic}-more"} <= chosen
    assert "__consumer_offsets" not in chosen
    internal_client = asks(kafka_broker.bootstrap, "__consumer_offsets")
    internal_client.timeout_s = 60.0
    assert "__consumer_offsets" in internal_client.offsets_at(OffsetEnd.NEWEST)  # it is there
    internal_client.close()


def test_only_the_first_question_waits_for_a_topic_that_is_gone(
    kafka_broker: EmbeddedBroker,
) -> None:
    remaining, deleted_topic = new_topic(kafka_broker), new_topic(kafka_broker)
    cluster = asks(kafka_broker.bootstrap, remaining, deleted_topic)
    cluster.timeout_s = 180.0
    assert cluster.offsets_at(OffsetEnd.NEWEST) == {remaining: {"0": 0}, deleted_topic: {"0": 0}}
    delete_topic(kafka_broker, deleted_topic)
    seconds = []
    for _ in range(2):
        began = time.monotonic()
        assert cluster.offsets_at(OffsetEnd.NEWEST) == {remaining: {"0": 0}}
        seconds.append(time.monotonic() - began)
    assert seconds[0] > GONE_AFTER_S > 2 * seconds[1]
    new_topic(kafka_broker, name=deleted_topic)
    assert cluster.offsets_at(OffsetEnd.NEWEST) == {remaining: {"0": 0}, deleted_topic: {"0": 0}}
    cluster.close()


@pytest.mark.variant
def test_no_broker_and_a_broker_that_comes_back(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"reported no offsets .*refused") as caught:
        asks(f"127.0.0.1:{a_free_port()}", "t").offsets_at(OffsetEnd.NEWEST)
    assert not isinstance(caught.value, WrongSourceError)
    broker = EmbeddedBroker(tmp_path)
    with broker:
        topic = new_topic(broker, partitions=3)
        cluster = asks(broker.bootstrap, topic)
        cluster.timeout_s = 180.0
        assert cluster.offsets_at(OffsetEnd.NEWEST) == {topic: {"0": 0, "1": 0, "2": 0}}
        broker.stop()
        back = threading.Timer(2, broker.start)
        back.start()
        try:
            assert cluster.offsets_at(OffsetEnd.NEWEST) == {topic: {"0": 0, "1": 0, "2": 0}}
        finally:
            back.join()
            cluster.close()
