"""Converts a column's values to the numbers and bytes that indexes store.

Texts become their bytes, other values integers. A time becomes milliseconds, or from a precision of
4 on microseconds. A decimal becomes its unscaled number, and a float its bits.

Source: Paimon `fileindex/bitmap/BitmapFileIndex.java#getValueMapper`,
`fileindex/bsi/BitSliceIndexBitmapFileIndex.java#getValueMapper`,
`fileindex/rangebitmap/dictionary/chunked/KeyFactory.java`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from stream_app.format.arrow_schema import arrow_type
from stream_app.format.binary_row_columns import text_words
from stream_app.format.bucket_hash import murmur_hashes
from stream_app.model.schema.data_type import (
    FLOAT_ROOTS,
    STRING_ROOTS,
    TIMESTAMP_ROOTS,
    DataType,
    TypeRoot,
)

Numbers = npt.NDArray[np.signedinteger]
"""The numbers of values, in the width in which Java writes them."""

IndexKey = int | bytes
"""A value that compares as the column's values do: a number, or the bytes of a text."""

_MICROS = 6
_TRUE_HASH, _FALSE_HASH = 1231, 1237


def is_text(data_type: DataType) -> bool:
    """Return whether indexes store the values as bytes."""
    return data_type.root in STRING_ROOTS


def loses_digits(data_type: DataType) -> bool:
    """Return whether several values share a number, as times finer than a microsecond do."""
    return data_type.root in TIMESTAMP_ROOTS and data_type.precision > _MICROS


def index_numbers(values: pa.Array, data_type: DataType) -> Numbers:
    """Return the numbers of values without nulls.

    A float has the bits of Java's `floatToIntBits`, which has only one NaN.

    Args:
        values: values of the column's Arrow type, except texts.

    Returns:
        int8, int16, int32 or int64 [n].
    """
    if values.type != arrow_type(data_type):
        values = values.cast(arrow_type(data_type))
    root = data_type.root
    if root is TypeRoot.BOOLEAN:
        return _numpy(values.cast(pa.int8()))
    if root is TypeRoot.DECIMAL:
        halves = np.frombuffer(values.buffers()[1], dtype=np.int64).reshape(-1, 2)
        return halves[values.offset : values.offset + len(values), 0]
    if root in FLOAT_ROOTS:
        floats = _numpy(values)
        nan = floats.dtype.type(np.nan)
        return np.where(np.isnan(floats), nan, floats).view(f"i{floats.dtype.itemsize}")
    if root in TIMESTAMP_ROOTS:
        integers = _numpy(values.view(pa.int64()))
        return np.floor_divide(integers, 1000) if values.type.unit == "ns" else integers
    if root in (TypeRoot.DATE, TypeRoot.TIME):
        return _numpy(values.view(pa.int32()))
    return _numpy(values)


def sort_keys(integers: Numbers, data_type: DataType) -> Numbers:
    """Convert numbers so that they sort as their values; negative floats' bits do not."""
    if data_type.root not in FLOAT_ROOTS:
        return integers
    return np.where(integers < 0, integers ^ np.iinfo(integers.dtype).max, integers)


def text_bytes(values: pa.Array) -> pa.Array:
    """Return the bytes of texts."""
    return values if pa.types.is_binary(values.type) else values.cast(pa.binary())


def _numpy(values: pa.Array) -> Numbers:
    integers: Numbers = values.to_numpy(zero_copy_only=False)
    return integers


@dataclass(frozen=True, slots=True)
class ValueCodec:
    """An encoding of values in indexes: big-endian, texts after their length.

    Attributes:
        width: the bytes of a number; None for texts.
    """

    data_type: DataType
    width: int | None

    @classmethod
    def of_type(cls, data_type: DataType) -> ValueCodec:
        """Return the codec of a type."""
        return cls(data_type, None if is_text(data_type) else _width(data_type))

    def keys(self, values: pa.Array) -> list[IndexKey]:
        """Return the keys of values without nulls."""
        if self.width is None:
            return text_bytes(values).to_pylist()  # type: ignore[no-any-return]
        integers = index_numbers(values, self.data_type)
        return sort_keys(integers, self.data_type).tolist()  # type: ignore[no-any-return]

    def read(self, data: bytes, byte_offset: int) -> tuple[IndexKey, int]:
        """Return the key at a byte offset, and the offset after it."""
        if self.width is None:
            start = byte_offset + 4
            end = start + int.from_bytes(data[byte_offset:start], "big")
            return data[start:end], end
        end = byte_offset + self.width
        key = int.from_bytes(data[byte_offset:end], "big", signed=True)
        if key < 0 and self.data_type.root in FLOAT_ROOTS:
            key ^= (1 << (8 * self.width - 1)) - 1
        return key, end


