"""Every verb that reads messages reads each codec of Kafka, as the job does."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from confluent_kafka import Producer

from stream_app.app.cli.main import main
from stream_app.app.config.source_config import SourceConfig
from stream_app.app.launch.embedded_broker import EmbeddedBroker
from stream_app.app.ops.replay.later_change_check import topic_reader
from stream_app.app.source.first_messages import in_one_table, sample_messages
from stream_app.app.source.topic_checks import checked_topics
from tests.support.brokers.kafka_broker import new_topic
from tests.support.tables.small_table import SmallTable
from tests.support.verbs.checked_topic import a_conf, a_table, message, read_up_to

pytestmark = [pytest.mark.kafka, pytest.mark.usefixtures("unsynced")]
WAIT_S = 30.0
KEYS = 60
END = 4 * KEYS + 3


@pytest.fixture(params=["gzip", "snappy", "lz4", "zstd"])
def topic(request: pytest.FixtureRequest, kafka_broker: EmbeddedBroker) -> str:
    """Three transactions of one codec, the second of them aborted, and one that stays open.

    Keys 0 to 59 are "old"; the aborted transaction makes them "never"; then key 3 is "new" 60
    times. A marker stands behind each transaction.
    """
    name = new_topic(kafka_broker)
    options = {"transactional.id": name, "compression.type": request.param, "linger.ms": "50"}
    producer = Producer({"bootstrap.servers": kafka_broker.bootstrap, **options})
    producer.init_transactions(WAIT_S)
    parts = [
        ([message("c", k, "old") for k in range(KEYS)], producer.commit_transaction),
        ([message("u", k, "never") for k in range(KEYS)], producer.abort_transaction),
        ([message("u", 3, "new") for _ in range(2 * KEYS)], producer.commit_transaction),
    ]
    for messages, end in parts:
        producer.begin_transaction()
        send(producer, name, messages)
        end(WAIT_S)
    producer.begin_transaction()
    send(producer, name, [message("c", 99, "open")])
    return name


def send(producer: Producer, topic: str, messages: Sequence[tuple[bytes, bytes]]) -> None:
    for key, value in messages:
        producer.produce(topic, value, key, 0)
    assert producer.flush(WAIT_S) == 0


def the_table(folder: Path, topic: str) -> SmallTable:
    return a_table(folder, topic, {"0": END}, {k: "old" for k in range(KEYS)} | {3: "new"})


def test_each_verb_reads_the_codec(
    tmp_path: Path, kafka_broker: EmbeddedBroker, topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    conf = a_conf(tmp_path, kafka_broker, topic)
    start = time.monotonic()
    assert main(["doctor", "--conf", str(conf)]) == 0
    assert "the topics may be described and read" in capsys.readouterr().out
    assert main(["init", "--from-topic", topic, "--conf", str(conf)]) == 0
    assert "v STRING" in capsys.readouterr().out
    assert time.monotonic() - start < WAIT_S, "the open transaction is not waited for"

    table = the_table(tmp_path, topic)
    assert main(["check", "--conf", str(conf)]) == 0
    read_up_to(table, topic, {"0": END})
    table.commit(("+I", {"k": 5, "v": "wrong"}))
    read_up_to(table, topic, {"0": END})
    capsys.readouterr()
    assert main(["check", table.path, "--conf", str(conf), "--format", "jsonl"]) == 1
    [finding] = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert finding["kind"] == "source"
    assert main(["backfill", "t", "--conf", str(conf)]) == 0
    assert "0 rows added, 1 changed" in capsys.readouterr().out
    assert main(["backfill", "t", "--conf", str(conf), "--from", "2020-01-01"]) == 0


def test_first_messages_and_replays_read_the_codec(
    kafka_broker: EmbeddedBroker, topic: str
) -> None:
    source = SourceConfig(bootstrap_servers=kafka_broker.bootstrap, topics=(topic,))
    topics = checked_topics(source)
    start = time.monotonic()
    offsets_read = in_one_table(sample_messages(source, topics)).column("offset").to_pylist()
    assert time.monotonic() - start < 5
    # The last offset before the open transaction is a marker.
    assert offsets_read == [*range(20), *range(END - 20, END - 1)]
    batches = topic_reader(source)((topic, 0), KEYS - 2, END)
    offsets = [offset for batch in batches for offset in batch.column("offset").to_pylist()]
    third = 2 * KEYS + 2
    assert offsets == [KEYS - 2, KEYS - 1, *range(third, third + 2 * KEYS)]
