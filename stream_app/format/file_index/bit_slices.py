"""Stores an integer for each row as one bitmap per bit, and compares all rows with an integer.

In `bit_sliced_index` the integers are values. In `range_bitmap` they are ranks among the sorted
values.

Source: O'Neil and Quass, "Improved query performance with variant indexes", 1997; Paimon
`utils/BitSliceIndexRoaringBitmap.java`, `fileindex/rangebitmap/BitSliceIndexBitmap.java`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap

from stream_app.format.file_index.index_kind import IndexComparison
from stream_app.format.file_index.roaring import RowNumbers, bitmap_of


@dataclass(frozen=True, slots=True)
class BitSlices:
    """The integers of some rows.

    Attributes:
        existence: the rows that have an integer.
        slices: for each bit 0, 1, 2 …, the rows in whose integer the bit is set.
    """

    existence: BitMap
    slices: Sequence[BitMap]

    @classmethod
    def of_integers(cls, rows: RowNumbers, integers: npt.NDArray[np.int64], bits: int) -> BitSlices:
        """Return the slices of non-negative integers.

        Args:
            rows, integers: uint32 [n], int64 [n].
            bits: the number of slices.
        """
        slices = [bitmap_of(rows[(integers >> bit & 1).astype(bool)]) for bit in range(bits)]
        return cls(bitmap_of(rows), slices)

    def rows(self, comparison: IndexComparison, bound: int) -> BitMap:
        """Return the rows whose integer has this comparison with `bound`."""
        if bound < 0 or bound >> len(self.slices):
            is_all = comparison in (
                (IndexComparison.GREATER, IndexComparison.AT_LEAST)
                if bound < 0
                else (IndexComparison.LESS, IndexComparison.AT_MOST)
            )
            return self.existence if is_all or comparison is IndexComparison.NONE_OF else BitMap()
        less, greater, equal = BitMap(), BitMap(), self.existence
        for bit in reversed(range(len(self.slices))):
            if bound >> bit & 1:
                less |= equal - self.slices[bit]
                equal = equal & self.slices[bit]
            else:
                greater |= equal & self.slices[bit]
                equal = equal - self.slices[bit]
        rows_by_comparison = {
            IndexComparison.ONE_OF: equal,
            IndexComparison.NONE_OF: less | greater,
            IndexComparison.LESS: less,
            IndexComparison.AT_MOST: less | equal,
            IndexComparison.GREATER: greater,
            IndexComparison.AT_LEAST: greater | equal,
        }
        return rows_by_comparison[comparison]
