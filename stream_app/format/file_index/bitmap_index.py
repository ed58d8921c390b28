"""Encodes the index ``bitmap``, which has the rows of each value and so excludes even single rows.

The index has a version byte, a head that lists the values, and the bitmaps of rows. The head has
the numbers of rows and values, and the offset of the bitmap of nulls. Version 1 lists values in the
order of Java's hash map. Version 2 sorts them into blocks, and lists the first values before the
blocks. A negative offset is ``-1 - row``: only this row has the value, and there is no bitmap.

Settings are ``version``, and ``index-block-size`` of version 2.

Source: Paimon `fileindex/bitmap/BitmapFileIndex.java`, `BitmapFileIndexMeta.java`,
`BitmapFileIndexMetaV2.java`.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap

from stream_app.arrow_buffers import Int64s
from stream_app.format.arrow_schema import arrow_type
from stream_app.format.file_index.index_kind import FileIndexKind, IndexComparison, IndexTest
from stream_app.format.file_index.index_values import (
    DistinctValues,
    IndexKey,
    ValueCodec,
    fixed_bytes,
    loses_digits,
)
from stream_app.format.file_index.java_hash_order import hash_order
from stream_app.format.file_index.roaring import all_rows, bitmap_bytes, bitmap_of, read_bitmap
from stream_app.model.options.option import parse_memory_size
from stream_app.model.schema.data_type import DataType

_SORTED_VERSION = 2
_BLOCK_SIZE = "16 kb"
_COUNTS = struct.Struct(">ii?")
_INT = struct.Struct(">i")
_NO_LENGTH = -1


class _BitmapBuilder:
    def __init__(self, data_type: DataType, settings: Mapping[str, str]) -> None:
        self._data_type = data_type
        self._version = int(settings.get("version", _SORTED_VERSION))
        self._block_size = parse_memory_size(settings.get("index-block-size", _BLOCK_SIZE))
        self._chunks: list[pa.Array] = []

    def add(self, values: pa.Array) -> None:
        self._chunks.append(values)

    def body(self) -> bytes | None:
        """Return the index; None if a value does not fit into a block."""
        column = pa.chunked_array(self._chunks, arrow_type(self._data_type)).combine_chunks()
        values = DistinctValues.of_column(column, self._data_type)
        bitmaps = _encode_bitmaps(values)
        head = struct.pack(">b", self._version)
        head += _COUNTS.pack(len(column), len(values.values), bool(bitmaps.null_count))
        if bitmaps.null_count:
            head += _INT.pack(bitmaps.null_offset)
        if self._version < _SORTED_VERSION:
            order = hash_order(values.java_hashes(), is_computed=True)
            entries = _join_numbers(values.encode(), bitmaps.offsets)
            return head + _concatenate(entries, order) + bitmaps.body
        if bitmaps.null_count:
            head += _INT.pack(len(bitmaps.null_bitmap))
        blocks = self._blocks(values, bitmaps)
        return None if blocks is None else head + blocks + bitmaps.body

    def _blocks(self, values: DistinctValues, bitmaps: _EncodedBitmaps) -> bytes | None:
        """Encode the blocks of sorted values, after each block's first value and offset."""
        order, encoded_values = values.order(), values.encode()
        entries = _join_numbers(encoded_values, bitmaps.offsets, bitmaps.lengths)
        sizes = pc.binary_length(entries).to_numpy().astype(np.int64)[order]
        if len(sizes) and int(sizes.max()) > self._block_size - _INT.size:
            return None
        ends = np.cumsum(sizes)
        starts = [0] if len(sizes) else []
        while starts and starts[-1] < len(sizes):
            block_end = (
                self._block_size - _INT.size + int(ends[starts[-1]]) - int(sizes[starts[-1]])
            )
            starts.append(int(np.searchsorted(ends, block_end, side="right")))
        blocks = [
            _INT.pack(end - start) + _concatenate(entries, order[start:end])
            for start, end in pairwise(starts)
        ]
        parts = [_INT.pack(len(blocks))]
        offset = 0
        for start, block in zip(starts, blocks, strict=False):
            parts += [encoded_values[int(order[start])].as_py(), _INT.pack(offset)]
            offset += len(block)
        return b"".join([*parts, _INT.pack(offset), *blocks])


@dataclass(frozen=True, slots=True)
class _EncodedBitmaps:
    """The bitmaps of all values, and their offsets in the body.

    Attributes:
        null_count: the number of rows without a value.
        null_bitmap: the bitmap of these rows; the body has it only for several rows.
        offsets, lengths: int64 [values].
    """

    null_count: int
    null_offset: int
    null_bitmap: bytes
    offsets: Int64s
    lengths: Int64s
    body: bytes


