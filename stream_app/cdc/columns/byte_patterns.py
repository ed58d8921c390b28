"""Texts of one length whose bytes lie in ranges: many are compared with one without a parser.

Used for the parts of messages that are alike but for their numbers, such as positions and times.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from stream_app.cdc.columns.arrow_buffers import Bools, Bytes, Int64s

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
