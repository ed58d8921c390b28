"""A window's rows by key, and one row a key made of them.

A key that has one row keeps it as it is, whatever its kind; a merge engine sees only the others.

Source: Paimon `mergetree/compact/ReducerMergeFunctionWrapper.java`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stream_app.mergetree.key_value_batch import Indices, KeyValueLayout, Mask, is_retract
from stream_app.mergetree.merge_engines.aggregates.steps import Folded
from stream_app.mergetree.merge_window import MergeWindow
from stream_app.model.row_kind import RowKind
from stream_app.model.schema.table_schema import SEQUENCE_NUMBER, VALUE_KIND


@dataclass(frozen=True)
class KeySegments:
    """The keys of a window; without those of one row when a row is -U or -D, or may change.

    One row that adds values merges to itself, but for a sequence group whose sequence is null. One
    that takes them back must not be undone.

    Three keys, of which two have several rows::

        batch["k"]     [7, 5, 7, 5, 6]
        newest         [3, 4, 2]              the last row of 5, 6 and 7
        is_merged      [T, F, T]
        rows           [1, 3,  4,  0, 2]      of each key; or  [1, 3,  0, 2]
        starts         [0,     2,  3]                          [0,     2]

    Attributes:
        newest: int64 [keys], the last row of each key.
        is_merged: bool [keys], which keys have several rows.
        rows: int64 [m], the rows of all keys, or of those with several rows, in order.
        starts: int64 [segments], where each of these keys begins in `rows`.
    """

    batch: pa.RecordBatch
    newest: Indices
    is_merged: Mask
    rows: Indices
    starts: Indices

    def kinds(self) -> npt.NDArray[np.int8]:
        """The row kind of each of `rows`: int8 [m]."""
        if self.batch.schema.get_field_index(VALUE_KIND) < 0:
            return np.zeros(len(self.rows), np.int8)
        kinds: npt.NDArray[np.int8] = self.batch.column(VALUE_KIND).to_numpy()
        return kinds[self.rows]

    def batch_of(
        self,
        values: Mapping[str, Folded],
        *,
        sequence_rows: Indices,
        is_delete: Mask,
        layout: KeyValueLayout,
    ) -> pa.RecordBatch:
        """One row a key, in key order.

        Args:
            values: of columns, one a segment. Columns without a value here keep the newest row's.
            sequence_rows: int64 [segments], the row whose sequence number is the merged row's; -1
                for number 0.
            is_delete: bool [segments], which merged rows are -D; the others are +I.
        """
        columns = []
        newest = pa.array(self.newest)
        for name, column in zip(self.batch.schema.names, self.batch.columns, strict=True):
            if name == SEQUENCE_NUMBER:
                numbers = self._joined(column, sequence_rows)
                columns.append(numbers.fill_null(0) if numbers.null_count else numbers)
            elif name == VALUE_KIND:
                kinds = np.where(is_delete, np.int8(RowKind.DELETE), np.int8(RowKind.INSERT))
                if self._is_all:
                    kinds = np.where(self.is_merged, kinds, column.to_numpy()[self.newest])
                columns.append(self._joined(column, pa.array(kinds, pa.int8())))
            elif name in layout.constant_names:
                columns.append(column.slice(0, len(newest)))
            elif name in values:
                columns.append(self._joined(column, values[name]))
            else:
                columns.append(column.take(newest))
        return pa.RecordBatch.from_arrays(columns, schema=self.batch.schema)

    @property
    def _is_all(self) -> bool:
        return len(self.starts) == len(self.newest)

    def _joined(self, column: pa.Array, merged: Folded) -> pa.Array:
        """The column of all keys: of the merged ones, and of those with one row."""
        if isinstance(merged, np.ndarray):
            rows = merged if self._is_all else self.newest.copy()
            if not self._is_all:
                rows[self.is_merged] = merged
            is_null = rows < 0
            return column.take(pa.array(rows, mask=is_null if is_null.any() else None))
        if self._is_all:
            return merged
        rows = self.newest.copy()
        rows[self.is_merged] = np.arange(len(column), len(column) + len(merged))
        return pa.concat_arrays([column, merged]).take(pa.array(rows))


def key_segments(
    window: MergeWindow, layout: KeyValueLayout, *, one_row_may_change: bool = False
) -> KeySegments | None:
    """The segments of a window; None when each key has one row.

    Args:
        one_row_may_change: merging one row that adds values would change it.
    """
    order, last = window.order, window.last_rows(layout)
    if last.all():
        return None
    rows = np.arange(len(last), dtype=np.int64) if order is None else order
    ends = np.flatnonzero(last)
    lengths = np.diff(ends, prepend=-1)
    is_merged = lengths > 1
    if not one_row_may_change and not is_retract(window.batch).any():
        return KeySegments(window.batch, rows[ends], is_merged, rows, ends - lengths + 1)
    lengths_merged = lengths[is_merged]
    return KeySegments(
        batch=window.batch,
        newest=rows[ends],
        is_merged=is_merged,
        rows=rows if is_merged.all() else rows[np.repeat(is_merged, lengths)],
        starts=np.cumsum(lengths_merged) - lengths_merged,
    )
