"""Formats the canonical text of a row in Arrow's columns, as a database can in SQL.

A row's text joins `POSITION=VALUE;` for each value that is not null, in the order of columns. So an
appended column, which is null in older rows, does not change their texts. The position counts the
table's columns from 0. `row_hashes` hashes the texts. `compiled.text_bytes` writes the same texts
where rows are only hashed.

========================  =========================================================
type                      VALUE
========================  =========================================================
BOOLEAN                   `1` or `0`
TINYINT … BIGINT          decimal digits, with `-`
DECIMAL                   the unscaled number's digits, with `-`
FLOAT, DOUBLE             8 or 16 hexadecimal digits of its bits; NaN is positive and quiet
CHAR, VARCHAR, STRING     `BYTES:TEXT`, in UTF-8 and without any padding
BINARY, VARBINARY, BYTES  hexadecimal digits, in lower case
DATE                      days since 1970-01-01
TIME                      milliseconds since midnight
TIMESTAMP (both)          microseconds since 1970-01-01; nanoseconds from precision 7 on
ARRAY                     `[VALUE,null,VALUE]`
========================  =========================================================

MAP, ROW, VECTOR and VARIANT have no text. `app.ops.source_comparison.database_side` makes the SQL
for the same texts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stream_app.arrow_buffers import Bytes, Int64s, lengths_of, own_bytes
from stream_app.model.checksum.sum_conditions import MICROSECONDS
from stream_app.model.schema.data_type import STRING_ROOTS, DataField, DataType, TypeRoot

PlacedColumn = tuple[int, DataField]
"""A column and its index in the table."""

_HEX = np.frombuffer(b"".join(f"{byte:02x}".encode() for byte in range(256)), np.uint16)
_LOW_DIGITS_MAX = 18
"""The digits of a decimal that 8 bytes hold."""


def row_texts(rows: pa.RecordBatch, columns: Iterable[PlacedColumn]) -> tuple[Bytes, Int64s]:
    """Return the texts of n rows, one after another, as uint8, and their offsets: int64 [n + 1].

    Args:
        rows: rows with the columns by name.
        columns: the columns of the checksum, in the order of their indices.
    """
    pieces: list[pa.Array | pa.Scalar] = []
    separator = ""
    for column_index, field in columns:
        values = rows.column(field.name)
        prefix = f"{column_index}="
        value_pieces = _value_pieces(plain_values(values, field.data_type))
        if values.null_count:
            pieces += [_constant(separator)] if separator else []
            pieces.append(
                _join([_constant(prefix), *value_pieces, _constant(";")], is_null_with_any=True)
            )
            separator = ""
        else:
            pieces += [_constant(separator + prefix), *value_pieces]
            separator = ";"
    pieces.append(_constant(separator))
    if not any(isinstance(piece, pa.Array) for piece in pieces):
        return np.empty(0, np.uint8), np.zeros(rows.num_rows + 1, np.int64)
    return own_bytes(_join(pieces))


def _join(pieces: Sequence[pa.Array | pa.Scalar], *, is_null_with_any: bool = False) -> pa.Array:
    """Join pieces row by row.

    Args:
        is_null_with_any: whether a null piece makes the whole text null; else it is omitted.
    """
    handling = {"null_handling": "emit_null"} if is_null_with_any else {"null_handling": "replace"}
    return pc.binary_join_element_wise(*pieces, _constant(""), **handling)


def _constant(text: str) -> pa.Scalar:
    return pa.scalar(text.encode(), pa.binary())


def plain_values(values: pa.Array, data_type: DataType) -> pa.Array:
    """Return the values of a column [n] as strings, as whole numbers, or as binary texts.

    The text of a string has its size in front, that of a number is its digits. Binary values are
    texts.
    """
    match data_type.root:
        case TypeRoot.CHAR | TypeRoot.VARCHAR:
            return values
        case TypeRoot.BINARY | TypeRoot.VARBINARY | TypeRoot.BLOB:
            return _hexadecimal(values)
        case TypeRoot.FLOAT | TypeRoot.DOUBLE:
            return _bits(values)
        case TypeRoot.ARRAY:
            return _array_texts(values, *data_type.inner)
        case _:
            plain_column = _integers(values, data_type)
            return _digits(plain_column) if pa.types.is_decimal(plain_column.type) else plain_column


def _value_pieces(values: pa.Array) -> list[pa.Array | pa.Scalar]:
    """Return the texts of plain values as pieces of binary [n]; null where the value is null."""
    if pa.types.is_string(values.type):
        return [_digits(pa.array(lengths_of(values))), _constant(":"), values.cast(pa.binary())]
    return [values if pa.types.is_binary(values.type) else _digits(values)]


def _array_texts(arrays: pa.Array, element_type: DataType) -> pa.Array:
    """Return the texts of arrays: binary [n], null where the array is null."""
    pieces = _value_pieces(plain_values(arrays.flatten(), element_type))
    texts = _join(pieces, is_null_with_any=True).fill_null(b"null")
    lengths = pc.fill_null(pc.list_value_length(arrays), 0).to_numpy()
    offsets = pa.array(np.concatenate(([0], np.cumsum(lengths))), pa.int32())
    element_texts = pc.binary_join(pa.ListArray.from_arrays(offsets, texts), b",")
    texts = _join([_constant("["), element_texts, _constant("]")])
    return pc.if_else(arrays.is_valid(), texts, None) if arrays.null_count else texts


def _digits(values: pa.Array) -> pa.Array:
    return pc.cast(values, pa.string()).cast(pa.binary())


def _integers(values: pa.Array, data_type: DataType) -> pa.Array:
    """Return the values of a column as integers."""
    match data_type.root:
        case TypeRoot.BOOLEAN:
            return values.cast(pa.int8())
        case TypeRoot.DECIMAL:
            return _unscaled_values(values, data_type.precision)
        case TypeRoot.DATE | TypeRoot.TIME:
            return values.view(pa.int32())
        case TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ:
            ticks = values.view(pa.int64())
            return pc.multiply(ticks, 1000) if values.type.unit == "ms" else ticks
        case TypeRoot.MAP | TypeRoot.ROW | TypeRoot.VECTOR:
            raise AssertionError("nested values have no canonical text")
        case _:
            return values


def _unscaled_values(values: pa.Array, precision: int) -> pa.Array:
    validity, data = values.buffers()
    if precision > _LOW_DIGITS_MAX:
        unscaled_type = pa.decimal128(precision, 0)
        return pa.Array.from_buffers(
            unscaled_type, len(values), [validity, data], offset=values.offset
        )
    low_words = slice(2 * values.offset, 2 * (values.offset + len(values)), 2)
    low = np.frombuffer(data, np.int64)[low_words]
    if not values.null_count:
        return pa.array(low)
    return pa.array(low, mask=values.is_null().to_numpy(zero_copy_only=False))


def _bits(values: pa.Array) -> pa.Array:
    floats = values.fill_null(0).to_numpy().copy()
    floats[np.isnan(floats)] = np.nan
    digits = _HEX[floats.byteswap().view(np.uint8)]
    width = 2 * floats.dtype.itemsize
    offsets = np.arange(len(floats) + 1, dtype=np.int32) * width
    return _with_nulls_of(values, offsets, digits)


def _hexadecimal(values: pa.Array) -> pa.Array:
    data, offsets = own_bytes(values)
    return _with_nulls_of(values, (2 * offsets).astype(np.int32), _HEX[data])


def _with_nulls_of(values: pa.Array, offsets: np.ndarray, digits: np.ndarray) -> pa.Array:
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(digits))]
    texts = pa.Array.from_buffers(pa.binary(), len(values), buffers)
    return texts if not values.null_count else pc.if_else(values.is_valid(), texts, None)


def readable_texts(text: bytes, columns: Iterable[PlacedColumn]) -> str:
    """Format the values in a row's text for messages: `id = 7, name = 'a'`."""
    fields = dict(columns)
    texts = []
    while text:
        column_index, _, text = text.partition(b"=")
        field = fields[int(column_index)]
        value, text = _show_first(text, field.data_type)
        texts.append(f"{field.name} = {value}")
        text = text[len(b";") :]
    return ", ".join(texts)


