"""One message of Avro → the JSON that Kafka Connect's JsonConverter would have written.

For the slow path: `debezium_json`'s verdict on that JSON is the verdict on the message.

Source: Kafka Connect `json/JsonConverter.java`.
"""

from __future__ import annotations

import base64
import io
import json
import math
from functools import lru_cache
from typing import Any

import fastavro

from stream_app.cdc.debezium.avro.avro_schema import parse_schema, raw_schema
from stream_app.cdc.debezium.avro.wire_format import HEAD
from stream_app.cdc.record_images import UnreadableRecordError


@lru_cache(maxsize=256)
def _schema(text: str) -> Any:
    parse_schema(text)  # fastavro's reader, which is C, neither counts items nor looks at its depth
    try:
        return fastavro.parse_schema(raw_schema(text))
    except Exception as error:  # whatever its parser stumbles over
        raise UnreadableRecordError(f"has a schema that is not Avro's: {error}") from None


def json_of(message: bytes, schema: str) -> bytes:
    """The JSON of a message.

    Raises:
        UnreadableRecordError: it is no value of its schema.
    """
    body = io.BytesIO(message[HEAD.size :])
    number = HEAD.unpack_from(message)[1]
    try:
        value = fastavro.schemaless_reader(body, _schema(schema), None)
        rest = len(message) - HEAD.size - body.tell()
    except UnreadableRecordError:
        raise
    except Exception as error:  # each fault of the bytes has an exception of its own
        said = f"{type(error).__name__}: {error}"[:120]
        raise UnreadableRecordError(f"is not Avro of schema {number}: {said}") from None
    if rest:
        raise UnreadableRecordError(f"is not Avro of schema {number}: {rest} bytes too many")
    return json.dumps(_plain(value), ensure_ascii=False, separators=(",", ":")).encode()


def _plain(value: Any) -> Any:
    """A value as JSON has it; calls itself at each level of the schema."""
    match value:
        case bytes():
            return base64.b64encode(value).decode()
        case float() if not math.isfinite(value):
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        case dict():
            return {name: _plain(item) for name, item in value.items()}
        case list():
            return [_plain(item) for item in value]
        case _:
            return value
