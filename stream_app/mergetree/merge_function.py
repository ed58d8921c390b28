"""Rows of one key → one row, for whole batches at a time.

Used at flush, in compaction and on read: the same function everywhere, or versions get lost.

Source: Paimon `mergetree/compact/MergeFunction.java`, `DeduplicateMergeFunction.java`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from stream_app.mergetree.key_value_batch import KeyValueLayout, Mask, is_retract, take
from stream_app.mergetree.merge_window import MergeWindow


class MergeFunction(Protocol):
    """Merges all versions of each key of a batch."""

    def merge(self, window: MergeWindow, layout: KeyValueLayout) -> pa.RecordBatch:
        """One row a key, in key order."""
        ...


@dataclass(frozen=True, slots=True)
class Deduplicate:
    """The newest version wins, whatever its kind; a newest delete stays a delete.

    With `ignore_delete`, -U and -D rows count as if they were not there.
    """

    ignore_delete: bool = False

    def merge(self, window: MergeWindow, layout: KeyValueLayout) -> pa.RecordBatch:
        """Keep the last row of each key."""
        if self.ignore_delete:
            window = _without_retracts(window)
        order, last = window.order, window.last_rows(layout)
        if last.all():
            return take(window.batch, order)
        return take(window.batch, np.flatnonzero(last) if order is None else order[last])


def _without_retracts(window: MergeWindow) -> MergeWindow:
    retract: Mask = is_retract(window.batch)
    if not retract.any():
        return window
    kept, order = ~retract, window.order
    return MergeWindow(window.batch, np.flatnonzero(kept) if order is None else order[kept[order]])
