"""Reads Confluent's wire format: a zero byte, the schema's number, and the value.

The slow path turns one message into the JSON that Kafka Connect's JsonConverter would have written.
The format `debezium_json` decides by this JSON whether the message is a bad record.

Source: Confluent's "Wire format"; Kafka Connect `json/JsonConverter.java`.
"""

from __future__ import annotations

import base64
import io
import json
import math
import struct
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa

from stream_app.arrow_buffers import Int64s, bytes_of, lengths_of, offsets_of
from stream_app.cdc.bad_reasons import UnreadableRecordError
from stream_app.cdc.schema_registry_port import NO_HEAD
from stream_app.cdc.wire.avro.avro_bytes import check_avro
from stream_app.cdc.wire.avro.avro_types import parse_schema, raw_schema

MAGIC = 0
HEAD = struct.Struct(">BI")


def schema_number_of(message: bytes) -> int:
    """Return the number of a message's schema.

    Raises:
        UnreadableRecordError: the message is not in Confluent's wire format.
    """
    if len(message) < HEAD.size or message[0] != MAGIC:
        raise UnreadableRecordError(NO_HEAD)
    return int(HEAD.unpack_from(message)[1])


def schema_numbers_of(values: pa.Array) -> Int64s:
    """Return the schema number of each message; -1 if it is not in Confluent's wire format.

    Args:
        values: binary [n] without nulls.
    """
    offsets, data = offsets_of(values).astype(np.int64), bytes_of(values)
    schema_numbers: Int64s = np.full(len(values), -1, np.int64)
    indices = np.flatnonzero(lengths_of(values) >= HEAD.size)
    indices = indices[data[offsets[indices]] == MAGIC]
    if len(indices):
        # The number that begins at each byte.
        schema_number_at = np.ndarray(len(data) - 3, ">u4", data, strides=(1,))
        schema_numbers[indices] = schema_number_at[offsets[indices] + 1]
    return schema_numbers


def groups_by_value(values: Int64s) -> Iterator[tuple[int, Int64s]]:
    """Yield the positions of each number, ascending, in one sort for any count of numbers.

    Args:
        values: int64 [n].
    """
    if not len(values):
        return
    if (values == values[0]).all():
        yield int(values[0]), np.arange(len(values))
        return
    order = np.argsort(values, kind="stable")
    starts = np.flatnonzero(np.diff(values[order], prepend=values[order[0]] - 1))
    for indices in np.split(order, starts[1:]):  # a loop over schemas
        yield int(values[indices[0]]), indices


@lru_cache(maxsize=256)
def _schema(text: str) -> Any:
    parse_schema(text)  # refuses what fastavro's reader, which is C, does not bound
    try:
        return fastavro.parse_schema(raw_schema(text))
    except Exception as error:  # fastavro raises many kinds of errors
        raise UnreadableRecordError(f"has a schema that is not Avro's: {error}") from None


def avro_as_json(message: bytes, schema: str) -> bytes:
    """Return the JSON of a message.

    Raises:
        UnreadableRecordError: the message is not a value of its schema.
    """
    body = io.BytesIO(message[HEAD.size :])
    schema_number = HEAD.unpack_from(message)[1]
    root = parse_schema(schema)
    try:
        check_avro(root, body.getvalue())
        value = fastavro.schemaless_reader(body, _schema(schema), None)
        excess = len(message) - HEAD.size - body.tell()
    except UnreadableRecordError:
        raise
    except Exception as error:  # each fault of the bytes has an exception of its own
        error_text = f"{type(error).__name__}: {error}"[:120]
        raise UnreadableRecordError(
            f"is not Avro of schema {schema_number}: {error_text}"
        ) from None
    if excess:
        raise UnreadableRecordError(
            f"is not Avro of schema {schema_number}: {excess} bytes too many"
        )
    return json.dumps(_plain_value(value), ensure_ascii=False, separators=(",", ":")).encode()


def _plain_value(value: Any) -> Any:
    """Convert a value to JSON's types; recurses into each level of the schema."""
    match value:
        case bytes():
            return base64.b64encode(value).decode()
        case float() if not math.isfinite(value):
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        case dict():
            return {name: _plain_value(item) for name, item in value.items()}
        case list():
            return [_plain_value(item) for item in value]
        case _:
            return value
