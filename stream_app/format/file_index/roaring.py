"""Encodes bitmaps of rows in Roaring's portable format, compressed as in Java."""

from __future__ import annotations

import array

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap

RowNumbers = npt.NDArray[np.uint32]
"""Numbers of rows of a file, ascending: uint32 [n]."""


def bitmap_of(rows: RowNumbers) -> BitMap:
    """Return the bitmap of rows."""
    return BitMap(array.array("I", rows.tobytes()))


def bitmap_bytes(bitmap: BitMap) -> bytes:
    """Return the bytes of a bitmap, which it compresses in place."""
    bitmap.run_optimize()
    return bitmap.serialize()


def read_bitmap(data: bytes, byte_offset: int) -> tuple[BitMap, int]:
    """Return the bitmap at a byte offset, and the offset after it."""
    bitmap = BitMap.deserialize(data[byte_offset:])
    return bitmap, byte_offset + len(bitmap.serialize())


def all_rows(count: int) -> BitMap:
    """Return the bitmap of all rows of a file."""
    return BitMap(range(count))
