"""Merges the rows of a key into its newest row.

Source: Paimon `mergetree/compact/DeduplicateMergeFunction.java`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from stream_app.arrow_buffers import Bools
from stream_app.mergetree.key_value_batch import KeyValueLayout, retract_mask
from stream_app.mergetree.merge_window import MergeWindow


@dataclass(frozen=True, slots=True)
class Deduplicate:
    """The merge engine that keeps the newest row of any kind, even if it is a delete.

    With `ignores_deletes`, -U and -D rows are ignored.
    """

    ignores_deletes: bool = False
    merges_in_parts: ClassVar[bool] = True

    def merge(
        self, window: MergeWindow, layout: KeyValueLayout, *, merges_single_rows: bool = False
    ) -> pa.RecordBatch:
        """Keep the last row of each key."""
        del merges_single_rows
        if self.ignores_deletes:
            window = without_retracts(window)
        order, is_last = window.order, window.is_last_row(layout)
        if is_last.all():
            return layout.rows_at(window.batch, order)
        return layout.rows_at(
            window.batch, np.flatnonzero(is_last) if order is None else order[is_last]
        )


def without_retracts(window: MergeWindow) -> MergeWindow:
    """Drop the rows of kind -U and -D."""
    is_retract: Bools = retract_mask(window.batch)
    if not is_retract.any():
        return window
    if window.order is None:
        return MergeWindow(window.batch, np.flatnonzero(~is_retract))
    return MergeWindow(window.batch, window.order[~is_retract[window.order]])