def _encode_bitmaps(values: DistinctValues) -> _EncodedBitmaps:
    """Return the bitmaps of values; a value of one row has its row number as an offset."""
    indices, starts = values.indices_by_value()
    counts = np.diff(starts)
    offsets = -1 - indices[np.minimum(starts[:-1], max(len(indices) - 1, 0))].astype(np.int64)
    lengths = np.full(len(counts), _NO_LENGTH, dtype=np.int64)
    null_indices = np.flatnonzero(values.codes < 0).astype(np.uint32)
    null_bitmap = bitmap_bytes(bitmap_of(null_indices))
    parts = [null_bitmap] if len(null_indices) > 1 else []
    offset = sum(map(len, parts))
    order = hash_order(values.java_hashes(), is_computed=True)
    for code in order[counts[order] > 1].tolist():  # each value has its own bitmap
        part = bitmap_bytes(bitmap_of(indices[starts[code] : starts[code + 1]]))
        offsets[code], lengths[code] = offset, len(part)
        parts.append(part)
        offset += len(part)
    null_offset = -1 - int(null_indices[0]) if len(null_indices) == 1 else 0
    return _EncodedBitmaps(
        len(null_indices), null_offset, null_bitmap, offsets, lengths, b"".join(parts)
    )


def _join_numbers(encoded_values: pa.Array, *integer_columns: Int64s) -> pa.Array:
    """Return each value's bytes followed by its numbers: binary [n]."""
    columns = np.column_stack([column.astype(">i4") for column in integer_columns]).astype(">i4")
    return pc.binary_join_element_wise(encoded_values, fixed_bytes(columns), b"")


def _concatenate(entries: pa.Array, order: Int64s) -> bytes:
    ordered_entries = entries.take(pa.array(order))
    _, bounds, data = ordered_entries.buffers()
    ends = np.frombuffer(bounds, dtype=np.int32)[
        ordered_entries.offset : ordered_entries.offset + len(ordered_entries) + 1
    ]
    return (
        b"" if data is None or not len(ordered_entries) else data.to_pybytes()[ends[0] : ends[-1]]
    )


@dataclass(slots=True)
class _BitmapReader:
    """A lookup of values. In version 2 it reads only the block that may have a value."""

    body: bytes
    data_type: DataType
    _codec: ValueCodec = field(init=False)
    _row_count: int = field(init=False)
    _null_offset: int | None = field(init=False, default=None)
    _blocks: list[tuple[IndexKey, int]] = field(init=False, default_factory=list)
    _offsets: dict[IndexKey, int] = field(init=False, default_factory=dict)
    _bitmaps_start: int = field(init=False)

    def __post_init__(self) -> None:
        self._codec = ValueCodec.of_type(self.data_type)
        version = self.body[0]
        if version not in (1, _SORTED_VERSION):
            raise ValueError(f"a bitmap index of version {version}")
        self._row_count, value_count, has_null = _COUNTS.unpack_from(self.body, 1)
        byte_offset = 1 + _COUNTS.size
        if has_null:
            self._null_offset, byte_offset = self._read_int(byte_offset)
        if version == 1:
            for key, offset, end in self._read_entries(byte_offset, value_count, number_count=1):
                self._offsets[key] = offset
                byte_offset = end
            self._bitmaps_start = byte_offset
            return
        byte_offset += _INT.size if has_null else 0
        block_count, byte_offset = self._read_int(byte_offset)
        for key, offset, end in self._read_entries(byte_offset, block_count, number_count=1):
            self._blocks.append((key, offset))
            byte_offset = end
        size, byte_offset = self._read_int(byte_offset)
        self._blocks = [(key, byte_offset + offset) for key, offset in self._blocks]
        self._bitmaps_start = byte_offset + size

    def rows(self, test: IndexTest) -> BitMap | None:
        """Return the rows with, or without, given values or nulls; None for tests of order."""
        nulls = BitMap() if self._null_offset is None else self._read_bitmap(self._null_offset)
        match test.comparison:
            case IndexComparison.ONE_OF:
                return self._rows_of(test.values)
            case IndexComparison.NONE_OF if not loses_digits(self.data_type):
                return all_rows(self._row_count) - nulls - self._rows_of(test.values)
            case IndexComparison.NULL:
                return nulls
            case IndexComparison.NOT_NULL:
                return all_rows(self._row_count) - nulls
            case _:
                return None

    def _rows_of(self, values: pa.Array) -> BitMap:
        rows = BitMap()
        for key in self._codec.keys(values):
            if (offset := self._offset(key)) is not None:
                rows |= self._read_bitmap(offset)
        return rows

    def _offset(self, key: IndexKey) -> int | None:
        index = bisect_right(self._blocks, key, key=lambda block: block[0]) - 1
        if index >= 0:
            count, byte_offset = self._read_int(self._blocks[index][1])
            for value, offset, _ in self._read_entries(byte_offset, count, number_count=2):
                if value == key:
                    return offset
        return self._offsets.get(key)

    def _read_entries(
        self, byte_offset: int, count: int, *, number_count: int
    ) -> Iterator[tuple[IndexKey, int, int]]:
        """Yield the entries from a byte offset on: value, its offset, and the byte offset after."""
        for _ in range(count):
            key, byte_offset = self._codec.read(self.body, byte_offset)
            offset, _ = self._read_int(byte_offset)
            byte_offset += number_count * _INT.size
            yield key, offset, byte_offset

    def _read_bitmap(self, offset: int) -> BitMap:
        if offset < 0:
            return BitMap([-1 - offset])
        return read_bitmap(self.body, self._bitmaps_start + offset)[0]

    def _read_int(self, byte_offset: int) -> tuple[int, int]:
        return _INT.unpack_from(self.body, byte_offset)[0], byte_offset + _INT.size


BITMAP = FileIndexKind("bitmap", _BitmapBuilder, _BitmapReader)