def _show_first(text: bytes, data_type: DataType) -> tuple[str, bytes]:
    """Return the value at the beginning of a text for messages, and the text after it."""
    if data_type.root in STRING_ROOTS:
        digits, _, text = text.partition(b":")
        size = int(digits)
        return repr(text[:size].decode(errors="replace")), text[size:]
    if data_type.root is not TypeRoot.ARRAY:
        end = min(position for mark in b",];" if (position := text.find(mark)) >= 0)
        return _show(text[:end].decode(), data_type), text[end:]
    texts, text = [], text.removeprefix(b"[")
    while not text.startswith(b"]"):
        text = text.removeprefix(b",")
        if text.startswith(b"null"):
            value, text = "null", text.removeprefix(b"null")
        else:
            value, text = _show_first(text, *data_type.inner)
        texts.append(value)
    return f"[{', '.join(texts)}]", text.removeprefix(b"]")


def _show(value: str, data_type: DataType) -> str:
    match data_type.root:
        case TypeRoot.DECIMAL:
            return str(Decimal(value).scaleb(-data_type.scale))
        case TypeRoot.DATE:
            return str(np.datetime64(int(value), "D"))
        case TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ:
            if data_type.precision > MICROSECONDS:
                return str(np.datetime64(int(value), "ns"))
            return str(np.datetime64(int(value), "us"))
        case _:
            return value
