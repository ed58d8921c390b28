"""Rows of one key → one row, for whole batches at a time.

Used at flush, in compaction and on read: the same function everywhere, or versions get lost.

Source: Paimon `mergetree/compact/MergeFunction.java`, `DeduplicateMergeFunction.java`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from stream_app.mergetree.key_value_batch import (
    Indices,
    KeyValueLayout,
    Mask,
    is_retract,
    last_of_key,
    take,
)


class MergeFunction(Protocol):
    """Merges all versions of each key of a batch."""

    def merge(
        self, batch: pa.RecordBatch, order: Indices | None, layout: KeyValueLayout
    ) -> pa.RecordBatch:
        """One row a key, in key order.

        Args:
            batch: holds every version of each of its keys.
            order: sorts it by key and age; None when it lies so.
        """
        ...


@dataclass(frozen=True, slots=True)
class Deduplicate:
    """The newest version wins, whatever its kind; a newest delete stays a delete.

    With `ignore_delete`, -U and -D rows count as if they were not there.
    """

    ignore_delete: bool = False

    def merge(
        self, batch: pa.RecordBatch, order: Indices | None, layout: KeyValueLayout
    ) -> pa.RecordBatch:
        """Keep the last row of each key."""
        if self.ignore_delete:
            order = _without_retracts(batch, order)
        last = last_of_key(batch, order, layout)
        if last.all():
            return take(batch, order)
        return take(batch, np.flatnonzero(last) if order is None else order[last])


def _without_retracts(batch: pa.RecordBatch, order: Indices | None) -> Indices | None:
    retract: Mask = is_retract(batch)
    if not retract.any():
        return order
    kept = ~retract
    return np.flatnonzero(kept) if order is None else order[kept[order]]
