"""Chooses the reading of a column by its Kafka Connect schema.

The schema has a literal type, a semantic type and parameters. Formats whose messages have a schema
call this module once for each schema. A semantic type is converted in
columns whose type matches its meaning. A column of numbers or text gets the value as it was sent.
In other columns the record is bad, because any stored value would be a guess. So is a record with
an integer without a semantic type in a column of times.

Source: Kafka Connect `data/{Date,Time,Timestamp,Decimal}.java`, Debezium `time/*.java`,
`data/Bits.java`, `data/VariableScaleDecimal.java`; for the order of the bytes of Bits, Paimon's
`flink/action/cdc/format/debezium/DebeziumSchemaUtils.java`.
"""

from __future__ import annotations

from collections.abc import Mapping

from stream_app.cdc.columns.column_reading import TIME_FAMILIES, ColumnReading, Encoding, Family
from stream_app.cdc.columns.decimal_columns import SCALE_MAX
from stream_app.cdc.source_types.connect import (
    BITS,
    CONNECT,
    DECIMAL,
    SOURCE_TYPE,
    TIME,
    VARIABLE_SCALE,
)
from stream_app.cdc.source_types.connect_fields import ConnectField

_INTEGER_LITERALS = frozenset({"int8", "int16", "int32", "int64"})
_FLOAT_LITERALS = frozenset({"float", "float32"})
_TEXT_TYPES = frozenset({"CHAR", "VARCHAR", "TINYTEXT", "TEXT", "MEDIUMTEXT", "LONGTEXT"})

_CLOCK_FAMILIES = frozenset({Family.TIME})
_INSTANT_FAMILIES = frozenset({Family.DATE, Family.TIMESTAMP})
_TIME_ENCODINGS: dict[str, tuple[Encoding, frozenset[Family]]] = {
    CONNECT + "Date": (Encoding.EPOCH_DAYS, _INSTANT_FAMILIES),
    TIME + "Date": (Encoding.EPOCH_DAYS, _INSTANT_FAMILIES),
    TIME + "IsoDate": (Encoding.ISO, _INSTANT_FAMILIES),
    CONNECT + "Time": (Encoding.EPOCH_MILLIS, _CLOCK_FAMILIES),
    TIME + "Time": (Encoding.EPOCH_MILLIS, _CLOCK_FAMILIES),
    TIME + "MicroTime": (Encoding.EPOCH_MICROS, _CLOCK_FAMILIES),
    TIME + "NanoTime": (Encoding.EPOCH_NANOS, _CLOCK_FAMILIES),
    TIME + "IsoTime": (Encoding.ISO, _CLOCK_FAMILIES),
    TIME + "ZonedTime": (Encoding.ISO, _CLOCK_FAMILIES),
    CONNECT + "Timestamp": (Encoding.EPOCH_MILLIS, _INSTANT_FAMILIES),
    TIME + "Timestamp": (Encoding.EPOCH_MILLIS, _INSTANT_FAMILIES),
    TIME + "MicroTimestamp": (Encoding.EPOCH_MICROS, _INSTANT_FAMILIES),
    TIME + "NanoTimestamp": (Encoding.EPOCH_NANOS, _INSTANT_FAMILIES),
    TIME + "IsoTimestamp": (Encoding.ISO, frozenset({Family.TIMESTAMP})),
    TIME + "ZonedTimestamp": (Encoding.ISO, frozenset({Family.TIMESTAMP})),
}
"""Semantic types with an encoding, and the families of columns in which they mean something.

The others (Year, Interval, MicroDuration, NanoDuration, …) are neither a date nor a time of day.
"""

_FINE_TIMES = {
    TIME + "MicroTime": Encoding.EPOCH_MICROS,
    TIME + "NanoTime": Encoding.EPOCH_NANOS,
}
"""Times of day that Paimon's TIME cannot hold exactly."""

_PLAIN_FAMILIES = frozenset({Family.INTEGER, Family.FLOAT, Family.DECIMAL, Family.STRING})
"""Families whose columns store a count or an ISO text as it was sent."""


