"""Splits the schema envelope ``{"schema":…,"payload":…}``, and reads its columns' types.

Called by `debezium_json` for converters with ``schemas.enable=true``. Such a message is mostly
schema, and all messages of one version of a table begin with the very same bytes. So each distinct
prefix is parsed once, and removed from other messages by comparing bytes.

`apply_schema` says how a column's values are read, once for each schema. A semantic type has a
meaning in some types of columns: there it is converted. In a column of numbers or text it stands as
it was sent. Anywhere else its records are bad, because whatever was stored would be a guess. So are
whole numbers without a semantic type in a column of times.

Source: Kafka Connect `json/JsonConverter.java`, `data/{Date,Time,Timestamp,Decimal}.java`, Debezium
`time/*.java`, `data/Bits.java`, `data/VariableScaleDecimal.java`; for the order of the bytes of
Bits, Paimon's `flink/action/cdc/format/debezium/DebeziumSchemaUtils.java`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from stream_app.arrow_buffers import bools_of
from stream_app.cdc.change_batch import present_values
from stream_app.cdc.columns.column_reading import ColumnReading, Encoding, Family
from stream_app.cdc.columns.nesting import nests_too_deeply
from stream_app.cdc.json_records.documents import no_constant
from stream_app.cdc.source_types.connect import (
    BITS,
    CONNECT,
    DECIMAL,
    SOURCE_TYPE,
    TIME,
    VARIABLE_SCALE,
)

_START = b'{"schema":'
_PAYLOAD = b',"payload":'
_DECODER = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=no_constant)
SCHEMAS_MAX = 64
"""Schemas of which messages are decoded together, in a batch and from batch to batch."""
_COUNTS = frozenset({"int8", "int16", "int32", "int64"})
_SINGLE = frozenset({"float", "float32"})
_SCALE_MAX = 1000
_TEXT_TYPES = frozenset({"CHAR", "VARCHAR", "TINYTEXT", "TEXT", "MEDIUMTEXT", "LONGTEXT"})

_CLOCK = frozenset({Family.TIME})
_INSTANT = frozenset({Family.DATE, Family.TIMESTAMP})
_TIMES: dict[str, tuple[Encoding, frozenset[Family]]] = {
    CONNECT + "Date": (Encoding.EPOCH_DAYS, _INSTANT),
    TIME + "Date": (Encoding.EPOCH_DAYS, _INSTANT),
    TIME + "IsoDate": (Encoding.ISO, _INSTANT),
    CONNECT + "Time": (Encoding.EPOCH_MILLIS, _CLOCK),
    TIME + "Time": (Encoding.EPOCH_MILLIS, _CLOCK),
    TIME + "MicroTime": (Encoding.EPOCH_MICROS, _CLOCK),
    TIME + "NanoTime": (Encoding.EPOCH_NANOS, _CLOCK),
    TIME + "IsoTime": (Encoding.ISO, _CLOCK),
    TIME + "ZonedTime": (Encoding.ISO, _CLOCK),
    CONNECT + "Timestamp": (Encoding.EPOCH_MILLIS, _INSTANT),
    TIME + "Timestamp": (Encoding.EPOCH_MILLIS, _INSTANT),
    TIME + "MicroTimestamp": (Encoding.EPOCH_MICROS, _INSTANT),
    TIME + "NanoTimestamp": (Encoding.EPOCH_NANOS, _INSTANT),
    TIME + "IsoTimestamp": (Encoding.ISO, frozenset({Family.TIMESTAMP})),
    TIME + "ZonedTimestamp": (Encoding.ISO, frozenset({Family.TIMESTAMP})),
}
"""Semantic types with an encoding, and the families of columns in which they mean something.

The others (Year, Interval, MicroDuration, NanoDuration, …) are no date and no time of day.
"""

_FINE_TIMES = {
    TIME + "MicroTime": Encoding.EPOCH_MICROS,
    TIME + "NanoTime": Encoding.EPOCH_NANOS,
}
"""Times of day that Paimon's TIME cannot hold."""

