"""Encodes the index ``bsi``, which stores the values of a column of numbers bit by bit.

The index has a version byte, the number of rows, and two optional parts, each after a byte that
says whether it exists. The first part has the rows with numbers from zero on. The second has those
with negative numbers, by absolute value. A part has a version byte, its minimum and maximum, the
bitmap of its rows, the number of slices, and the slices. Java always writes 0 as the minimum.

Source: Paimon `fileindex/bsi/BitSliceIndexBitmapFileIndex.java`,
`utils/BitSliceIndexRoaringBitmap.java`.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap

from stream_app.format.arrow_schema import arrow_type
from stream_app.format.file_index.bit_slices import BitSlices
from stream_app.format.file_index.index_kind import FileIndexKind, IndexComparison, IndexTest
from stream_app.format.file_index.index_values import index_numbers, loses_digits
from stream_app.format.file_index.roaring import RowNumbers, all_rows, bitmap_bytes, read_bitmap
from stream_app.model.schema.data_type import DataType

_HEAD = struct.Struct(">bi")
_PART = struct.Struct(">bqq")
_VERSION = 1
_INT64_MIN = -(2**63)
"""The least int64, whose distance from zero does not fit into 64 bits."""
_MIRRORED_COMPARISONS = {
    IndexComparison.LESS: IndexComparison.GREATER,
    IndexComparison.AT_MOST: IndexComparison.AT_LEAST,
    IndexComparison.GREATER: IndexComparison.LESS,
    IndexComparison.AT_LEAST: IndexComparison.AT_MOST,
}


class _BitSlicedBuilder:
    def __init__(self, data_type: DataType, settings: Mapping[str, str]) -> None:
        del settings  # this kind has no settings
        self._data_type = data_type
        self._chunks: list[pa.Array] = []

    def add(self, values: pa.Array) -> None:
        self._chunks.append(values)

    def body(self) -> bytes | None:
        """Return the index; None if the smallest BIGINT is among the values."""
        column = pa.chunked_array(self._chunks, arrow_type(self._data_type)).combine_chunks()
        is_valid = pc.is_valid(column).to_numpy(zero_copy_only=False)
        indices = np.flatnonzero(is_valid).astype(np.uint32)
        integers = index_numbers(column.drop_null(), self._data_type).astype(np.int64)
        if (integers == _INT64_MIN).any():
            return None
        is_negative = integers < 0
        return b"".join(
            [
                _HEAD.pack(_VERSION, len(column)),
                *_encode_part(indices[~is_negative], integers[~is_negative]),
                *_encode_part(indices[is_negative], -integers[is_negative]),
            ]
        )


def _encode_part(rows: RowNumbers, magnitudes: npt.NDArray[np.int64]) -> list[bytes]:
    if not len(rows):
        return [b"\0"]
    largest_magnitude = int(magnitudes.max())
    slices = BitSlices.of_integers(rows, magnitudes, largest_magnitude.bit_length())
    return [
        b"\1",
        _PART.pack(_VERSION, 0, largest_magnitude),
        bitmap_bytes(slices.existence),
        struct.pack(">i", len(slices.slices)),
        *map(bitmap_bytes, slices.slices),
    ]


class _BitSlicedReader:
    def __init__(self, body: bytes, data_type: DataType) -> None:
        self._data_type = data_type
        version, self._row_count = _HEAD.unpack_from(body)
        if version != _VERSION:
            raise ValueError(f"a bsi index of version {version}")
        (self._least_above, self._above), byte_offset = _read_part(body, _HEAD.size)
        (self._least_below, self._below), _ = _read_part(body, byte_offset)

    def rows(self, test: IndexTest) -> BitMap | None:
        """Return exactly the rows that pass, because the index has each row's value."""
        existence = self._above.existence | self._below.existence
        if test.comparison is IndexComparison.NULL:
            return all_rows(self._row_count) - existence
        if test.comparison is IndexComparison.NOT_NULL:
            return existence
        values = index_numbers(test.values, self._data_type).tolist()
        if test.comparison in (IndexComparison.ONE_OF, IndexComparison.NONE_OF):
            rows = BitMap()
            for value in values:
                rows |= self._rows_compared(IndexComparison.ONE_OF, value)
            if test.comparison is IndexComparison.ONE_OF:
                return rows
            return None if loses_digits(self._data_type) else existence - rows
        if loses_digits(self._data_type):
            return None
        return self._rows_compared(test.comparison, values[0])

    def _rows_compared(self, comparison: IndexComparison, value: int) -> BitMap:
        non_negative_rows = self._above.rows(comparison, value - self._least_above)
        mirrored_comparison = _MIRRORED_COMPARISONS.get(comparison, comparison)
        return non_negative_rows | self._below.rows(mirrored_comparison, -value - self._least_below)


def _read_part(data: bytes, byte_offset: int) -> tuple[tuple[int, BitSlices], int]:
    """Return a part's minimum and slices, and the byte offset after it."""
    if not data[byte_offset]:
        return (0, BitSlices(BitMap(), ())), byte_offset + 1
    _, minimum, _ = _PART.unpack_from(data, byte_offset + 1)
    existence, byte_offset = read_bitmap(data, byte_offset + 1 + _PART.size)
    (count,) = struct.unpack_from(">i", data, byte_offset)
    slices, byte_offset = [], byte_offset + 4
    for _ in range(count):
        slice_rows, byte_offset = read_bitmap(data, byte_offset)
        slices.append(slice_rows)
    return (minimum, BitSlices(existence, slices)), byte_offset


BIT_SLICED = FileIndexKind("bsi", _BitSlicedBuilder, _BitSlicedReader)
