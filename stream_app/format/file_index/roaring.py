"""Bitmaps of rows in the portable bytes of Roaring, compressed as Java compresses them."""

from __future__ import annotations

import array

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap

RowNumbers = npt.NDArray[np.uint32]
"""Rows of a file by their places, ascending: uint32 [n]."""


def bitmap_of(rows: RowNumbers) -> BitMap:
    """The bitmap of some rows."""
    return BitMap(array.array("I", rows.tobytes()))


def bitmap_bytes(bitmap: BitMap) -> bytes:
    """The bytes of a bitmap; it is compressed in place."""
    bitmap.run_optimize()
    return bitmap.serialize()


def read_bitmap(data: bytes, position: int) -> tuple[BitMap, int]:
    """The bitmap at a position, and the position behind it."""
    bitmap = BitMap.deserialize(data[position:])
    return bitmap, position + len(bitmap.serialize())


def all_rows(count: int) -> BitMap:
    """The bitmap of all rows of a file."""
    return BitMap(range(count))
