"""Converts parsed Avro values to the columns that `cdc.columns` casts.

The slow path reads arrays and maps, unions of several types, and kinds of values that the table's
column does not expect.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from stream_app.arrow_buffers import Bools, Int64s, gathered_array, valid_of, values_at
from stream_app.cdc.columns.base64_columns import reverse_bytes
from stream_app.cdc.columns.column_reading import ColumnReading, Encoding, Family, JsonKind
from stream_app.cdc.columns.decimal_columns import decimal_texts, decimals_from_bytes, parse_type
from stream_app.cdc.columns.time_columns import cast_isolating
from stream_app.cdc.wire.avro.avro_cursor import AvroValues, ValueCursor
from stream_app.cdc.wire.avro.avro_types import AvroType

_NUMBER_FAMILIES = frozenset(
    {Family.INTEGER, Family.STRING, Family.DATE, Family.TIME, Family.TIMESTAMP}
)
_TEXT_FAMILIES = frozenset(Family) - {Family.INTEGER, Family.DECIMAL}


class AvroLeaf(Protocol):
    """The values of one type that is not a record, in m messages."""

    @property
    def avro_type(self) -> AvroType:
        """The type of the values."""
        ...

    def numeric_values(self) -> pa.Array:
        """Return numbers, truth values or enums: int64, boolean, float or double [m]."""
        ...

    def binary(self) -> pa.Array:
        """Return the bytes of texts and bytes: binary [m]."""
        ...


@dataclass(frozen=True, slots=True)
class _IntactValues:
    """The values of messages that are not broken; implements `AvroLeaf`."""

    avro_type: AvroType
    cursor: ValueCursor
    values: AvroValues
    is_intact: Bools

    def numeric_values(self) -> pa.Array:
        """See `AvroLeaf`."""
        assert self.values.numeric_values is not None
        return pa.array(self.values.numeric_values[self.is_intact[self.values.indices]])

    def binary(self) -> pa.Array:
        """See `AvroLeaf`."""
        return self.cursor.binary(self.values, self.is_intact)


@dataclass(frozen=True, slots=True)
class WireColumn:
    """One column of s images.

    Attributes:
        reading: how the column is cast.
        values: the values of `reading.wire_type(json_kind)`, or binary for BYTES.
        is_suspect: bool [s]; images with a value that is left to the slow path.
    """

    reading: ColumnReading
    json_kind: JsonKind
    values: pa.Array
    is_suspect: Bools


def wire_column(
    reading: ColumnReading,
    sides: Sequence[tuple[AvroValues | None, Int64s]],
    cursor: ValueCursor,
    is_intact: Bools,
) -> WireColumn:
    """Make one column: the images of the first side, followed by those of the second.

    Args:
        sides: for each side, the values of the column, and the messages that have such an
            image.
        is_intact: bool [n]; false for each broken message.
    """
    kinds = {
        values.avro_type.kind
        for values, _ in sides
        if values is not None and values.avro_type is not None
    }
    conversion = _conversion(reading, kinds.pop()) if len(kinds) == 1 else None
    side_columns, side_suspects = [], []
    if conversion is None:
        json_kind = reading.usual_kind()
        null_type = _null_type(reading, json_kind)
    else:
        json_kind, as_wire, reading, null_type = conversion
    for values, indices in sides:
        image_count = int(is_intact[indices].sum())
        is_suspect: Bools = np.zeros(image_count, np.bool_)
        column = pa.nulls(image_count, null_type)
        if values is not None:
            image_of = np.empty(len(is_intact), np.int64)
            image_of[indices[is_intact[indices]]] = np.arange(image_count)
            image_indices = image_of[values.indices[is_intact[values.indices]]]
            if conversion is None or values.avro_type is None or values.avro_type.kind == "null":
                is_suspect[image_indices] = (
                    values.avro_type is None or values.avro_type.kind != "null"
                )
            else:
                wire_values = as_wire(_IntactValues(values.avro_type, cursor, values, is_intact))
                is_suspect[image_indices[~valid_of(wire_values)]] = True
                column = _spread(wire_values, image_indices, image_count)
        side_columns.append(column)
        side_suspects.append(is_suspect)
    return WireColumn(
        reading, json_kind, pa.concat_arrays(side_columns), np.concatenate(side_suspects)
    )


def _spread(values: pa.Array, indices: Int64s, count: int) -> pa.Array:
    """Return an array of `count` values with these values at these indices, null elsewhere."""
    return (
        values if len(values) == count else gathered_array([(indices, values)], count, values.type)
    )


def leaf_column(reading: ColumnReading, leaf: AvroLeaf, has_value: Bools) -> WireColumn:
    """Make the column of s images.

    Args:
        reading: one that `reads_leaf` accepts.
        leaf: the value of each image, or null.
        has_value: bool [s]; whether each image has a value.
    """
    conversion = _conversion(reading, leaf.avro_type.kind)
    is_suspect: Bools = np.zeros(len(has_value), np.bool_)
    if conversion is None:
        json_kind = reading.usual_kind()
        return WireColumn(
            reading,
            json_kind,
            pa.nulls(len(is_suspect), _null_type(reading, json_kind)),
            is_suspect,
        )
    json_kind, as_wire, reading, _ = conversion
    wire_values = as_wire(leaf)
    if wire_values.null_count > len(has_value) - np.count_nonzero(has_value):
        is_suspect = has_value & ~valid_of(wire_values)
    return WireColumn(reading, json_kind, wire_values, is_suspect)


def reads_leaf(reading: ColumnReading, avro_type: AvroType) -> bool:
    """Return whether values of this type are read in columns."""
    return avro_type.kind == "null" or _conversion(reading, avro_type.kind) is not None


AsWire = Callable[[AvroLeaf], pa.Array]
_AvroConversion = tuple[JsonKind, AsWire, ColumnReading, pa.DataType]


def _null_type(reading: ColumnReading, json_kind: JsonKind) -> pa.DataType:
    wire_type: Any = reading.wire_type(json_kind)
    return wire_type


def _conversion(reading: ColumnReading, avro_kind: str) -> _AvroConversion | None:
    """Return the conversion from an Avro type to a wire type; None if values go one by one."""
    if reading.refusal:
        return None
    family = reading.family
    if avro_kind in ("int", "long") and family in _NUMBER_FAMILIES:
        return JsonKind.NUMBER, _numbers_as(pa.int64()), reading, pa.int64()
    if avro_kind in ("int", "long", "float", "double") and family is Family.FLOAT:
        wire_type: Any = reading.wire_type(JsonKind.NUMBER)
        return JsonKind.NUMBER, _numbers_as(wire_type), reading, wire_type
    if avro_kind == "boolean" and family in (Family.BOOLEAN, Family.INTEGER, Family.STRING):
        return JsonKind.BOOLEAN, _numbers_as(pa.bool_()), reading, pa.bool_()
    if avro_kind in ("string", "enum"):
        return _of_text(reading, avro_kind)
    if avro_kind in ("bytes", "fixed"):
        return _of_bytes(reading)
    return None


def _of_text(reading: ColumnReading, avro_kind: str) -> _AvroConversion | None:
    as_wire = _string_texts if avro_kind == "string" else _enum_texts
    if reading.family is Family.DECIMAL and reading.encoding is not Encoding.BASE64:
        parsed_type = parse_type(reading.arrow_type)

        def decimals(leaf: AvroLeaf) -> pa.Array:
            return cast_isolating(as_wire(leaf), parsed_type)

        return JsonKind.STRING, decimals, reading, parsed_type
    if reading.family in _TEXT_FAMILIES and reading.encoding is not Encoding.BASE64:
        return JsonKind.STRING, as_wire, reading, pa.string()
    if reading.family is Family.BINARY:
        return JsonKind.STRING, as_wire, reading, pa.string()
    return None


def _of_bytes(reading: ColumnReading) -> _AvroConversion | None:
    """Return the conversion of Avro's bytes to a column; None if the reading expects no bytes."""
    if reading.family is Family.BINARY and reading.encoding is not Encoding.TEXT:
        is_reversed = reading.encoding is Encoding.BASE64_LITTLE_ENDIAN

        def raw(leaf: AvroLeaf) -> pa.Array:
            binary = leaf.binary()
            return reverse_bytes(binary) if is_reversed else binary

        # TEXT means that no text must be decoded to bytes.
        return JsonKind.STRING, raw, reading.with_encoding(Encoding.TEXT), pa.binary()
    if reading.encoding is not Encoding.BASE64:
        return None
    scale = reading.scale
    if reading.family is Family.DECIMAL:
        arrow_type = reading.arrow_type
        parsed_type = parse_type(arrow_type)

        def decimals(leaf: AvroLeaf) -> pa.Array:
            return decimals_from_bytes(leaf.binary(), scale, arrow_type)[0].cast(parsed_type)

        as_number = reading.with_encoding(Encoding.NUMBER)
        return JsonKind.NUMBER, decimals, as_number, parsed_type
    if reading.family in (Family.STRING, Family.INTEGER, Family.FLOAT):

        def texts(leaf: AvroLeaf) -> pa.Array:
            return decimal_texts(leaf.binary(), scale)[0]

        return JsonKind.STRING, texts, reading.with_encoding(Encoding.TEXT), pa.string()
    return None