def _width(data_type: DataType) -> int:
    empty_column = pa.array([], arrow_type(data_type))
    return (
        8 if data_type.root is TypeRoot.DECIMAL else index_numbers(empty_column, data_type).itemsize
    )


@dataclass(frozen=True, slots=True)
class DistinctValues:
    """The distinct values of a column, in the order of their first rows.

    Attributes:
        codes: int64 [n], the index of each row's value; -1 for null.
        values: the values as a binary array of texts, or as numbers: [m].
    """

    codec: ValueCodec
    codes: npt.NDArray[np.int64]
    values: pa.Array | Numbers

    @classmethod
    def of_column(cls, values: pa.Array, data_type: DataType) -> DistinctValues:
        """Return the distinct values of a column."""
        codec = ValueCodec.of_type(data_type)
        codes = np.full(len(values), -1, dtype=np.int64)
        value_indices = np.flatnonzero(pc.is_valid(values).to_numpy(zero_copy_only=False))
        present_values = values.drop_null()
        keys = text_bytes(present_values) if codec.width is None else pa.array(
            index_numbers(present_values, data_type)
        )  # fmt: skip
        encoded_keys = keys.dictionary_encode()
        codes[value_indices] = encoded_keys.indices.to_numpy(zero_copy_only=False)
        distinct_keys = encoded_keys.dictionary
        return cls(codec, codes, distinct_keys if codec.width is None else _numpy(distinct_keys))

    def order(self) -> npt.NDArray[np.int64]:
        """Return the indices that sort the values: int64 [m]."""
        if isinstance(self.values, np.ndarray):
            return np.argsort(sort_keys(self.values, self.codec.data_type), kind="stable")
        return pc.array_sort_indices(self.values).to_numpy().astype(np.int64)  # type: ignore[no-any-return]

    def encode(self) -> pa.Array:
        """Return the bytes of each value: binary [m]."""
        if isinstance(self.values, np.ndarray):
            width = self.values.itemsize
            return fixed_bytes(self.values.astype(f">i{width}"))
        lengths = pc.binary_length(self.values).to_numpy().astype(">i4")
        return pc.binary_join_element_wise(fixed_bytes(lengths), self.values, b"")

    def java_hashes(self) -> npt.NDArray[np.int32]:
        """Return Java's `hashCode` of each value: int32 [m]."""
        if not isinstance(self.values, np.ndarray):
            return murmur_hashes(text_words(self.values))
        if self.codec.data_type.root is TypeRoot.BOOLEAN:
            return np.where(self.values != 0, _TRUE_HASH, _FALSE_HASH).astype(np.int32)
        if self.values.itemsize < 8:
            return self.values.astype(np.int32)
        bits = self.values.view(np.uint64)
        return (bits ^ bits >> np.uint64(32)).astype(np.uint32).view(np.int32)

    def indices_by_value(self) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64]]:
        """Group the indices of rows by value, in order.

        Returns:
            The indices, uint32 [rows], and where each value's rows begin, int64 [m + 1].
        """
        order = np.argsort(self.codes, kind="stable")
        null_count = int(np.count_nonzero(self.codes < 0))
        counts = np.bincount(self.codes[order[null_count:]], minlength=len(self.values))
        starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        return order[null_count:].astype(np.uint32), starts


def fixed_bytes(values: npt.NDArray[np.generic]) -> pa.Array:
    """Return the raw bytes of an array's rows: binary [n].

    Args:
        values: [n] or [n, m].
    """
    width = values.nbytes // max(len(values), 1)
    data = pa.py_buffer(np.ascontiguousarray(values).tobytes())
    if not len(values):
        return pa.array([], pa.binary())
    fixed_values = pa.Array.from_buffers(pa.binary(width), len(values), [None, data])
    return fixed_values.cast(pa.binary())
