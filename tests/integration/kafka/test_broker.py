"""The embedded broker and the checks of topics agree with a real Kafka."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from stream_app.app.config.source_config import SourceConfig
from stream_app.app.launch.embedded_broker import EmbeddedBroker
from stream_app.app.source.broker_connection import BrokerConnection
from stream_app.app.source.topic_checks import checked_topics, recreated_topics
from stream_app.errors import SourceError, UsageError
from tests.support.brokers.kafka_broker import consume, delete_topic, new_topic, produce

SOON = 30
pytestmark = pytest.mark.kafka


@pytest.mark.variant
def test_messages_survive_a_stop_and_a_kill(tmp_path: Path) -> None:
    broker = EmbeddedBroker(tmp_path / "with space")
    broker.start()
    try:
        address = broker.bootstrap
        topic = new_topic(broker, partitions=2)
        produce(broker, topic, [(b"a", b"1"), (b"b", None)], partition=0)
        broker.stop()
        stopped_pid = broker.pid
        assert stopped_pid is None
        broker.start()
        produce(broker, topic, [(b"c", b"3")], partition=1)
        pid = broker.pid
        assert pid is not None
        assert (tmp_path / "with space" / "pid").read_text() == f"{pid}\n"
        broker.kill()
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
        broker.start()
        assert broker.bootstrap == address
        records = consume(broker, topic, count=3)
        assert sorted(records) == [(0, 0, b"a", b"1"), (0, 1, b"b", None), (1, 0, b"c", b"3")]
    finally:
        broker.stop()


@pytest.mark.variant
def test_a_taken_port_is_a_clear_error(tmp_path: Path) -> None:
    with closing(socket.socket()) as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        broker = EmbeddedBroker(tmp_path, port=listener.getsockname()[1])
        with pytest.raises(SourceError, match="ended at its start") as caught:
            broker.start()
    assert "check that port" in str(caught.value)
    assert broker.pid is None


def test_topics_are_described(kafka_broker: EmbeddedBroker) -> None:
    first = new_topic(kafka_broker, name="described.a", partitions=3)
    second = new_topic(kafka_broker, name="described.b")
    topics_there = checked_topics(
        SourceConfig(
            bootstrap_servers=kafka_broker.bootstrap,
            topics=(
                second,
                first,
            ),
        )
    )
    assert {name: topic.partition_count for name, topic in topics_there.items()} == {
        first: 3,
        second: 1,
    }
    assert len({topic.topic_id for topic in topics_there.values()}) == 2
    assert (
        checked_topics(
            SourceConfig(bootstrap_servers=kafka_broker.bootstrap, topic_pattern=r"described\..*")
        )
        == topics_there
    )
    # A pattern must match the whole name, as in Java.
    with pytest.raises(SourceError, match="matches 'described'"):
        checked_topics(
            SourceConfig(bootstrap_servers=kafka_broker.bootstrap, topic_pattern="described")
        )


def test_a_missing_topic_names_the_near_ones(kafka_broker: EmbeddedBroker) -> None:
    # Other tests share the broker, so no other topic may be near these names.
    existing, missing = "quaint.zebra.vexes", "quaint.zebra.vexed"
    new_topic(kafka_broker, name=existing)
    with pytest.raises(SourceError) as caught:
        checked_topics(
            SourceConfig(
                bootstrap_servers=kafka_broker.bootstrap,
                topics=(
                    existing,
                    missing,
                ),
            )
        )
    assert str(caught.value) == (
        f"topic '{missing}' does not exist at {kafka_broker.bootstrap}\n"
        "  where: source.topics\n"
        f"  to fix: did you mean {existing}? or create the topic"
    )


def test_a_recreated_topic_has_another_id(kafka_broker: EmbeddedBroker) -> None:
    name = new_topic(kafka_broker)
    before = checked_topics(SourceConfig(bootstrap_servers=kafka_broker.bootstrap, topics=(name,)))
    remembered_ids = {name: before[name].topic_id}
    assert recreated_topics(remembered_ids, before) == []
    delete_topic(kafka_broker, name)
    new_topic(kafka_broker, name=name)
    assert recreated_topics(
        remembered_ids,
        checked_topics(SourceConfig(bootstrap_servers=kafka_broker.bootstrap, topics=(name,))),
    ) == [name]


def test_a_broker_gives_the_offsets_of_each_partition(kafka_broker: EmbeddedBroker) -> None:
    name = new_topic(kafka_broker, partitions=2)
    produce(kafka_broker, name, [(b"k", b"%d" % number) for number in range(5)], partition=1)
    with BrokerConnection(kafka_broker.bootstrap, {}) as connection:
        topics = connection.topics([name])
        assert connection.start_offsets(topics) == {(name, 0): 0, (name, 1): 0}
        assert connection.end_offsets(topics) == {(name, 0): 0, (name, 1): 5}


@pytest.fixture
def silent_port() -> Iterator[int]:
    """A port that takes connections and never says a word."""
    with closing(socket.socket()) as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        yield server.getsockname()[1]


def test_a_port_that_is_not_kafka(silent_port: int) -> None:
    start = time.monotonic()
    with pytest.raises(SourceError, match="does not answer as a Kafka broker") as caught:
        checked_topics(
            SourceConfig(bootstrap_servers=f"127.0.0.1:{silent_port}", topics=("t",)), timeout_s=2
        )
    assert time.monotonic() - start < SOON
    assert "security.protocol" in str(caught.value)


@pytest.mark.parametrize(
    ("bootstrap", "message"),
    [
        pytest.param("127.0.0.1:1", "127.0.0.1:1: connection refused", id="refused"),
        pytest.param(
            "no-such-host.invalid:9092,127.0.0.1:1",
            "no-such-host.invalid:9092: the host's name is unknown; 127.0.0.1:1: connection",
            id="all-are-told",
        ),
    ],
)
def test_an_unreachable_broker_is_reported_at_once(bootstrap: str, message: str) -> None:
    start = time.monotonic()
    with pytest.raises(SourceError) as caught:
        checked_topics(SourceConfig(bootstrap_servers=bootstrap, topics=("t",)))
    assert f"no Kafka broker can be reached: {message}" in str(caught.value)
    assert time.monotonic() - start < SOON


@pytest.mark.parametrize("bootstrap", ["localhost", "localhost:x", "127.0.0.1:1,x", " , "])
def test_a_wrong_address_is_an_error_of_the_configuration(bootstrap: str) -> None:
    with pytest.raises(UsageError, match=r"is not HOST:PORT|no Kafka broker is named"):
        checked_topics(SourceConfig(bootstrap_servers=bootstrap, topics=("t",)))


def test_one_reachable_server_is_enough(kafka_broker: EmbeddedBroker) -> None:
    name = new_topic(kafka_broker)
    assert name in checked_topics(
        SourceConfig(bootstrap_servers=f"127.0.0.1:1,{kafka_broker.bootstrap}", topics=(name,))
    )
