"""Limits how deeply a message may nest, equally for all JSON parsers here.

`pyarrow.json` has no limit, orjson stops at 1,024 levels, and Python's parser when its stack
overflows. So this module counts the depth in the bytes. A format keeps records that nest too deeply
out of the columnar parse, and the reader of single records refuses them.
"""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa

from stream_app.arrow_buffers import Bools, Int32s, Int64s, bytes_of, lengths_of, offsets_of

NESTING_MAX = 128
"""Levels of a message; MongoDB's documents have 100. A reader may call itself at each level."""

_STRING = re.compile(rb'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)', re.DOTALL)
"""A string, also an unterminated one: so each byte is scanned once."""
_SEARCH_SIZE = 1 << 17


def nests_too_deeply(value: bytes, levels_max: int = NESTING_MAX) -> bool:
    """Return whether brackets outside of strings nest deeper than the limit."""
    if value.count(b"[") + value.count(b"{") <= levels_max:
        return False
    data = np.frombuffer(_STRING.sub(b"", value), np.uint8) | 32  # turns brackets into braces
    steps = (data == ord("{")).astype(np.int8) - (data == ord("}")).astype(np.int8)
    return int(np.cumsum(steps, dtype=np.int64).max(initial=0)) > levels_max


def are_too_deep(values: pa.Array, levels_max: int = NESTING_MAX) -> Bools:
    """Mark the values that nest deeper than the limit: bool [n].

    Args:
        values: binary [n] without nulls.
    """
    is_too_deep: Bools = np.zeros(len(values), np.bool_)
    # Few values have so many brackets; they are examined one by one.
    openings = _openings(values)
    for row_index in _indices_of_many_brackets(
        offsets_of(values), openings, lengths_of(values), levels_max
    ):
        is_too_deep[row_index] = nests_too_deeply(values[row_index].as_py(), levels_max)
    return is_too_deep


def _openings(values: pa.Array) -> Int64s:
    """Return the positions of opening brackets in the values' bytes, including those in strings."""
    offsets = offsets_of(values)
    data = bytes_of(values)[: offsets[-1]]
    # Blocks fit into the processor's cache, because reading memory costs the most.
    positions = [
        np.flatnonzero(data[start : start + _SEARCH_SIZE] | 32 == ord("{")) + start
        for start in range(int(offsets[0]), len(data), _SEARCH_SIZE)
    ]
    return np.concatenate([np.empty(0, np.int64), *positions])


def _indices_of_many_brackets(
    offsets: Int32s, openings: Int64s, lengths: Int32s, levels_max: int
) -> list[int]:
    if len(openings) <= levels_max:
        return []
    # Two brackets of one value are at most as far apart as the longest value is long.
    distances = openings[levels_max:] - openings[:-levels_max]
    starts = np.flatnonzero(distances < lengths.max())
    indices = np.searchsorted(offsets, openings[starts], side="right")
    are_of_one_value = indices == np.searchsorted(
        offsets, openings[starts + levels_max], side="right"
    )
    return [int(index) - 1 for index in np.unique(indices[are_of_one_value])]