def apply_schema(
    readings: tuple[ColumnReading, ...],
    fields: Mapping[str, ConnectField],
    user_encodings: Mapping[str, Encoding],
    *,
    sends_bytes: bool = True,
    writes_times: bool = False,
) -> tuple[ColumnReading, ...]:
    """Return the readings with the encodings of the schema.

    Args:
        user_encodings: encodings by column that the user has set; they take precedence.
        sends_bytes: whether an option says that the connector sends bytes as bytes; otherwise it
            sends text.
        writes_times: whether a STRING gets a time of day as ``07:30:00``; otherwise the number.
    """

    def read_by_schema(reading: ColumnReading) -> ColumnReading:
        field = fields.get(reading.name)
        if field is None:
            return reading
        is_chosen = reading.name in user_encodings
        if not is_chosen and sends_bytes and _is_text_of_bytes(reading, field):
            return reading.with_refusal(
                "is text in the message's schema, and binary.handling.mode is bytes: it is "
                "base64, base64-url-safe or hex at the connector, or another type "
                f"(column.{reading.name}.encoding can set it)"
            )
        clock_encoding = _FINE_TIMES.get(field.semantic) if writes_times and not is_chosen else None
        if clock_encoding is not None and reading.family is Family.STRING:
            return reading.with_encoding(clock_encoding)
        return _reading_of_field(reading, field, is_chosen=is_chosen)

    return tuple(map(read_by_schema, readings))


def _is_text_of_bytes(reading: ColumnReading, field: ConnectField) -> bool:
    """Return whether the text may be base64 or hexadecimal, depending on the connector's mode."""
    is_text = field.literal == "string" and field.parameters.get(SOURCE_TYPE) not in _TEXT_TYPES
    return is_text and reading.family is Family.BINARY and not field.semantic


def _reading_of_field(
    reading: ColumnReading, field: ConnectField, *, is_chosen: bool
) -> ColumnReading:
    """Return the reading of a column for a field of Connect.

    Args:
        is_chosen: whether the configuration chose the column's encoding.
    """
    family = reading.family
    if is_chosen:
        has_scale = field.semantic == DECIMAL and reading.encoding is Encoding.BASE64
        return _unscaled_decimal(reading, field) if has_scale else reading
    if field.semantic in (DECIMAL, VARIABLE_SCALE):
        if family not in _PLAIN_FAMILIES:
            return _refusing_reading(reading, field)
        if field.semantic == DECIMAL:
            return _unscaled_decimal(reading, field)
        return reading.with_encoding(Encoding.NUMBER)
    is_bare_count = field.literal in _INTEGER_LITERALS and not field.semantic
    if field.semantic.startswith((TIME, CONNECT)) or (is_bare_count and family in TIME_FAMILIES):
        return _time_reading_of_field(reading, field)
    if field.literal == "bytes":
        return _bytes_reading_of_field(reading, field)
    if family is Family.BINARY and field.parameters.get(SOURCE_TYPE) in _TEXT_TYPES:
        return reading.with_encoding(Encoding.TEXT)  # longtext-to-bytes
    # This is neither bytes nor a Decimal: text in a DECIMAL column has the digits of the number.
    encoding = Encoding.TEXT if family is Family.DECIMAL else reading.encoding
    if family is Family.FLOAT and field.literal in _FLOAT_LITERALS:
        encoding = Encoding.FLOAT32
    return reading.with_encoding(encoding)


def _time_reading_of_field(reading: ColumnReading, field: ConnectField) -> ColumnReading:
    if reading.family in _PLAIN_FAMILIES:
        return reading.with_encoding(Encoding.TEXT)
    encoding, families = _TIME_ENCODINGS.get(field.semantic, (Encoding.TEXT, frozenset()))
    return (
        reading.with_encoding(encoding)
        if reading.family in families
        else _refusing_reading(reading, field)
    )


def _bytes_reading_of_field(reading: ColumnReading, field: ConnectField) -> ColumnReading:
    match reading.family:
        case Family.BINARY:
            is_bits = field.semantic == BITS
            return reading.with_encoding(
                Encoding.BASE64_LITTLE_ENDIAN if is_bits else Encoding.BASE64
            )
        case Family.STRING:
            return reading
        case _:
            return _refusing_reading(reading, field)


def _unscaled_decimal(reading: ColumnReading, field: ConnectField) -> ColumnReading:
    text = str(field.parameters.get("scale", ""))
    digits = text.removeprefix("-")
    if digits.isascii() and digits.isdigit() and len(digits) < 5 and int(digits) <= SCALE_MAX:
        return reading.with_encoding(Encoding.BASE64, int(text))
    scale_text = repr(text[:40]) if text else "none"
    return reading.with_refusal(
        f"is an {DECIMAL} whose schema has no scale that can be read (scale: {scale_text})"
    )


def _refusing_reading(reading: ColumnReading, field: ConnectField) -> ColumnReading:
    name = field.semantic
    hint = ""
    is_count = not name and field.literal in _INTEGER_LITERALS
    if reading.family in TIME_FAMILIES and (is_count or name.startswith(TIME)):
        hint = f" (column.{reading.name}.encoding can set another)"
    described_type = f"{'an' if name[0] in 'aeio' else 'a'} {name}" if name else "bytes"
    if is_count:
        described_type = f"an {field.literal} without a semantic type"
    return reading.with_refusal(
        f"is {described_type} in the message's schema, which has no meaning in the column{hint}"
    )
