"""Groups a window's rows by key, and makes one row for each key.

A key's only row stays unchanged, whatever its kind, unless a compaction requests its merge.

Source: Paimon `mergetree/compact/ReducerMergeFunctionWrapper.java`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stream_app.arrow_buffers import Bools, Int64s
from stream_app.mergetree.key_value_batch import KeyValueLayout
from stream_app.mergetree.merge_engines.aggregates.segment_changes import (
    ChangeOp,
    SegmentChanges,
    SegmentValues,
)
from stream_app.mergetree.merge_window import MergeWindow
from stream_app.model.row_kind import RowKind
from stream_app.model.schema.table_schema import SEQUENCE_NUMBER, VALUE_KIND


@dataclass(frozen=True)
class KeySegments:
    """The keys of a window.

    Three keys, of which two have several rows::

        batch["k"]          [7, 5, 7, 5, 6]
        row_indices         [1, 3,  4,  0, 2]
        starts              [0,     2,  3]
        newest_row_indices  [3, 4, 2]              the last row of 5, 6 and 7
        is_merged           [T, F, T]

    Attributes:
        row_indices: int64 [m], the rows of all keys, in order.
        starts: int64 [keys], where each key begins in `row_indices`.
        newest_row_indices: int64 [keys], the last row of each key.
        is_merged: bool [keys], whose rows are merged; the other keys keep their row.
        merges_single_rows: whether a key's only row is merged too.
    """

    batch: pa.RecordBatch
    row_indices: Int64s
    starts: Int64s
    newest_row_indices: Int64s
    is_merged: Bools
    merges_single_rows: bool = False

    @cached_property
    def unmerged_starts(self) -> Int64s:
        """The indices at which keys that keep their row begin."""
        return self.starts[np.flatnonzero(~self.is_merged)]

    @cached_property
    def plain(self) -> SegmentChanges:
        """The changes of columns to which all rows are added."""
        return SegmentChanges(
            self.row_indices, self.starts, merges_single_rows=self.merges_single_rows
        )

    def changes(self, ops: npt.NDArray[np.int8]) -> SegmentChanges:
        """Return changes with the operations int8 [m]; rows of unmerged keys set their value."""
        return self.plain.with_ops(set_unmerged(ops, self.unmerged_starts))

    def kinds(self) -> npt.NDArray[np.int8]:
        """Return the row kind of each of `row_indices`: int8 [m]."""
        if self.batch.schema.get_field_index(VALUE_KIND) < 0:
            return np.zeros(len(self.row_indices), np.int8)
        kinds: npt.NDArray[np.int8] = self.batch.column(VALUE_KIND).to_numpy()
        return kinds[self.row_indices]

    def _merged_kinds(self, is_delete: Bools) -> npt.NDArray[np.int8]:
        kinds = is_delete.astype(np.int8) * np.int8(RowKind.DELETE)
        unmerged_indices = np.flatnonzero(~self.is_merged)
        kinds[unmerged_indices] = self.batch.column(VALUE_KIND).to_numpy()[
            self.newest_row_indices[unmerged_indices]
        ]
        return kinds

    def batch_of(
        self,
        values: Mapping[str, SegmentValues],
        *,
        sequence_indices: Int64s,
        is_delete: Bools,
        layout: KeyValueLayout,
    ) -> pa.RecordBatch:
        """Make one row for each key, in key order.

        Args:
            values: column → one value per key. Other columns keep the newest row's value.
            sequence_indices: int64 [keys], of the rows whose sequence numbers the merged rows get;
                -1 for number 0.
            is_delete: bool [keys], which merged rows are -D; the others are +I.
        """
        columns = []
        newest_row_indices = pa.array(self.newest_row_indices)
        for name, column in zip(self.batch.schema.names, self.batch.columns, strict=True):
            if name == SEQUENCE_NUMBER:
                sequence_numbers = _take(column, sequence_indices)
                columns.append(
                    sequence_numbers.fill_null(0)
                    if sequence_numbers.null_count
                    else sequence_numbers
                )
            elif name == VALUE_KIND:
                columns.append(pa.array(self._merged_kinds(is_delete), pa.int8()))
            elif name in layout.constant_names:
                columns.append(column.slice(0, len(newest_row_indices)))
            elif name in values:
                columns.append(_take(column, values[name]))
            else:
                columns.append(column.take(newest_row_indices))
        return pa.RecordBatch.from_arrays(columns, schema=self.batch.schema)


def set_unmerged(ops: npt.NDArray[np.int8], unmerged_indices: Int64s) -> npt.NDArray[np.int8]:
    """Let changes of unmerged keys set their value: int8 [changes].

    Args:
        ops: the operations, which are changed in place.
        unmerged_indices: the indices of these changes, each alone in its segment.
    """
    ops[unmerged_indices[np.flatnonzero(ops[unmerged_indices] != ChangeOp.ADD)]] = ChangeOp.SET
    return ops


def _take(column: pa.Array, values: SegmentValues) -> pa.Array:
    if not isinstance(values, np.ndarray):
        return values
    is_null = values < 0
    return column.take(pa.array(values, mask=is_null if is_null.any() else None))


def key_segments(
    window: MergeWindow, layout: KeyValueLayout, *, merges_single_rows: bool = False
) -> KeySegments | None:
    """Return the segments of a window; None if there is nothing to merge.

    Args:
        merges_single_rows: whether a key's only row is merged too.
    """
    order, is_last = window.order, window.is_last_row(layout)
    if is_last.all() and not (merges_single_rows and len(is_last)):
        return None
    row_indices = np.arange(len(is_last), dtype=np.int64) if order is None else order
    ends = np.flatnonzero(is_last)
    lengths = np.diff(ends, prepend=-1)
    is_merged = np.ones(len(ends), np.bool_) if merges_single_rows else lengths > 1
    starts = ends - lengths + 1
    return KeySegments(
        window.batch, row_indices, starts, row_indices[ends], is_merged, merges_single_rows
    )
