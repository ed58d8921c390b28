"""Encodes the sorted values of an index ``range-bitmap``, in chunks with known first values.

A value's code is its rank among all. A chunk has its first value in its head, and the others
after all heads, where texts follow their offsets. The dictionary's own head has its length, a
version byte, the number of chunks, and the bytes of the heads' offsets and of the heads.

Source: Paimon `fileindex/rangebitmap/dictionary/chunked/ChunkedDictionary.java`,
`FixedLengthChunk.java`, `VariableLengthChunk.java`.
"""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from stream_app.format.file_index.index_values import IndexKey, ValueCodec

_HEAD = struct.Struct(">ibiii")
_VERSION = 1
_CHUNK = struct.Struct(">iiiii")


def encode_dictionary(values: pa.Array, codec: ValueCodec, chunk_size: int) -> bytes:
    """Encode the dictionary of sorted values.

    Args:
        values: the bytes of distinct values in ascending order: binary [n].
        chunk_size: the bytes of a chunk's values after the first, with their offsets.
    """
    sizes = pc.binary_length(values).to_numpy().astype(np.int64)
    ends = np.cumsum(sizes)
    offsets, heads, bodies = [], [], []
    head_offset = body_offset = start = 0
    while start < len(sizes):
        end = _end_of_chunk(ends, start, chunk_size, codec)
        first_key, later_keys = values[start].as_py(), values.slice(start + 1, end - start - 1)
        keys = b"".join(later_keys.to_pylist())
        if codec.width is None:
            key_offsets = np.cumsum(sizes[start + 1 : end]) - sizes[start + 1 : end]
            keys = key_offsets.astype(">i4").tobytes() + keys
            lengths = 4 * len(later_keys), len(keys) - 4 * len(later_keys)
        else:
            lengths = len(keys), codec.width
        head = b"\1" + first_key + _CHUNK.pack(start, body_offset, len(later_keys), *lengths)
        offsets.append(struct.pack(">i", head_offset))
        heads.append(head)
        bodies.append(keys)
        head_offset += len(head)
        body_offset += len(keys)
        start = end
    head = _HEAD.pack(_HEAD.size - 4, _VERSION, len(heads), 4 * len(heads), head_offset)
    return b"".join([head, *offsets, *heads, *bodies])


def _end_of_chunk(
    ends: npt.NDArray[np.int64], start: int, chunk_size: int, codec: ValueCodec
) -> int:
    end = int(np.searchsorted(ends, int(ends[start]) + chunk_size, side="right"))
    return end if codec.width is not None else min(end, start + 1 + chunk_size // 4)


@dataclass(frozen=True, slots=True)
class _Chunk:
    first_key: IndexKey
    code: int
    offset: int
    count: int
    offsets_length: int


class ChunkedDictionary:
    """A dictionary that looks up the codes of values."""

    def __init__(self, data: bytes, byte_offset: int, codec: ValueCodec) -> None:
        head_length, version, count, offsets_length, heads_length = _HEAD.unpack_from(
            data, byte_offset
        )
        if version != _VERSION:
            raise ValueError(f"a dictionary of version {version}")
        self._data = data
        self._codec = codec
        head_start = byte_offset + 4 + head_length + offsets_length
        self._keys_start = head_start + heads_length
        self._chunks: list[_Chunk] = []
        for _ in range(count):
            first_key, key_end = codec.read(data, head_start + 1)
            code, offset, key_count, length, _ = _CHUNK.unpack_from(data, key_end)
            self._chunks.append(
                _Chunk(first_key, code, offset, key_count, length if codec.width is None else 0)
            )
            head_start = key_end + _CHUNK.size

    def code(self, key: IndexKey) -> tuple[int, bool]:
        """Return the number of values less than a key, and whether the key is a value."""
        index = bisect_right(self._chunks, key, key=lambda chunk: chunk.first_key) - 1
        if index < 0:
            return 0, False
        chunk = self._chunks[index]
        keys = [chunk.first_key, *self._later_keys(chunk)]
        key_index = bisect_left(keys, key)
        return chunk.code + key_index, key_index < len(keys) and keys[key_index] == key

    def _later_keys(self, chunk: _Chunk) -> list[IndexKey]:
        keys = []
        byte_offset = self._keys_start + chunk.offset + chunk.offsets_length
        for _ in range(chunk.count):  # a chunk has few values: 16 KB by default
            key, byte_offset = self._codec.read(self._data, byte_offset)
            keys.append(key)
        return keys
