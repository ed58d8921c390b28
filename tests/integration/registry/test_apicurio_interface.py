"""Schemas come through Apicurio's own interface, versions 2 and 3, from a real server."""

from __future__ import annotations

import json
import struct
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from stream_app.errors import UsageError
from tests.support.brokers.schema_registry import confluent_message
from tests.support.messages.avro_events import batch
from tests.support.messages.debezium_messages import a_format, reasons_of, rows_of
from tests.support.messages.registered_messages import protobuf_body
from tests.testbed.servers.apicurio import Apicurio

pytestmark = [pytest.mark.java, pytest.mark.slow]
PERSON = {
    "type": "record",
    "name": "Person",
    "namespace": "shop",
    "fields": [{"name": "name", "type": "string"}],
}
ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "by", "type": "shop.Person"}],
}
OF_JSON = {"type": "object", "properties": {"id": {"type": "integer"}, "by": {"type": "string"}}}
PROTO = 'syntax = "proto3"; message Order { int64 id = 1; string by = 2; }'


def avro(registry: Apicurio, subject: str) -> bytes:
    registry.add(f"{subject}-person", PERSON)
    references = [{"name": "shop.Person", "subject": f"{subject}-person", "version": 1}]
    registry.add(subject, ORDER, references=references)
    whole = json.loads(json.dumps(ORDER).replace('"shop.Person"', json.dumps(PERSON), 1))
    return confluent_message(1, whole, {"id": 1, "by": {"name": "Ada"}})[5:]


def of_json(registry: Apicurio, subject: str) -> bytes:
    registry.add(subject, OF_JSON, schemaType="JSON")
    return b'{"id":1,"by":"Ada"}'


def protobuf(registry: Apicurio, subject: str) -> bytes:
    registry.add(subject, PROTO, schemaType="PROTOBUF")
    return protobuf_body(PROTO, {"id": 1, "by": "Ada"})


WRITERS: dict[str, Callable[[Apicurio, str], bytes]] = {
    "avro": avro,
    "json-schema": of_json,
    "protobuf": protobuf,
}


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize(
    ("version", "kind", "head", "options"),
    [
        (2, "globalId", ">BQ", {}),
        (3, "contentId", ">BI", {}),
        (3, "globalId", ">BI", {"apicurio.registry.use-id": "globalId"}),
        (3, "contentId", ">BQ", {"apicurio.registry.id-handler": "Legacy8ByteIdHandler"}),
        (2, "globalId", ">BI", {"apicurio.registry.id-handler": "Default4ByteIdHandler"}),
    ],
)
def test_rows_are_read_by_the_numbers_of_its_serializers(
    apicurio: Apicurio, name: str, version: int, kind: str, head: str, options: dict[str, str]
) -> None:
    subject = f"s{uuid.uuid4().hex}"
    WRITERS[name](apicurio, f"{subject}-again")  # the same content has another global number
    body = WRITERS[name](apicurio, subject)
    number = apicurio.numbers(subject, 1)[kind]
    url = f"{apicurio.server}/apis/registry/v{version}"
    settings = {"schema.registry.url": url, **options}
    decoder = a_format("id BIGINT, by STRING", name=name, options=settings)
    values = [struct.pack(head, 0, number) + body, struct.pack(head, 0, 10**6) + body, b"\0\1\2"]
    decoded_batch = decoder.decode(batch([*values, b"text"]))
    [(position, _, key, by)] = rows_of(decoded_batch)
    assert (position, key) == (0, 1)
    assert "Ada" in by
    reasons = reasons_of(decoded_batch)
    assert reasons[1] == "names schema 1000000, which the schema registry does not have"
    assert reasons[2] == reasons[3]
    assert [record["value"] for record in decoded_batch.bad_records.to_pylist()] == [
        *values[1:],
        b"text",
    ]


def test_a_schema_of_another_language_refuses_its_messages(apicurio: Apicurio) -> None:
    subject = f"s{uuid.uuid4().hex}"
    protobuf(apicurio, subject)
    settings: dict[str, Any] = {"schema.registry.url": f"{apicurio.server}/apis/registry/v3"}
    decoder = a_format("id BIGINT, by STRING", name="avro", options=settings)
    number = apicurio.numbers(subject, 1)["contentId"]
    decoded_batch = decoder.decode(batch([struct.pack(">BI", 0, number) + b"\0"]))
    assert reasons_of(decoded_batch)[0].startswith("has a schema that is not Avro's")


def test_an_unknown_handler_is_refused() -> None:
    settings = {"schema.registry.url": "http://r:1", "apicurio.registry.id-handler": "Other"}
    with pytest.raises(UsageError, match="Legacy8ByteIdHandler"):
        a_format("id BIGINT", name="avro", options=settings)
