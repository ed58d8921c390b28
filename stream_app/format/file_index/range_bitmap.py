"""Encodes the index ``range-bitmap``: each row's rank among the sorted values, bit by bit.

The index has a head, the dictionary of values, and the slices of ranks. The head has its length, a
version byte, and the numbers of rows and of values. Minimum and maximum follow, and the length of
the dictionary. The slices have their own head: its length, a version byte, and the number of slices
(a byte). The length of the bitmap of rows with a value follows, then the offset and length of each
slice after that bitmap.

The setting is the dictionary's ``chunk-size``.

Source: Paimon `fileindex/rangebitmap/RangeBitmapFileIndex.java`, `RangeBitmap.java`,
`BitSliceIndexBitmap.java`, `dictionary/chunked/KeyFactory.java`.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from stream_app.format.arrow_schema import arrow_type
from stream_app.format.file_index.bit_slices import BitSlices
from stream_app.format.file_index.chunked_dictionary import ChunkedDictionary, encode_dictionary
from stream_app.format.file_index.index_kind import FileIndexKind, IndexComparison, IndexTest
from stream_app.format.file_index.index_values import DistinctValues, ValueCodec
from stream_app.format.file_index.roaring import all_rows, bitmap_bytes, read_bitmap
from stream_app.model.options.option import parse_memory_size
from stream_app.model.schema.data_type import DataType, TypeRoot

_VERSION = 1
_HEAD = struct.Struct(">ibii")
_SLICES = struct.Struct(">ibbii")
_EXTENT = struct.Struct(">ii")
_INT = struct.Struct(">i")
_CHUNK_SIZE = "16 kb"
_UNCHUNKED_ROOTS = frozenset({TypeRoot.BOOLEAN, TypeRoot.TINYINT, TypeRoot.SMALLINT})
_BITS_OF_NONE = 64
"""Slices of a file without a value, as Java counts the bits of -1."""


class _RangeBitmapBuilder:
    def __init__(self, data_type: DataType, settings: Mapping[str, str]) -> None:
        default = "0 b" if data_type.root in _UNCHUNKED_ROOTS else _CHUNK_SIZE
        self._data_type = data_type
        self._chunk_size = parse_memory_size(settings.get("chunk-size", default))
        self._chunks: list[pa.Array] = []

    def add(self, values: pa.Array) -> None:
        self._chunks.append(values)

    def body(self) -> bytes:
        column = pa.chunked_array(self._chunks, arrow_type(self._data_type)).combine_chunks()
        values = DistinctValues.of_column(column, self._data_type)
        order = values.order()
        encoded_values = values.encode().take(pa.array(order))
        dictionary = encode_dictionary(encoded_values, values.codec, self._chunk_size)
        bounds = (
            encoded_values[0].as_py() + encoded_values[-1].as_py() if len(encoded_values) else b""
        )
        head_length = _HEAD.size - 4 + len(bounds) + 4
        head = _HEAD.pack(head_length, _VERSION, len(column), len(encoded_values))
        ranks = np.empty(len(order), dtype=np.int64)
        ranks[order] = np.arange(len(order))
        indices = np.flatnonzero(values.codes >= 0)
        bits = max((len(order) - 1).bit_length(), 1) if len(order) else _BITS_OF_NONE
        slices = BitSlices.of_integers(
            indices.astype(np.uint32), ranks[values.codes[indices]], bits
        )
        return b"".join(
            [head, bounds, _INT.pack(len(dictionary)), dictionary, _encode_slices(slices)]
        )


def _encode_slices(slices: BitSlices) -> bytes:
    existence = bitmap_bytes(slices.existence)
    parts = [bitmap_bytes(rows) for rows in slices.slices]
    ends = np.cumsum([len(part) for part in parts])
    extents = b"".join(
        _EXTENT.pack(int(end) - len(part), len(part)) for end, part in zip(ends, parts, strict=True)
    )
    head_length = _SLICES.size - 4 + len(extents)
    head = _SLICES.pack(head_length, _VERSION, len(parts), len(existence), len(extents))
    return b"".join([head, extents, existence, *parts])


class _RangeBitmapReader:
    def __init__(self, body: bytes, data_type: DataType) -> None:
        self._codec = ValueCodec.of_type(data_type)
        head_length, version, self._row_count, _ = _HEAD.unpack_from(body)
        if version != _VERSION:
            raise ValueError(f"a range-bitmap index of version {version}")
        byte_offset = 4 + head_length
        (length,) = _INT.unpack_from(body, byte_offset - 4)
        self._dictionary = ChunkedDictionary(body, byte_offset, self._codec)
        self._slices = _read_slices(body, byte_offset + length)

    def rows(self, test: IndexTest) -> BitMap:
        """Return exactly the rows that pass, because the index has each row's value."""
        existence = self._slices.existence
        match test.comparison:
            case IndexComparison.NULL:
                return all_rows(self._row_count) - existence
            case IndexComparison.NOT_NULL:
                return existence
            case IndexComparison.ONE_OF:
                return self._rows_of(test.values)
            case IndexComparison.NONE_OF:
                return existence - self._rows_of(test.values)
            case comparison:
                key = self._codec.keys(test.values)[0]
                return self._rows_compared(comparison, *self._dictionary.code(key))

    def _rows_compared(self, comparison: IndexComparison, code: int, is_value: bool) -> BitMap:
        """Return the rows whose code has this comparison with a value's, which may be absent."""
        if not is_value and comparison is IndexComparison.AT_MOST:
            comparison = IndexComparison.LESS
        if not is_value and comparison is IndexComparison.GREATER:
            comparison = IndexComparison.AT_LEAST
        return self._slices.rows(comparison, code)

    def _rows_of(self, values: pa.Array) -> BitMap:
        rows = BitMap()
        for key in self._codec.keys(values):
            code, is_value = self._dictionary.code(key)
            if is_value:
                rows |= self._slices.rows(IndexComparison.ONE_OF, code)
        return rows


def _read_slices(data: bytes, byte_offset: int) -> BitSlices:
    head_length, version, count, existence_length, _ = _SLICES.unpack_from(data, byte_offset)
    if version != _VERSION:
        raise ValueError(f"slices of version {version}")
    extents_start, body_start = byte_offset + _SLICES.size, byte_offset + 4 + head_length
    existence, _ = read_bitmap(data, body_start)
    slices = [
        read_bitmap(data, body_start + existence_length + offset)[0]
        for offset, _ in _EXTENT.iter_unpack(
            data[extents_start : extents_start + _EXTENT.size * count]
        )
    ]
    return BitSlices(existence, slices)


RANGE_BITMAP = FileIndexKind("range-bitmap", _RangeBitmapBuilder, _RangeBitmapReader)
