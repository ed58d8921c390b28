"""A job reads rows of each schema language from a real registry, and Paimon reads its table."""

from __future__ import annotations

import json
import struct
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from stream_app.app.launch.embedded_broker import EmbeddedBroker
from stream_app.cdc.schema_registry_port import RegisteredSchema
from tests.support.brokers.kafka_broker import new_topic, produce
from tests.support.brokers.schema_registry import confluent_message
from tests.support.jobs.ingest_process import write_conf
from tests.support.jobs.ingest_server import IngestServer
from tests.support.judges.paimon_java import PaimonJava
from tests.support.messages.registered_messages import protobuf_bytes
from tests.testbed.servers.apicurio import Apicurio

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.java, pytest.mark.slow]
KEY = {"type": "record", "name": "Key", "fields": [{"name": "id", "type": "long"}]}
PERSON = {
    "type": "record",
    "name": "Person",
    "namespace": "shop",
    "fields": [{"name": "name", "type": "string"}],
}
FIELDS = [{"name": "id", "type": "long"}, {"name": "by", "type": "shop.Person"}]
MORE = {"name": "at", "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}]}


@dataclass
class _AvroTopic:
    """Rows with keys, by two versions of a schema that refers to another."""

    registry: Apicurio
    name: str
    format: str = "avro"
    zeros: int = 2
    messages: list[tuple[bytes | None, bytes | None]] = field(default_factory=list)

    @property
    def address(self) -> str:
        return self.registry.url

    def key(self, key: int) -> bytes:
        return confluent_message(self.registry.add(f"{self.name}-key", KEY), KEY, {"id": key})

    def row(self, key: int, *more: dict[str, Any], **values: Any) -> None:
        person = f"{self.name}-person"
        self.registry.add(person, PERSON)
        references = [{"name": "shop.Person", "subject": person, "version": 1}]
        schema = {"type": "record", "name": "Order", "fields": [*FIELDS, *more]}
        number = self.registry.add(f"{self.name}-value", schema, references=references)
        whole = json.loads(json.dumps(schema).replace('"shop.Person"', json.dumps(PERSON), 1))
        value = confluent_message(number, whole, {"id": key, "by": {"name": f"n{key}"}, **values})
        self.messages.append((self.key(key), value))

    def old(self, key: int) -> None:
        self.row(key)

    def new(self, key: int) -> None:
        self.row(key, MORE, at=1709251199123)


@dataclass
class _JsonTopic(_AvroTopic):
    """The same rows as JSON behind the number of a JSON Schema."""

    format: str = "json-schema"

    def key(self, key: int) -> bytes:
        return self._framed("key", {"id": {"type": "integer"}}, {"id": key})

    def row(self, key: int, *more: dict[str, Any], **values: Any) -> None:
        by = {"type": "object", "properties": {"name": {"type": "string"}}}
        properties = {"id": {"type": "integer"}, "by": by}
        if more:
            properties["at"] = {"type": "string", "format": "date-time"}
            values["at"] = "2024-02-29T23:59:59.123Z"
        row = {"id": key, "by": {"name": f"n{key}"}, **values}
        self.messages.append((self.key(key), self._framed("value", properties, row)))

    def _framed(self, subject: str, properties: dict[str, Any], value: Any) -> bytes:
        schema = {"type": "object", "properties": properties}
        number = self.registry.add(f"{self.name}-{subject}", schema, schemaType="JSON")
        return struct.pack(">BI", 0, number) + json.dumps(value).encode()


@dataclass
class _ApicurioTopic(_AvroTopic):
    """The same bytes as Apicurio's serializers of version 2 write, by numbers of its interface."""

    zeros: int = 6

    @property
    def address(self) -> str:
        return f"{self.registry.server}/apis/registry/v2"

    def key(self, key: int) -> bytes:
        return self._wide("key", 1, super().key(key))

    def row(self, key: int, *more: dict[str, Any], **values: Any) -> None:
        super().row(key, *more, **values)
        _, value = self.messages.pop()
        assert value is not None
        self.messages.append((self.key(key), self._wide("value", 2 if more else 1, value)))

    def _wide(self, subject: str, version: int, message: bytes) -> bytes:
        number = self.registry.numbers(f"{self.name}-{subject}", version)["globalId"]
        return struct.pack(">BQ", 0, number) + message[5:]


KEY_PROTO = 'syntax = "proto3"; message Key { int64 id = 1; }'
ROW_PROTO = """
syntax = "proto3";
import "google/protobuf/timestamp.proto";
message Unused { int64 id = 1; }
message Order {
  message Person { string name = 1; }
  int64 id = 1;
  Person by = 2;
  %s
}
"""


@dataclass
class _ProtobufTopic(_AvroTopic):
    """The same rows as Protobuf, the second type of a schema."""

    format: str = "protobuf"

    def key(self, key: int) -> bytes:
        return self._message("key", KEY_PROTO, [0], {"id": key})

    def row(self, key: int, *more: dict[str, Any], **values: Any) -> None:
        text = ROW_PROTO % ("google.protobuf.Timestamp at = 3;" if more else "")
        if more:
            values["at"] = "2024-02-29T23:59:59.123Z"
        row = {"id": key, "by": {"name": f"n{key}"}, **values}
        self.messages.append((self.key(key), self._message("value", text, [1], row)))

    def _message(self, subject: str, text: str, path: list[int], value: Any) -> bytes:
        number = self.registry.add(f"{self.name}-{subject}", text, schemaType="PROTOBUF")
        return protobuf_bytes(RegisteredSchema(number, "PROTOBUF", text), path, value)


TOPICS = {
    "avro": _AvroTopic,
    "json-schema": _JsonTopic,
    "protobuf": _ProtobufTopic,
    "apicurio": _ApicurioTopic,
}


@pytest.mark.parametrize("name", TOPICS)
def test_a_topic_becomes_a_table_that_follows_its_schema(
    name: str,
    tmp_path: Path,
    kafka_broker: EmbeddedBroker,
    apicurio: Apicurio,
    ingest_server: IngestServer,
    paimon_java: PaimonJava,
) -> None:
    topic = TOPICS[name](apicurio, f"rows{uuid.uuid4().hex[:8]}")
    new_topic(kafka_broker, name=topic.name)
    for key in range(4):
        topic.old(key)
    topic.messages += [
        (topic.key(2), None),
        (topic.key(3), b"\x00" * topic.zeros + b"\x7f\xff\xff\x01"),
    ]
    topic.new(1)
    topic.old(5)
    produce(kafka_broker, topic.name, topic.messages)
    conf = write_conf(
        tmp_path / "job.toml",
        source={
            "bootstrap-servers": kafka_broker.bootstrap,
            "topics": [topic.name],
            "format": topic.format,
            f"{topic.format}.schema.registry.url": topic.address,
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
    table = tmp_path / "warehouse" / "ods.db" / topic.name
    rows = sorted(({**row} for row in paimon_java.read(table)), key=lambda row: row["id"])
    assert [(row["id"], row["by"], str(row["at"])[:19]) for row in rows] == [
        (0, '{"name":"n0"}', "None"),
        (1, '{"name":"n1"}', "2024-02-29T23:59:59"),
        (3, '{"name":"n3"}', "None"),
        (5, '{"name":"n5"}', "None"),
    ]
    assert "1 no-schema" in result.output
