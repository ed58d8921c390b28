"""Messages in a registry's wire format, of values that stand as JSON."""

from __future__ import annotations

import json
import struct
from typing import Any

from tests.support.brokers.schema_registry import Registry, encoded


def encoded_json(registry: Registry, number: int, value: Any) -> bytes:
    """A message of the schema of a number; a text that begins with 0x is bytes."""
    answer = registry.schemas[number]
    match answer.get("schemaType", "AVRO"):
        case "AVRO":
            schema = json.loads(_with_references(registry, answer))
            return encoded(number, schema, _with_bytes(value))
        case _:
            return struct.pack(">BI", 0, number) + json.dumps(value).encode()


def _with_bytes(value: Any) -> Any:
    if isinstance(value, str) and value.startswith("0x"):
        return bytes.fromhex(value.removeprefix("0x"))
    if isinstance(value, dict):
        return {name: _with_bytes(one) for name, one in value.items()}
    return [*map(_with_bytes, value)] if isinstance(value, list) else value


def _with_references(registry: Registry, answer: dict[str, Any]) -> str:
    """The schema with the references that the test has written out, at their first use."""
    text: str = answer["schema"]
    for reference in answer.get("references", ()):
        inner = registry.subjects[f"/subjects/{reference['subject']}/versions/1"]
        definition = _with_references(registry, inner)
        text = text.replace(f'"{reference["name"]}"', definition, 1)
    return text
