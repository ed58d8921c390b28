"""Finds similar parts of many messages by their bytes, without a parser.

It is for parts that differ only in numbers, such as positions and times.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stream_app.arrow_buffers import Bools, Bytes, Int64s

WORD = 8
"""The number of bytes in a word of `ByteWords`."""
_BLOCK_SIZE = 1 << 16
_WORDS_AT_ONCE = 1 << 17


@dataclass(frozen=True, slots=True, eq=False)
class BytePattern:
    """A pattern for texts of `len(lowest)` bytes.

    Attributes:
        lowest: uint8 [t]; the lowest byte that matches at each index.
        spread: uint8 [t]; how many of the following byte values match there too.
    """

    lowest: Bytes
    spread: Bytes

    def __len__(self) -> int:
        return len(self.lowest)

    def fits(self, data: Bytes, starts: Int64s) -> Bools:
        """Return whether the `len(self)` bytes at each start match the pattern: bool [len(starts)].

        A pattern of two digits, of which the first is not zero::

            lowest   a 1 0
            spread   0 8 9
            data     a10a07b17a99
            starts   [0, 3, 6, 9]
            result   [T, F, F, T]

        Args:
            data: uint8; contains all bytes of each text.
        """
        if not len(starts):
            return np.zeros(0, np.bool_)
        size = len(self)
        texts = np.lib.stride_tricks.sliding_window_view(data, size)
        rows = max(1, _BLOCK_SIZE // size)
        lowest, spread = np.tile(self.lowest, rows), np.tile(self.spread, rows)
        result: Bools = np.ones(len(starts), np.bool_)
        # Blocks fit into the processor's cache, and each is compared as one long row.
        for start in range(0, len(starts), rows):
            block = texts[starts[start : start + rows]].reshape(-1)
            is_fit = (block - lowest[: len(block)]) <= spread[: len(block)]
            if not is_fit.all():
                result[start : start + rows] = is_fit.reshape(-1, size).all(axis=1)
        return result


def byte_pattern(text: bytes, ranges: Mapping[int, bytes]) -> BytePattern:
    """Return the pattern of a text; `ranges` gives the lowest and highest byte at some indices."""
    lowest = np.frombuffer(text, np.uint8).copy()
    spread = np.zeros(len(text), np.uint8)
    for index, (lowest_byte, highest_byte) in ranges.items():
        lowest[index], spread[index] = lowest_byte, highest_byte - lowest_byte
    return BytePattern(lowest, spread)


@dataclass(frozen=True, slots=True)
class ByteWords:
    """A view of eight bytes as one number, at any position of some data."""

    data: Bytes

    def occurs_at(self, positions: Int64s, word: bytes) -> Bools:
        """Mark the positions at which the word begins.

        Each position is at least eight bytes before the data's end.
        """
        if not len(positions):
            return np.zeros(0, np.bool_)
        words: npt.NDArray[np.uint64] = np.ndarray(
            (len(self.data) - WORD + 1,), "<u8", self.data.data, 0, (1,)
        )
        is_there: Bools = words[positions] == int.from_bytes(word, "little")
        return is_there


def masks_of_word(data: Bytes, word: bytes) -> Iterator[tuple[int, Bools]]:
    """Yield each block's first position, and the mask of its words that equal `word`.

    The word has two or four bytes. Blocks fit into the processor's cache, because reading memory
    costs the most.
    """
    size = len(word)
    for shift in range(size):
        words = data[shift : shift + (len(data) - shift) // size * size].view(f"<u{size}")
        for start in range(0, len(words), _WORDS_AT_ONCE):
            is_word = words[start : start + _WORDS_AT_ONCE] == int.from_bytes(word, "little")
            yield size * start + shift, is_word


def positions_of_word(data: Bytes, word: bytes) -> Int64s:
    """Return the positions of a word of two or four bytes, ascending."""
    size = len(word)
    positions = [start + size * np.flatnonzero(mask) for start, mask in masks_of_word(data, word)]
    return np.sort(np.concatenate([np.empty(0, np.int64), *positions]))


def positions_of(data: Bytes, text: bytes) -> Int64s:
    """Return the positions at which a text of four bytes or more begins, ascending."""
    positions = positions_of_word(data, text[:4])
    for index, byte in enumerate(text[4:], 4):
        positions = positions[data.take(positions + index, mode="clip") == byte]
    return positions
