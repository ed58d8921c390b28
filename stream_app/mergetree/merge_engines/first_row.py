"""Merges the rows of a key into its oldest row.

Source: Paimon `mergetree/compact/FirstRowMergeFunction.java`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from stream_app.errors import MergeError
from stream_app.mergetree.key_value_batch import KeyValueLayout, retract_mask
from stream_app.mergetree.merge_engines.deduplicate import without_retracts
from stream_app.mergetree.merge_window import MergeWindow
from stream_app.model.schema.merge.refusal_rules import OF_FIRST_ROW


@dataclass(frozen=True, slots=True)
class FirstRow:
    """The merge engine that keeps the oldest row; with `ignores_deletes` it ignores -U and -D rows.

    Rows of higher levels are older than all later rows, so `merge` does not use levels.
    `changelog.before_row_lookup.FirstRowChangelog` looks up rows outside of the window.
    """

    ignores_deletes: bool = False
    merges_in_parts: ClassVar[bool] = True

    def merge(
        self, window: MergeWindow, layout: KeyValueLayout, *, merges_single_rows: bool = False
    ) -> pa.RecordBatch:
        """Keep the first row of each key.

        Raises:
            MergeError: a key has several rows, and some row of the window is a -U or -D.
        """
        del merges_single_rows
        if self.ignores_deletes:
            window = without_retracts(window)
        order, is_last = window.order, window.is_last_row(layout)
        if is_last.all():
            return layout.rows_at(window.batch, order)
        if not self.ignores_deletes and retract_mask(window.batch).any():
            raise MergeError(OF_FIRST_ROW.problem, fix=OF_FIRST_ROW.fix)
        first_rows = window.key_starts(layout)
        return layout.rows_at(window.batch, first_rows if order is None else order[first_rows])
