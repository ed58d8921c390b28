"""Defines a window of rows that can be merged, because it has all versions of their keys.

The write buffer and `sort_merge_reader` make windows, and a merge function merges them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from stream_app.arrow_buffers import Bools, Int64s
from stream_app.mergetree.key_value_batch import (
    KeyValueLayout,
    is_last_of_key,
    merge_order,
)


@dataclass(frozen=True, slots=True)
class MergeWindow:
    """A batch, and the order of its rows by key and age.

    Attributes:
        order: int64 [m], row indices that sort the batch; fewer than all n if a merge drops rows.
            None if the batch is in order.
        is_last: bool [m]; whether each row in order is the last of its key; None while that is
            unknown.
    """

    batch: pa.RecordBatch
    order: Int64s | None = None
    is_last: Bools | None = None

    def is_last_row(self, layout: KeyValueLayout) -> Bools:
        """Return the mask of rows, in order, that are the last (newest) of their key: bool [m]."""
        if self.is_last is None:
            return is_last_of_key(self.batch, self.order, layout)
        return self.is_last

    def key_starts(self, layout: KeyValueLayout) -> Int64s:
        """Return the start of each key's rows in the order, as segments for NumPy's `reduceat`.

        Returns:
            int64 [keys], ascending from 0; empty if the window has no rows.

        Four rows, in an order that sorts them by key and age::

            batch["k"]             [7, 5, 7, 5]
            batch["v"]             [1, 2, 3, 4]
            order                  [1, 3, 0, 2]
            batch["k"][order]      [5, 5, 7, 7]
            batch["v"][order]      [2, 4, 1, 3]
            is_last_row            [F, T, F, T]
            key_starts             [0, 2]
            np.add.reduceat(batch["v"][order], key_starts)       [6, 4]
            np.maximum.reduceat(batch["v"][order], key_starts)   [4, 3]

        `reduceat` refuses an empty window.
        """
        is_last = self.is_last_row(layout)
        starts: Int64s = np.flatnonzero(np.concatenate(([True], is_last[:-1]))[: len(is_last)])
        return starts


def sorted_window(batch: pa.RecordBatch, layout: KeyValueLayout) -> MergeWindow:
    """Return the window of an unordered batch."""
    return MergeWindow(batch, *merge_order(batch, layout))
