"""Parts of many messages that are alike, found and cut out by their bytes without a parser.

Used for what is the same in all messages but for numbers, such as positions and times.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stream_app.cdc.columns.arrow_buffers import Bools, Bytes, Int32s, Int64s

_BLOCK_BYTES = 1 << 16


@dataclass(frozen=True, slots=True, eq=False)
class BytePattern:
    """What a text of `len(lowest)` bytes must be.

    Attributes:
        lowest: uint8 [t]; the least byte that fits at each place.
        spread: uint8 [t]; how many other bytes, those that follow it, fit there too.
    """

    lowest: Bytes
    spread: Bytes

    def __len__(self) -> int:
        return len(self.lowest)

    def fits(self, data: Bytes, starts: Int64s) -> Bools:
        """Where the `len(self)` bytes at each start fit: bool [len(starts)].

        Args:
            data: uint8; all the bytes of each text lie in it.
        """
        if not len(starts):
            return np.zeros(0, np.bool_)
        size = len(self)
        texts = np.lib.stride_tricks.sliding_window_view(data, size)
        rows = max(1, _BLOCK_BYTES // size)
        lowest, spread = np.tile(self.lowest, rows), np.tile(self.spread, rows)
        result: Bools = np.ones(len(starts), np.bool_)
        # In blocks that stay in the processor's cache, each compared as one long row.
        for at in range(0, len(starts), rows):
            block = texts[starts[at : at + rows]].reshape(-1)
            fit = (block - lowest[: len(block)]) <= spread[: len(block)]
            if not fit.all():
                result[at : at + rows] = fit.reshape(-1, size).all(axis=1)
        return result


def byte_pattern(text: bytes, ranges: Mapping[int, bytes]) -> BytePattern:
    """The text itself, but for the places of which `ranges` has the least and the largest byte."""
    lowest = np.frombuffer(text, np.uint8).copy()
    spread = np.zeros(len(text), np.uint8)
    for place, (least, largest) in ranges.items():
        lowest[place], spread[place] = least, largest - least
    return BytePattern(lowest, spread)


@dataclass(frozen=True, slots=True)
class Words:
    """Eight bytes at any places of some data."""

    data: Bytes

    def at(self, places: Int64s, word: bytes) -> Bools:
        """Where the word stands; each place is one of the data's, eight bytes before its end."""
        words: npt.NDArray[np.uint64] = np.ndarray(
            (len(self.data) - 7,), "<u8", self.data.data, 0, (1,)
        )
        found: Bools = words[places] == int.from_bytes(word, "little")
        return found


def places_of_pair(data: Bytes, pair: bytes) -> Int64s:
    """Where two bytes stand, ascending."""
    wanted = np.frombuffer(pair, np.uint16)[0]
    found = []
    for shift in (0, 1):
        words = data[shift : shift + (len(data) - shift) // 2 * 2].view(np.uint16)
        found.append(2 * np.flatnonzero(words == wanted) + shift)
    return np.sort(np.concatenate(found))


def pieces(data: pa.Buffer, bounds: Int32s, wanted: Bools) -> pa.Array:
    """The bytes between bounds, where they are wanted: binary, in a buffer of their own.

    Args:
        bounds: int32 [p + 1], ascending.
        wanted: bool [p].
    """
    buffers = [None, pa.py_buffer(np.ascontiguousarray(bounds)), data]
    cut = pa.Array.from_buffers(pa.binary(), len(wanted), buffers)
    return cut.filter(pa.array(wanted))
