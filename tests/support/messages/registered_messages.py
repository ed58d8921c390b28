"""Messages in a registry's wire format, of values that stand as JSON."""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from typing import Any

from google.protobuf import json_format

from stream_app.cdc.schema_registry_port import RegisteredSchema
from stream_app.cdc.wire.protobuf.protobuf_schemas import message_class
from tests.support.brokers.schema_registry import Registry, confluent_message


def encoded_json(registry: Registry, number: int, value: Any) -> bytes:
    """Return a message of the schema of a number; a text that begins with 0x is bytes."""
    answer = registry.schemas[number]
    match answer.get("schemaType", "AVRO"):
        case "AVRO":
            schema = json.loads(_with_references(registry, answer))
            return confluent_message(number, schema, _with_bytes(value))
        case "PROTOBUF":
            return protobuf_message(registry, number, value)
        case _:
            return struct.pack(">BI", 0, number) + json.dumps(value).encode()


def protobuf_message(registry: Registry, number: int, value: Any) -> bytes:
    """Return a message of Protobuf, of the type whose indexes a list before the value tells."""
    path, fields = value if isinstance(value, list) else ([0], value)
    answer = registry.schemas[number]
    references = tuple(
        (
            reference["name"],
            registry.subjects[f"/subjects/{reference['subject']}/versions/1"]["schema"],
        )
        for reference in answer.get("references", ())
    )
    return protobuf_bytes(
        RegisteredSchema(number, "PROTOBUF", answer["schema"], references), path, fields
    )


def protobuf_bytes(schema: RegisteredSchema, path: list[int], fields: Any) -> bytes:
    """Return a message as Confluent's serializer writes it."""
    message_type = message_class(One(schema), schema.schema_number, path)
    body = json_format.ParseDict(
        fields, message_type(), ignore_unknown_fields=False
    ).SerializeToString()
    indexes = b"\0" if path == [0] else bytes([2 * len(path), *(2 * index for index in path)])
    return struct.pack(">BI", 0, schema.schema_number) + indexes + bytes(body)


def protobuf_body(text: str, fields: Any) -> bytes:
    """Return a message of the first type of a schema, without the number of that."""
    return protobuf_bytes(RegisteredSchema(1, "PROTOBUF", text), [0], fields)[5:]


@dataclass(frozen=True)
class One:
    """A registry of one schema."""

    registered_schema: RegisteredSchema

    def schema_number_of(self, guid: bytes) -> int:
        """Return the number of the schema, whatever its GUID is."""
        assert guid
        return self.registered_schema.schema_number

    def schema(self, schema_number: int) -> RegisteredSchema:
        """Return the schema."""
        assert schema_number == self.registered_schema.schema_number
        return self.registered_schema


def _with_bytes(value: Any) -> Any:
    if isinstance(value, str) and value.startswith("0x"):
        return bytes.fromhex(value.removeprefix("0x"))
    if isinstance(value, dict):
        return {name: _with_bytes(item) for name, item in value.items()}
    return [*map(_with_bytes, value)] if isinstance(value, list) else value


def _with_references(registry: Registry, answer: dict[str, Any]) -> str:
    """Return the schema with the references that the test has written out, at their first use."""
    text: str = answer["schema"]
    for reference in answer.get("references", ()):
        inner = registry.subjects[f"/subjects/{reference['subject']}/versions/1"]
        definition = _with_references(registry, inner)
        text = text.replace(f'"{reference["name"]}"', definition, 1)
    return text
