"""Rows that can be merged: all versions of each of their keys.

Made by the write buffer and by sort_merge_reader, taken by a merge function.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from stream_app.mergetree.key_value_batch import (
    Indices,
    KeyValueLayout,
    Mask,
    key_order,
    last_of_key,
)


@dataclass(frozen=True, slots=True)
class MergeWindow:
    """A batch, and the order of its rows by key and age.

    Attributes:
        order: sorts the batch; None when it lies so.
        last: for each row in order, whether it is the last of its key, when that is known already.
    """

    batch: pa.RecordBatch
    order: Indices | None = None
    last: Mask | None = None

    def last_rows(self, layout: KeyValueLayout) -> Mask:
        """For each row in order: is it the last (newest) of its key?"""
        return last_of_key(self.batch, self.order, layout) if self.last is None else self.last


def sorted_window(batch: pa.RecordBatch, layout: KeyValueLayout) -> MergeWindow:
    """The window of a batch that lies in no order."""
    return MergeWindow(batch, *key_order(batch, layout))