_TIME_FAMILIES = frozenset({Family.DATE, Family.TIME, Family.TIMESTAMP})
_AS_SENT = frozenset({Family.INTEGER, Family.FLOAT, Family.DECIMAL, Family.STRING})
"""Families that take a count or an ISO text for what it is."""


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

    Each schema costs a pass over the remaining messages. After `SCHEMAS_MAX` schemas the rest keep
    theirs, and each is read as a message of its own.

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
    schemas_left = SCHEMAS_MAX
    while len(rest):
        if not schemas_left:
            plain[rest_index] = True
            break
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
        schemas_left -= 1
    if plain.any():
        others, index = _pick(values, everything, plain)
        yield PayloadGroup(index, others, b"")


def split_messages(messages: pa.RecordBatch) -> Iterator[PayloadGroup]:
    """`split_envelopes` of the values that are no tombstones; `index` has positions of messages."""
    values, present = present_values(messages)
    for group in split_envelopes(values, {}):
        yield replace(group, index=present[group.index])


def _pick(
    values: pa.Array, index: npt.NDArray[np.int32], mask: npt.NDArray[np.bool_]
) -> tuple[pa.Array, npt.NDArray[np.int32]]:
    if mask.all():
        return values, index
    return values.filter(pa.array(mask)), index[mask]


def _prefix_of(value: bytes, schemas: dict[bytes, Mapping[str, ConnectField]]) -> bytes | None:
    """The bytes before the payload, or None without an envelope; adds the schema to `schemas`."""
    for prefix in schemas:
        if value.startswith(prefix) and value.endswith(b"}"):
            return prefix
    try:
        text = value.decode()
        schema, end = _DECODER.raw_decode(text, len(_START))
    except (ValueError, RecursionError):
        return None
    prefix = text[:end].encode() + _PAYLOAD
    if not (value.startswith(prefix) and value.endswith(b"}")) or nests_too_deeply(prefix):
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
            str(field.get("type", "")),
            str(field.get("name", "")),
            _parameters(field),
            optional=field.get("optional") is not False,
            comment=str(field.get("doc") or ""),
            has_default=field.get("default") is not None,
        )
        for field in fields
    }


def has_columns(schema: Any) -> bool:
    """Whether it is a row's schema, and not one of a heartbeat, transaction or logical message."""
    names = {field.get("field") for field in _fields(schema)}
    return not names.isdisjoint({"before", "after"}) or not (
        "op" in names or "status" in names or names <= {"ts_ms", "ts_us", "ts_ns"}
    )


def _fields(schema: Any) -> list[dict[str, Any]]:
    fields = schema.get("fields") if isinstance(schema, dict) else None
    return (
        [field for field in fields if isinstance(field, dict)] if isinstance(fields, list) else []
    )


def _parameters(field: dict[str, Any]) -> Mapping[str, str]:
    parameters = field.get("parameters")
    return parameters if isinstance(parameters, dict) else {}


@dataclass(frozen=True, slots=True)
class ConnectField:
    """A column as the schema describes it: literal type, semantic name, parameters.

    Attributes:
        optional: whether it may be null.
        comment: the column's, with ``include.schema.comments`` of the connector; empty: none.
        has_default: whether it has a DEFAULT that is not null.
    """

    literal: str
    semantic: str
    parameters: Mapping[str, str]
    optional: bool = True
    comment: str = ""
    has_default: bool = False


def apply_schema(
    readings: tuple[ColumnReading, ...],
    fields: Mapping[str, ConnectField],
    chosen: Mapping[str, Encoding],
    *,
    sends_bytes: bool = True,
    writes_times: bool = False,
) -> tuple[ColumnReading, ...]:
    """The readings with the encodings of the schema.

    Args:
        chosen: encodings that the user has set by column; they win.
        sends_bytes: whether the connector is said to send bytes as bytes; else as some text.
        writes_times: whether a STRING gets a time of day as people write it; else its count.
    """

    def read_by_schema(reading: ColumnReading) -> ColumnReading:
        field = fields.get(reading.name)
        if field is None:
            return reading
        is_chosen = reading.name in chosen
        if not is_chosen and sends_bytes and _is_text_of_bytes(reading, field):
            return reading.refusing(
                "is text in the message's schema, and binary.handling.mode is bytes: it is "
                "base64, base64-url-safe or hex at the connector, or another type "
                f"(column.{reading.name}.encoding can tell it)"
            )
        written = _FINE_TIMES.get(field.semantic) if writes_times and not is_chosen else None
        if written is not None and reading.family is Family.STRING:
            return reading.with_encoding(written)
        return _as_field_says(reading, field, is_chosen=is_chosen)

    return tuple(map(read_by_schema, readings))