def _numbers_as(data_type: pa.DataType) -> AsWire:
    def as_wire(leaf: AvroLeaf) -> pa.Array:
        values = leaf.numeric_values()
        return values if values.type == data_type else values.cast(data_type, safe=False)

    return as_wire


def _string_texts(leaf: AvroLeaf) -> pa.Array:
    # Bytes that are not UTF-8 become null.
    return cast_isolating(leaf.binary(), pa.string())


def _enum_texts(leaf: AvroLeaf) -> pa.Array:
    symbols = pa.array(leaf.avro_type.symbols, pa.string())
    symbol_indices = leaf.numeric_values().fill_null(-1).to_numpy()
    return values_at(
        symbols, np.where(symbol_indices < len(symbols), np.maximum(symbol_indices, -1), -1)
    )


def leaf_texts(leaf: AvroLeaf) -> pa.Array:
    """Return the text of each value, strings [m]; null for bytes that are not UTF-8."""
    return (_enum_texts if leaf.avro_type.kind == "enum" else _string_texts)(leaf)


def avro_texts(values: AvroValues | None, cursor: ValueCursor, is_intact: Bools) -> pa.Array:
    """Return the text in each message, strings [n]; null for a message without one."""
    count = len(is_intact)
    if (
        values is None
        or values.avro_type is None
        or values.avro_type.kind not in ("string", "enum")
    ):
        return pa.nulls(count, pa.string())
    texts = leaf_texts(_IntactValues(values.avro_type, cursor, values, is_intact))
    return _spread(texts, values.indices[is_intact[values.indices]], count)
