"""Describes how each column of a table is read from JSON, in an encoding that is chosen once.

A JSON value shows its kind (number, string, …) but not its encoding. ``1709251199123`` may count
milliseconds or microseconds; ``"AeI6"`` may be text or the bytes of a number. The encoding comes
from the message's own schema, or from options that repeat the connector's configuration.

The formats of `cdc` use it; `column_cast` casts the values.

Source: Debezium's "Data type mappings" of the PostgreSQL and MySQL connectors (literal and
semantic types per `decimal.handling.mode`, `time.precision.mode`, `binary.handling.mode`).
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from stream_app.cdc.columns.decimal_columns import parse_type
from stream_app.model.schema.data_type import (
    BINARY_ROOTS,
    FLOAT_ROOTS,
    INTEGER_ROOTS,
    LIST_ROOTS,
    NESTED_ROOTS,
    STRING_ROOTS,
    TIMESTAMP_ROOTS,
    DataType,
    TypeRoot,
)

_ELEMENT = ""
_STRUCT_DECIMAL = pa.struct([("scale", pa.int32()), ("value", pa.string())])


class JsonKind(enum.IntEnum):
    """The kind of a JSON value, as its syntax shows it."""

    NULL = 0
    BOOLEAN = 1
    NUMBER = 2
    STRING = 3
    ARRAY = 4
    OBJECT = 5


class Encoding(enum.Enum):
    """The meaning of a JSON number or string; the values are those of ``column.NAME.encoding``."""

    EPOCH_SECONDS = "epoch-seconds"
    EPOCH_MILLIS = "epoch-millis"
    EPOCH_MICROS = "epoch-micros"
    EPOCH_NANOS = "epoch-nanos"
    EPOCH_DAYS = "epoch-days"
    ISO = "iso"
    BASE64 = "base64"
    BASE64_URL_SAFE = "base64-url-safe"
    BASE64_LITTLE_ENDIAN = "base64-little-endian"
    HEX = "hex"
    LATIN_1 = "latin-1"
    TEXT = "text"
    NUMBER = "number"
    FLOAT32 = "float32"


EPOCH_DIGITS = {
    Encoding.EPOCH_SECONDS: 0,
    Encoding.EPOCH_MILLIS: 3,
    Encoding.EPOCH_MICROS: 6,
    Encoding.EPOCH_NANOS: 9,
}
"""Fractional digits of a second that one unit of the encoding stands for."""

_EPOCH_ENCODINGS = frozenset(EPOCH_DIGITS)
_BYTE_ENCODINGS = frozenset(
    {
        Encoding.BASE64,
        Encoding.BASE64_URL_SAFE,
        Encoding.BASE64_LITTLE_ENDIAN,
        Encoding.HEX,
        Encoding.LATIN_1,
        Encoding.TEXT,
    }
)
_NUMBER_ENCODINGS = frozenset({Encoding.NUMBER, Encoding.TEXT})


class Family(enum.Enum):
    """A family of types that are read in the same way."""

    BOOLEAN = enum.auto()
    INTEGER = enum.auto()
    FLOAT = enum.auto()
    DECIMAL = enum.auto()
    STRING = enum.auto()
    BINARY = enum.auto()
    DATE = enum.auto()
    TIME = enum.auto()
    TIMESTAMP = enum.auto()
    NESTED = enum.auto()
    VARIANT = enum.auto()


_FAMILIES: dict[TypeRoot, Family] = {
    TypeRoot.BOOLEAN: Family.BOOLEAN,
    TypeRoot.DECIMAL: Family.DECIMAL,
    TypeRoot.DATE: Family.DATE,
    TypeRoot.TIME: Family.TIME,
    **dict.fromkeys(INTEGER_ROOTS, Family.INTEGER),
    **dict.fromkeys(FLOAT_ROOTS, Family.FLOAT),
    **dict.fromkeys(STRING_ROOTS, Family.STRING),
    **dict.fromkeys(BINARY_ROOTS, Family.BINARY),
    **dict.fromkeys(TIMESTAMP_ROOTS, Family.TIMESTAMP),
    **dict.fromkeys(NESTED_ROOTS, Family.NESTED),
    TypeRoot.VARIANT: Family.VARIANT,
}

ENCODINGS: dict[Family, frozenset[Encoding]] = {
    Family.BOOLEAN: _NUMBER_ENCODINGS,
    Family.INTEGER: _NUMBER_ENCODINGS | {Encoding.BASE64},
    Family.FLOAT: _NUMBER_ENCODINGS | {Encoding.FLOAT32},
    Family.DECIMAL: _NUMBER_ENCODINGS | {Encoding.BASE64},
    Family.STRING: _NUMBER_ENCODINGS,
    Family.BINARY: _BYTE_ENCODINGS,
    Family.DATE: _EPOCH_ENCODINGS | {Encoding.EPOCH_DAYS, Encoding.ISO},
    Family.TIME: _EPOCH_ENCODINGS | {Encoding.ISO},
    Family.TIMESTAMP: _EPOCH_ENCODINGS | {Encoding.EPOCH_DAYS, Encoding.ISO},
    Family.NESTED: frozenset({Encoding.TEXT}),
    Family.VARIANT: frozenset({Encoding.TEXT}),
}
"""The encodings that a column of each family can have."""
TIME_FAMILIES = frozenset({Family.DATE, Family.TIME, Family.TIMESTAMP})


def family_of(data_type: DataType) -> Family:
    """Return the family of a type."""
    return _FAMILIES[data_type.root]


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnReading:
    """The way to read one column.

    Attributes:
        arrow_type: the type of the cast values.
        encoding: what a number counts or a string holds; see `Encoding`.
        scale: fractional digits of a BASE64 number.
        is_required: whether the column is NOT NULL, as all columns of the key are.
        is_key: whether the column is part of the primary key.
        is_nullable_key: whether a null in a message is a valid part of the key; a missing value
            never is.
        refusal: why the column can hold no value of the source; empty if it can.
    """

    name: str
    data_type: DataType
    arrow_type: pa.DataType
    encoding: Encoding
    scale: int
    is_required: bool
    is_key: bool
    is_nullable_key: bool = False
    refusal: str = ""

    @property
    def family(self) -> Family:
        """The family of the column's type."""
        return family_of(self.data_type)

    @property
    def holds_decimals(self) -> bool:
        """Whether the column's values are decimals or contain decimals."""
        return any(scalar.root is TypeRoot.DECIMAL for scalar in self.data_type.scalars())

    def with_encoding(self, encoding: Encoding, scale: int | None = None) -> ColumnReading:
        """Return the same column in another encoding."""
        return replace(self, encoding=encoding, scale=self.scale if scale is None else scale)

    def with_refusal(self, reason: str) -> ColumnReading:
        """Return the same column, which refuses every value with this reason."""
        return replace(self, refusal=reason)

    def inner_readings(self) -> tuple[ColumnReading, ...]:
        """Return the readings of a nested column's parts: elements, keys and values, or fields."""
        data_type, arrow_type = self.data_type, self.arrow_type
        match data_type.root:
            case TypeRoot.ARRAY | TypeRoot.VECTOR:
                return (_inner_reading(_ELEMENT, data_type.element, arrow_type.value_type),)
            case TypeRoot.MAP:
                key = _inner_reading(
                    _ELEMENT, data_type.key and data_type.key.not_null(), arrow_type.key_type
                )
                return key, _inner_reading(_ELEMENT, data_type.element, arrow_type.item_type)
            case _:
                return tuple(
                    _inner_reading(field.name, field.data_type, arrow_type.field(index).type)
                    for index, field in enumerate(data_type.fields)
                )

    def nested_wire_type(self) -> pa.DataType | None:
        """Return the Arrow type of parsed arrays or objects, or None if they contain a MAP."""
        root = self.data_type.root
        if root is TypeRoot.MAP:
            return None
        wire_types = [
            part.nested_wire_type()
            if part.family is Family.NESTED
            else part.wire_type(part.usual_kind())
            for part in self.inner_readings()
        ]
        if None in wire_types:
            return None
        if root in LIST_ROOTS:
            return pa.list_(wire_types[0])
        names = [part.name for part in self.inner_readings()]
        return pa.struct(list(zip(names, wire_types, strict=True)))

    def _nested_kind(self) -> JsonKind:
        return JsonKind.ARRAY if self.data_type.root in LIST_ROOTS else JsonKind.OBJECT

    def usual_kind(self) -> JsonKind:
        """Return the kind to expect in a column whose values have all been null."""
        if self.family is Family.NESTED:
            return JsonKind.STRING if self.nested_wire_type() is None else self._nested_kind()
        if self.family is Family.BOOLEAN:
            return JsonKind.BOOLEAN
        if self.family in (Family.STRING, Family.BINARY, Family.VARIANT):
            return JsonKind.STRING
        if self.encoding in (Encoding.ISO, Encoding.BASE64):
            return JsonKind.STRING
        if self.family is Family.DECIMAL and self.encoding is Encoding.TEXT:
            return JsonKind.STRING
        return JsonKind.NUMBER

    def wire_type(self, json_kind: JsonKind) -> pa.DataType | None:
        """Return the Arrow type in which the parser reads values of this kind, or None."""
        if self.family is Family.NESTED and json_kind is self._nested_kind():
            return self.nested_wire_type()
        if self.family is Family.STRING and json_kind is JsonKind.OBJECT and self.holds_number:
            return _STRUCT_DECIMAL
        if json_kind not in _PARSED_KINDS[self.family]:
            return None
        if self.family is Family.FLOAT and json_kind is JsonKind.NUMBER:
            # A DOUBLE gets the source's number, not its text.
            return pa.float32() if self.encoding is Encoding.FLOAT32 else self.arrow_type
        # The parser takes decimal text as exactly as a bare number; base64 needs a second pass.
        is_base64 = json_kind is JsonKind.STRING and self.encoding is Encoding.BASE64
        if self.family is Family.DECIMAL and json_kind in _SCALARS and not is_base64:
            return parse_type(self.arrow_type)
        return _WIRE_TYPES[json_kind]

    @property
    def holds_number(self) -> bool:
        """Whether a text, or an object with scale and value, is read as a number."""
        return self.encoding in (Encoding.NUMBER, Encoding.BASE64)


