"""Hashes the rows of columns by machine code: their canonical texts, piece by piece, and MD5.

`row_hashes` loads it. The texts of a piece stay in a core's cache.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from stream_app.arrow_buffers import lengths_of
from stream_app.format.row_hash.compiled.digests import LaneBuffers, put_digests
from stream_app.format.row_hash.compiled.md5_block import BLOCK_SIZE, INITIAL_STATE, LANE_COUNT
from stream_app.format.row_hash.compiled.text_bytes import (
    DIGITS,
    NUMBERS,
    TEXTS,
    WHOLE_MAX,
    TextColumns,
    put_text,
)
from stream_app.format.row_hash.md5_lanes import UInt64s, lanes_of
from stream_app.machine_code.compiler import compiled, put_number

PlacedValues = tuple[int, pa.Array]
"""A column's index in the table, and its values."""

_PIECE_SIZE = 1 << 18
"""The bytes of the texts that are hashed together."""
_STRING_KINDS = {pa.string(): TEXTS, pa.binary(): DIGITS}
_OVERRUN_SIZE = 2 * BLOCK_SIZE
"""The padding of a text, and the bytes that whole words write after it."""


def hashed_columns(columns: Sequence[PlacedValues], count: int) -> tuple[UInt64s, UInt64s]:
    """Return the two hash numbers of each row: uint64 [n] and uint64 [n].

    Args:
        columns: indices, and values as `row_texts.plain_values` gives them.
        count: n.
    """
    wide = [
        (column_index, values.cast(pa.int64()) if pa.types.is_integer(values.type) else values)
        for column_index, values in columns
    ]
    buffer_values = np.array([_buffer_values_of(*column) for column in wide], np.int64).reshape(
        -1, 8
    )
    buffer_values = np.ascontiguousarray(buffer_values.T)
    texts = np.empty(_PIECE_SIZE + _text_bytes_max(wide, count) + _OVERRUN_SIZE, np.uint8)
    starts = np.empty(_PIECE_SIZE // BLOCK_SIZE + 2, np.int64)
    lanes = np.empty((3, LANE_COUNT), np.int64)
    state = np.empty((len(INITIAL_STATE), LANE_COUNT), np.uint32)
    digests = np.empty(2 * count, ">u8")
    _hash(
        count,
        TextColumns(len(wide), *(int(array.ctypes.data) for array in buffer_values)),
        int(texts.ctypes.data),
        int(starts.ctypes.data),
        int(digests.ctypes.data),
        LaneBuffers(*(int(array.ctypes.data) for array in (*lanes, state))),
    )
    return lanes_of(digests)


def _buffer_values_of(column_index: int, values: pa.Array) -> tuple[int, ...]:
    """Return the column's number in each buffer of `TextColumns`."""
    prefix = f"{column_index}=".encode()
    validity, fixed_buffer, *strings = values.buffers()
    kind, width = (NUMBERS, 8) if not strings else (_STRING_KINDS[values.type], 4)
    data, size = (strings[0].address, strings[0].size) if any(strings) else (0, 0)
    return (
        kind,
        int.from_bytes(prefix, "little"),
        len(prefix),
        fixed_buffer.address + width * values.offset if fixed_buffer else 0,
        data,
        data + size - 8,
        validity.address if values.null_count else 0,
        values.offset,
    )


def _text_bytes_max(columns: Sequence[PlacedValues], count: int) -> int:
    """Return the bytes that the text of any row has at most."""
    strings = np.zeros(count, np.int64)
    for _, values in columns:
        if not pa.types.is_int64(values.type):
            strings += lengths_of(values)
    overhead = sum(len(f"{column_index}=:;") + WHOLE_MAX for column_index, _ in columns)
    return overhead + int(strings.max(initial=0))


@compiled
def _hash(
    count: int, columns: TextColumns, texts: int, starts: int, digests: int, lanes: LaneBuffers
) -> None:
    row_index = 0
    while row_index < count:
        first_index, cursor = row_index, texts
        put_number(starts, 0, cursor)
        while row_index < count and cursor < texts + _PIECE_SIZE:
            cursor = put_text(cursor, row_index, columns)
            row_index += 1
            put_number(starts, row_index - first_index, cursor)
        put_digests(starts, row_index - first_index, digests + 16 * first_index, lanes)
