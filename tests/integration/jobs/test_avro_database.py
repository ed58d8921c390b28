"""A job reads a whole database as Avro, with a real registry, broker, Spark and Paimon's reader."""

from __future__ import annotations

import subprocess
import sys
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from stream_app.app.launch.embedded_broker import EmbeddedBroker
from tests.support.brokers.kafka_broker import new_topic, produce
from tests.support.brokers.schema_registry import confluent_message
from tests.support.jobs.ingest_process import write_conf
from tests.support.jobs.ingest_server import IngestServer
from tests.support.judges.paimon_java import PaimonJava
from tests.testbed.servers.apicurio import Apicurio

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.java, pytest.mark.slow]
KEY = {"type": "record", "name": "Key", "fields": [{"name": "id", "type": "long"}]}
HEARTBEAT = {"type": "record", "name": "Beat", "fields": [{"name": "ts_ms", "type": "long"}]}
DECIMAL = {
    "type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2,
    "connect.name": "org.apache.kafka.connect.data.Decimal",
}  # fmt: skip
SOURCE = {
    "type": "record",
    "name": "Source",
    "fields": [
        {"name": "connector", "type": "string"},
        {"name": "ts_ms", "type": "long"},
        {"name": "db", "type": "string"},
        {"name": "table", "type": ["null", "string"]},
    ],
}
BEFORE = {"id": "long", "n": ["null", "int"], "price": ["null", DECIMAL]}
ALTERED = {**BEFORE, "n": ["null", "long"], "note": ["null", "string"]}


@dataclass
class Topic:
    """The changes of all tables of a database, with their schemas in the registry."""

    registry: Apicurio
    name: str = field(default_factory=lambda: f"avro{uuid.uuid4().hex[:8]}")
    messages: list[tuple[bytes | None, bytes | None]] = field(default_factory=list)

    def change(self, table: str, columns: dict[str, Any], op: str, row: dict[str, Any]) -> None:
        fields = [{"name": name, "type": data_type} for name, data_type in columns.items()]
        value = {"type": "record", "name": "Value", "fields": fields}
        schema = {
            "type": "record",
            "name": "Envelope",
            "namespace": f"server.shop.{table}",
            "fields": [
                {"name": "before", "type": ["null", value]},
                {"name": "after", "type": ["null", "Value"]},
                {"name": "source", "type": SOURCE},
                {"name": "op", "type": "string"},
            ],
        }
        source = {"connector": "mariadb", "ts_ms": 1, "db": "shop", "table": table}
        images = {"before": row if op in "ud" else None, "after": None if op == "d" else row}
        key = self.encoded("key", KEY, {"id": row["id"]})
        self.messages.append(
            (key, self.encoded(table, schema, {**images, "source": source, "op": op}))
        )

    def encoded(self, subject: str, schema: Any, value: Any) -> bytes:
        return confluent_message(self.registry.add(f"{self.name}-{subject}", schema), schema, value)

    def send(self, broker: EmbeddedBroker) -> None:
        produce(broker, self.name, self.messages)
        self.messages = []


def old_rows(keys: Iterable[int]) -> list[dict[str, Any]]:
    return [{"id": key, "n": key, "price": b"\x01\xe2"} for key in keys]


def test_tables_are_made_and_follow_a_new_schema_in_the_middle_of_an_epoch(
    tmp_path: Path,
    kafka_broker: EmbeddedBroker,
    apicurio: Apicurio,
    ingest_server: IngestServer,
    paimon_java: PaimonJava,
) -> None:
    topic = Topic(apicurio)
    new_topic(kafka_broker, name=topic.name)
    for row in old_rows(range(5)):
        topic.change("orders", BEFORE, "c", row)
        topic.change("items", BEFORE, "c", row)
    topic.messages.append((None, topic.encoded("beat", HEARTBEAT, {"ts_ms": 1})))
    topic.messages.append((b"k", None))
    topic.change("orders", ALTERED, "u", {"id": 1, "n": 2**40, "price": None, "note": "long"})
    topic.change("orders", BEFORE, "d", {"id": 2, "n": 2, "price": None})
    topic.send(kafka_broker)
    conf = write_conf(
        tmp_path / "job.toml",
        source={
            "bootstrap-servers": kafka_broker.bootstrap,
            "topics": [topic.name],
            "format": "debezium-avro",
            "debezium.schema.registry.url": apicurio.url,
        },
        sync={"warehouse": str(tmp_path / "warehouse"), "database": "ods"},
        stream={"checkpoint": str(tmp_path / "checkpoint"), "trigger": "availableNow"},
        spark={"spark.master": "local[2]"},
    )
    result = ingest_server.run(conf)
    assert result.code == 0, result.output
    topic.change("orders", ALTERED, "c", {"id": 9, "n": 9, "price": b"\x05", "note": None})
    topic.change("orders", ALTERED, "u", {"id": 4, "n": 4, "price": b"\x05", "note": "later"})
    topic.send(kafka_broker)
    result = ingest_server.run(conf)
    assert result.code == 0, result.output

    def read(table: str) -> list[dict[str, Any]]:
        rows = paimon_java.read(tmp_path / "warehouse" / "ods.db" / table)
        return sorted(({**row} for row in rows), key=lambda row: row["id"])

    assert [(row["id"], row["n"], str(row["price"]), row["note"]) for row in read("orders")] == [
        (0, 0, "4.82", None),
        (1, 2**40, "None", "long"),
        (3, 3, "4.82", None),
        (4, 4, "0.05", "later"),
        (9, 9, "0.05", None),
    ]
    assert [(row["id"], row["n"]) for row in read("items")] == [(n, n) for n in range(5)]
    alone = Topic(apicurio)
    new_topic(kafka_broker, name=alone.name)
    alone.change("orders", ALTERED, "c", {"id": 1, "n": 1, "price": None, "note": None})
    alone.send(kafka_broker)
    command = [sys.executable, "-m", "stream_app", "init", "--from-topic", alone.name]
    query = subprocess.run(
        [*command, "--conf", str(conf)], capture_output=True, text=True, check=False
    )
    assert query.returncode == 0, query.stderr
    assert apicurio.url in query.stdout
    for column in ("id BIGINT NOT NULL", "n BIGINT", "price DECIMAL(9, 2)", "note STRING"):
        assert column in query.stdout
