"""Merges the rows of a key by computing each column with a function of its values.

Source: Paimon `mergetree/compact/aggregate/AggregateMergeFunction.java`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from stream_app.mergetree.key_value_batch import KeyValueLayout, retract_kind_mask
from stream_app.mergetree.merge_engines.aggregates.aggregate_registry import fold_column
from stream_app.mergetree.merge_engines.aggregates.segment_changes import ChangeOp
from stream_app.mergetree.merge_engines.key_segments import key_segments
from stream_app.mergetree.merge_window import MergeWindow
from stream_app.model.row_kind import RowKind
from stream_app.model.schema.merge.merge_rules import MergeRules


@dataclass(frozen=True, slots=True)
class Aggregation:
    """Aggregate functions. A -U or -D row undoes its values, or, by option, -D the row."""

    rules: MergeRules
    merges_in_parts: ClassVar[bool] = False

    def merge(
        self, window: MergeWindow, layout: KeyValueLayout, *, merges_single_rows: bool = False
    ) -> pa.RecordBatch:
        """Merge a window into one row for each key.

        Raises:
            MergeError: a function cannot undo a row.
        """
        keys = key_segments(window, layout, merges_single_rows=merges_single_rows)
        if keys is None:
            return layout.rows_at(window.batch, window.order)
        kinds = keys.kinds()
        ops = np.where(retract_kind_mask(kinds), np.int8(ChangeOp.RETRACT), np.int8(ChangeOp.ADD))
        is_delete = np.zeros(len(kinds), np.bool_)
        if self.rules.removes_on_delete:
            is_delete = kinds == RowKind.DELETE
            ops[is_delete] = ChangeOp.SET
        changes = keys.changes(ops)
        aggregated_names = self.rules.aggregates.keys() - layout.constant_names
        return keys.batch_of(
            {
                name: fold_column(window.batch.column(name), changes, self.rules.aggregates[name])
                for name in window.batch.schema.names
                if name in aggregated_names
            },
            sequence_indices=keys.row_indices[changes.ends],
            is_delete=is_delete[changes.ends],
            layout=layout,
        )
