"""The schema envelope: ``{"schema":…,"payload":…}`` → the payload, and its columns' encodings.

Called by `debezium_json` for converters with ``schemas.enable=true``. Such a message is mostly
schema, and all messages of one version of a table begin with the very same bytes: the schema is
parsed once for each distinct prefix, and cut off the rest by comparing bytes.

Source: Kafka Connect `json/JsonConverter.java` (the envelope), Debezium `time/*.java` and
`data/VariableScaleDecimal.java` (semantic type names).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from stream_app.cdc.arrow_buffers import bools_of
from stream_app.cdc.column_reading import ColumnReading, Encoding, Family

_START = b'{"schema":'
_PAYLOAD = b',"payload":'
_TIME = "io.debezium.time."
_CONNECT = "org.apache.kafka.connect.data."
_ENCODINGS: dict[str, Encoding] = {
    _TIME + "Date": Encoding.EPOCH_DAYS,
    _TIME + "Time": Encoding.EPOCH_MILLIS,
    _TIME + "MicroTime": Encoding.EPOCH_MICROS,
    _TIME + "NanoTime": Encoding.EPOCH_NANOS,
    _TIME + "Timestamp": Encoding.EPOCH_MILLIS,
    _TIME + "MicroTimestamp": Encoding.EPOCH_MICROS,
    _TIME + "NanoTimestamp": Encoding.EPOCH_NANOS,
    _CONNECT + "Date": Encoding.EPOCH_DAYS,
    _CONNECT + "Time": Encoding.EPOCH_MILLIS,
    _CONNECT + "Timestamp": Encoding.EPOCH_MILLIS,
    _CONNECT + "Decimal": Encoding.BASE64,
    **{
        _TIME + name: Encoding.ISO
        for name in ("ZonedTimestamp", "ZonedTime", "IsoDate", "IsoTime", "IsoTimestamp")
    },
}
_TIME_FAMILIES = frozenset({Family.DATE, Family.TIME, Family.TIMESTAMP})


@dataclass(frozen=True, slots=True)
class ConnectField:
    """What the schema says of one column: literal type, semantic name, parameters."""

    literal: str
    semantic: str
    parameters: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class PayloadGroup:
    """Messages with one schema.

    Attributes:
        index: positions of the messages in what was split.
        payloads: their payloads, binary.
        prefix: the bytes before the payload, a key of the parsed schemas; empty: no envelope.
    """

    index: npt.NDArray[np.int32]
    payloads: pa.Array
    prefix: bytes


def split_envelopes(
    values: pa.Array, schemas: dict[bytes, Mapping[str, ConnectField]]
) -> Iterator[PayloadGroup]:
    """Group messages by the bytes of their schema; those without one are the last group.

    Args:
        values: binary, without nulls.
        schemas: parsed schemas by prefix, kept by the caller from batch to batch.
    """
    everything = np.arange(len(values), dtype=np.int32)
    enveloped = bools_of(pc.starts_with(values, pattern=_START))
    if not enveloped.any():
        yield PayloadGroup(everything, values, b"")
        return
    plain = ~enveloped
    rest, rest_index = _pick(values, everything, enveloped)
    while len(rest):
        prefix = _prefix_of(rest[0].as_py(), schemas)
        if prefix is None:
            # Not the envelope it looks like: to be judged as a message of its own.
            plain[rest_index[0]] = True
            rest, rest_index = rest.slice(1), rest_index[1:]
            continue
        ours = bools_of(pc.starts_with(rest, pattern=prefix))
        ours &= bools_of(pc.ends_with(rest, pattern=b"}"))
        payloads, index = _pick(rest, rest_index, ours)
        yield PayloadGroup(index, pc.binary_slice(payloads, len(prefix), -1), prefix)
        rest, rest_index = _pick(rest, rest_index, ~ours)
    if plain.any():
        others, index = _pick(values, everything, plain)
        yield PayloadGroup(index, others, b"")


def _pick(
    values: pa.Array, index: npt.NDArray[np.int32], mask: npt.NDArray[np.bool_]
) -> tuple[pa.Array, npt.NDArray[np.int32]]:
    if mask.all():
        return values, index
    return values.filter(pa.array(mask)), index[mask]


def _prefix_of(value: bytes, schemas: dict[bytes, Mapping[str, ConnectField]]) -> bytes | None:
    """The bytes up to the payload; its schema is put into `schemas`. None: no envelope."""
    for prefix in schemas:
        if value.startswith(prefix) and value.endswith(b"}"):
            return prefix
    try:
        text = value.decode()
        schema, end = json.JSONDecoder().raw_decode(text, len(_START))
    except (ValueError, RecursionError):
        return None
    prefix = text[:end].encode() + _PAYLOAD
    if not (value.startswith(prefix) and value.endswith(b"}")):
        return None
    schemas[prefix] = connect_fields(schema)
    return prefix


def connect_fields(schema: Any) -> Mapping[str, ConnectField]:
    """The columns that a Connect schema describes: those of `after`, or of the flat record."""
    fields = _fields(schema)
    for field in fields:
        if field.get("field") in ("after", "before") and field.get("type") == "struct":
            return connect_fields(field)
    return {
        str(field.get("field")): ConnectField(
            str(field.get("type", "")), str(field.get("name", "")), _parameters(field)
        )
        for field in fields
    }


def _fields(schema: Any) -> list[dict[str, Any]]:
    fields = schema.get("fields") if isinstance(schema, dict) else None
    return (
        [field for field in fields if isinstance(field, dict)] if isinstance(fields, list) else []
    )


def _parameters(field: dict[str, Any]) -> Mapping[str, str]:
    parameters = field.get("parameters")
    return parameters if isinstance(parameters, dict) else {}


def apply_schema(
    readings: tuple[ColumnReading, ...],
    fields: Mapping[str, ConnectField],
    chosen: Mapping[str, Encoding],
) -> tuple[ColumnReading, ...]:
    """The readings with the encodings that the schema tells.

    Args:
        chosen: encodings that the user has set by column; they win.
    """
    return tuple(
        reading
        if reading.name in chosen or reading.name not in fields
        else _told(reading, fields[reading.name])
        for reading in readings
    )


def _told(reading: ColumnReading, field: ConnectField) -> ColumnReading:
    encoding = _ENCODINGS.get(field.semantic)
    family = reading.family
    if field.semantic == _CONNECT + "Decimal" and family in (Family.DECIMAL, Family.INTEGER):
        scale = str(field.parameters.get("scale", "0"))
        digits = scale.removeprefix("-")
        known = digits.isascii() and digits.isdigit() and len(digits) < 5
        return reading.with_encoding(Encoding.BASE64, int(scale) if known else 0)
    if family in _TIME_FAMILIES and encoding is not None and encoding is not Encoding.BASE64:
        return reading.with_encoding(encoding)
    if family is Family.DECIMAL:
        return reading.with_encoding(Encoding.TEXT)
    if family is Family.BINARY and field.literal == "bytes":
        return reading.with_encoding(Encoding.BASE64)
    return reading