_INNER_ENCODINGS = {
    Family.BINARY: Encoding.BASE64,
    Family.DATE: Encoding.ISO,
    Family.TIME: Encoding.ISO,
    Family.TIMESTAMP: Encoding.ISO,
    Family.STRING: Encoding.TEXT,
    Family.NESTED: Encoding.TEXT,
}
"""The encodings of values inside a nested value; numbers have `Encoding.NUMBER`."""


def _inner_reading(name: str, data_type: DataType | None, arrow_type: pa.DataType) -> ColumnReading:
    assert data_type is not None
    return ColumnReading(
        name=name,
        data_type=data_type,
        arrow_type=arrow_type,
        encoding=_INNER_ENCODINGS.get(family_of(data_type), Encoding.NUMBER),
        scale=data_type.scale,
        is_required=not data_type.nullable,
        is_key=False,
    )


_WIRE_TYPES: dict[JsonKind, pa.DataType] = {
    JsonKind.BOOLEAN: pa.bool_(),
    JsonKind.NUMBER: pa.int64(),
    JsonKind.STRING: pa.string(),
    JsonKind.OBJECT: _STRUCT_DECIMAL,
}
_SCALARS = frozenset({JsonKind.NUMBER, JsonKind.STRING})
_PARSED_KINDS: dict[Family, frozenset[JsonKind]] = {
    Family.BOOLEAN: _SCALARS | {JsonKind.BOOLEAN},
    Family.INTEGER: _SCALARS | {JsonKind.BOOLEAN, JsonKind.OBJECT},
    Family.FLOAT: _SCALARS | {JsonKind.OBJECT},
    Family.DECIMAL: _SCALARS | {JsonKind.OBJECT},
    Family.STRING: _SCALARS | {JsonKind.BOOLEAN},
    Family.BINARY: frozenset({JsonKind.STRING}),
    Family.DATE: _SCALARS,
    Family.TIME: _SCALARS,
    Family.TIMESTAMP: _SCALARS,
    Family.NESTED: frozenset({JsonKind.STRING}),
    Family.VARIANT: frozenset({JsonKind.STRING}),
}
"""The kinds of values of each family that are parsed by columns, except arrays and objects."""


def parsed_row_fields(
    readings: Sequence[ColumnReading], json_kinds: Sequence[JsonKind]
) -> list[pa.Field]:
    """Return the Arrow fields in which a row is parsed, if its columns have these kinds."""
    return [
        pa.field(reading.name, reading.wire_type(json_kind))
        for reading, json_kind in zip(readings, json_kinds, strict=True)
    ]