def _is_text_of_bytes(reading: ColumnReading, field: ConnectField) -> bool:
    """Whether the text may be base64 or hexadecimal; only the connector's mode decides which."""
    is_text = field.literal == "string" and field.parameters.get(SOURCE_TYPE) not in _TEXT_TYPES
    return is_text and reading.family is Family.BINARY and not field.semantic


def _as_field_says(
    reading: ColumnReading, field: ConnectField, *, is_chosen: bool
) -> ColumnReading:
    family = reading.family
    if is_chosen:
        has_scale = field.semantic == DECIMAL and reading.encoding is Encoding.BASE64
        return _unscaled_decimal(reading, field) if has_scale else reading
    if field.semantic in (DECIMAL, VARIABLE_SCALE):
        if family not in _AS_SENT:
            return _refusing(reading, field)
        if field.semantic == DECIMAL:
            return _unscaled_decimal(reading, field)
        return reading.with_encoding(Encoding.NUMBER)
    is_bare_count = field.literal in _COUNTS and not field.semantic
    if field.semantic.startswith((TIME, CONNECT)) or (is_bare_count and family in _TIME_FAMILIES):
        return _time_as_field_says(reading, field)
    if field.literal == "bytes":
        return _bytes_as_field_says(reading, field)
    if family is Family.BINARY and field.parameters.get(SOURCE_TYPE) in _TEXT_TYPES:
        return reading.with_encoding(Encoding.TEXT)  # longtext-to-bytes
    # Neither bytes nor a Decimal: text in a DECIMAL column is the number's own digits.
    encoding = Encoding.TEXT if family is Family.DECIMAL else reading.encoding
    if family is Family.FLOAT and field.literal in _SINGLE:
        encoding = Encoding.FLOAT32
    return reading.with_encoding(encoding)


def _time_as_field_says(reading: ColumnReading, field: ConnectField) -> ColumnReading:
    if reading.family in _AS_SENT:
        return reading.with_encoding(Encoding.TEXT)
    encoding, families = _TIMES.get(field.semantic, (Encoding.TEXT, frozenset()))
    return (
        reading.with_encoding(encoding) if reading.family in families else _refusing(reading, field)
    )


def _bytes_as_field_says(reading: ColumnReading, field: ConnectField) -> ColumnReading:
    match reading.family:
        case Family.BINARY:
            is_bits = field.semantic == BITS
            return reading.with_encoding(
                Encoding.BASE64_LITTLE_ENDIAN if is_bits else Encoding.BASE64
            )
        case Family.STRING:
            return reading
        case _:
            return _refusing(reading, field)


def _unscaled_decimal(reading: ColumnReading, field: ConnectField) -> ColumnReading:
    text = str(field.parameters.get("scale", ""))
    digits = text.removeprefix("-")
    if digits.isascii() and digits.isdigit() and len(digits) < 5 and int(digits) <= _SCALE_MAX:
        return reading.with_encoding(Encoding.BASE64, int(text))
    shown = repr(text[:40]) if text else "none"
    return reading.refusing(
        f"is an {DECIMAL} whose schema has no scale that can be read (scale: {shown})"
    )


def _refusing(reading: ColumnReading, field: ConnectField) -> ColumnReading:
    name, hint = field.semantic, ""
    is_count = not name and field.literal in _COUNTS
    if reading.family in _TIME_FAMILIES and (is_count or name.startswith(TIME)):
        hint = f" (column.{reading.name}.encoding can tell another)"
    what = f"{'an' if name[0] in 'aeio' else 'a'} {name}" if name else "bytes"
    if is_count:
        what = f"an {field.literal} without a semantic type"
    return reading.refusing(
        f"is {what} in the message's schema, which has no meaning in the column{hint}"
    )
