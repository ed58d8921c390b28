"""A job of a whole database reads Debezium's real CloudEvents, and Paimon reads its tables."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from stream_app.app.launch.embedded_broker import EmbeddedBroker
from tests.support.brokers.kafka_broker import new_topic, produce
from tests.support.jobs.ingest_process import write_conf
from tests.support.jobs.ingest_server import IngestServer
from tests.support.judges.paimon_java import PaimonJava
from tests.support.messages.debezium_messages import captured_messages

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.java, pytest.mark.slow]


def test_events_become_the_table_of_their_source(
    tmp_path: Path,
    kafka_broker: EmbeddedBroker,
    ingest_server: IngestServer,
    paimon_java: PaimonJava,
) -> None:
    topic = new_topic(kafka_broker, name=f"events{uuid.uuid4().hex[:8]}")
    batch = captured_messages("debezium_cloudevents", "envelope.shop.story")
    keys, values = (batch.column(name).to_pylist() for name in ("key", "value"))
    event_without_row = b'{"specversion":"1.0","id":"1","data":{}}'
    produce(kafka_broker, topic, [*zip(keys, values, strict=True), (None, event_without_row)])
    conf = write_conf(
        tmp_path / "job.toml",
        source={
            "bootstrap-servers": kafka_broker.bootstrap,
            "topics": [topic],
            "format": "debezium-cloudevents",
        },
        sync={"warehouse": str(tmp_path / "warehouse"), "database": "ods"},
        stream={
            "checkpoint": str(tmp_path / "checkpoint"),
            "trigger": "availableNow",
            "quarantine": str(tmp_path / "quarantine"),
        },
        spark={"spark.master": "local[2]"},
    )
    result = ingest_server.run(conf)
    assert result.code == 0, result.output
    table = tmp_path / "warehouse" / "ods.db" / "story"
    rows = sorted(({**row} for row in paimon_java.read(table)), key=lambda row: row["id"])
    assert [(row["id"], row["name"], str(row["amount"])) for row in rows] == [
        (3, 'x,"data":{', "-0.01"),
        (4, "Bob", "4.00"),
    ]
    [line] = [
        line
        for file in (tmp_path / "quarantine").rglob("*.jsonl")
        for line in file.read_text().splitlines()
    ]
    assert "has no iodebeziumop" in line
