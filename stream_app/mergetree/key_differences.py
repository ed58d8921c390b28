"""Compares two sides of key-value rows, and returns the keys whose rows differ.

The sides are two versions of a bucket (`table.read.diff_read`), or the rows before and after
a compaction (`mergetree.changelog`). Keys and values are compared as whole columns.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from stream_app.arrow_buffers import Bools, Int64s
from stream_app.mergetree.key_value_batch import KeyValueLayout
from stream_app.mergetree.merge_window import MergeWindow, sorted_window
from stream_app.mergetree.sort_merge_reader import merge_windows
from stream_app.mergetree.value_codes import has_same_values
from stream_app.model.row_kind import RowKind
from stream_app.model.schema.table_schema import SEQUENCE_NUMBER, VALUE_KIND

_SIDE = "\0side"
_BEFORE, _AFTER = 0, 1
_INTEGER_TYPES = {4: pa.int32(), 8: pa.int64()}
"""The integer type of each width in bytes."""


@dataclass(frozen=True, slots=True)
class Differences:
    """The differences between two sides, as indices into `order`.

    Attributes:
        batch: the rows of both sides, one or two for each key, with the column `_SIDE`.
        order: the batch's row numbers, sorted by key.
        added_indices: the rows whose key only the second side has.
        removed_indices: the rows whose key only the first side has.
        older_indices, newer_indices: the first and the second side's row of each key of both sides.
    """

    batch: pa.RecordBatch
    order: Int64s
    added_indices: Int64s
    removed_indices: Int64s
    older_indices: Int64s
    newer_indices: Int64s

    @property
    def changed_indices(self) -> Int64s:
        """The second side's rows whose values differ from the first side's."""
        return self.newer_indices[~self.has_same_values()]

    def has_same_values(
        self, ignored_columns: Collection[str] = (), *, compares_as_numbers: bool = False
    ) -> Bools:
        """Return which keys of both sides have equal values in both rows: bool [m].

        Args:
            ignored_columns: columns that are not compared.
            compares_as_numbers: whether NaN differs from NaN and -0.0 equals 0.0, as in Paimon's
                changelogs.
        """
        is_same = np.ones(len(self.older_indices), np.bool_)
        for name in self.batch.schema.names:
            if name in (SEQUENCE_NUMBER, VALUE_KIND, _SIDE) or name in ignored_columns:
                continue
            column = self.batch.column(name)
            is_nested = pa.types.is_nested(column.type)
            column = column if compares_as_numbers or is_nested else _float_bits(column)
            older_values, newer_values = (
                column.take(pa.array(self.order[rows]))
                for rows in (self.older_indices, self.newer_indices)
            )
            if is_nested:
                is_same &= has_same_values(older_values, newer_values)
                continue
            is_equal = pc.fill_null(pc.equal(older_values, newer_values), False)
            are_null = pc.and_(older_values.is_null(), newer_values.is_null())
            is_same &= pc.or_(is_equal, are_null).to_numpy(zero_copy_only=False)
        return is_same

    def rows(self, *, keeps_deletes: bool) -> pa.RecordBatch:
        """Return added and changed rows in key order; `keeps_deletes` adds removed rows as -D."""
        removed_indices = self.removed_indices if keeps_deletes else self.removed_indices[:0]
        row_indices = np.concatenate((self.added_indices, self.changed_indices, removed_indices))
        row_kinds = self._kinds()[row_indices]
        row_kinds[len(row_indices) - len(removed_indices) :] = int(RowKind.DELETE)
        return self._take(row_indices, row_kinds)

    def changelog(self, has_update: Bools | None = None) -> pa.RecordBatch:
        """Return the changes from the first side to the second in key order: +I, -D, -U and +U.

        Args:
            has_update: whether the changelog includes the update of each key on both sides; None:
                of all keys.
        """
        older_indices, newer_indices = self.older_indices, self.newer_indices
        if has_update is not None:
            older_indices, newer_indices = older_indices[has_update], newer_indices[has_update]
        row_indices = np.concatenate(
            (self.added_indices, self.removed_indices, older_indices, newer_indices)
        )
        sizes = [
            len(self.added_indices),
            len(self.removed_indices),
            len(older_indices),
            len(newer_indices),
        ]
        row_kinds = (RowKind.INSERT, RowKind.DELETE, RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER)
        kinds = np.repeat(np.array([int(kind) for kind in row_kinds], np.int8), sizes)
        # The two rows of a key are neighbours in `order`, so both get the index of the first.
        first_indices = np.minimum(older_indices, newer_indices)
        sort_keys = np.concatenate(
            (self.added_indices, self.removed_indices, first_indices, first_indices)
        )
        return self._take(row_indices, kinds, sort_keys=sort_keys)

    def _kinds(self) -> npt.NDArray[np.int8]:
        kinds: npt.NDArray[np.int8] = self.batch.column(VALUE_KIND).to_numpy()[self.order]
        return kinds

    def _take(
        self, row_indices: Int64s, kinds: npt.NDArray[np.int8], sort_keys: Int64s | None = None
    ) -> pa.RecordBatch:
        order = np.argsort(row_indices if sort_keys is None else sort_keys, kind="stable")
        rows = self.batch.take(pa.array(self.order[row_indices[order]]))
        index = rows.schema.get_field_index(VALUE_KIND)
        kind_field = rows.schema.field(index)
        rows = rows.set_column(index, kind_field, pa.array(kinds[order], pa.int8()))
        return rows.drop_columns([_SIDE])


def differences(
    layout: KeyValueLayout, before: Iterator[pa.RecordBatch], after: Iterator[pa.RecordBatch]
) -> Iterator[Differences]:
    """Compare two sides, each with one row per key in key order, and yield parts in key order."""
    layout = _layout_with_side(layout)
    sides = [
        (_with_side(batch, _BEFORE) for batch in before),
        (_with_side(batch, _AFTER) for batch in after),
    ]
    for window in merge_windows(sides, layout):
        yield _compare(window, layout)


def batch_differences(
    layout: KeyValueLayout, before: pa.RecordBatch, after: pa.RecordBatch
) -> Differences:
    """Compare two batches, each with one row for each key, in any order."""
    layout = _layout_with_side(layout)
    rows = pa.concat_batches([_with_side(before, _BEFORE), _with_side(after, _AFTER)])
    return _compare(sorted_window(rows, layout), layout)


def rows_of_keys(
    layout: KeyValueLayout, rows: pa.RecordBatch, keys: pa.RecordBatch
) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """Split by `keys`: the `rows` that have one of the keys, and the keys that have no row.

    Args:
        rows, keys: key-value rows, one for each key.
    """
    names = list(layout.key_names)
    key_layout = replace(layout, schema=pa.schema([layout.schema.field(name) for name in names]))
    differences = batch_differences(key_layout, keys.select(names), rows.select(names))
    row_indices = differences.order[differences.newer_indices] - keys.num_rows
    key_indices = differences.order[differences.removed_indices]
    return rows.take(pa.array(row_indices)), keys.take(pa.array(key_indices))


def _layout_with_side(layout: KeyValueLayout) -> KeyValueLayout:
    # Rows of one key are in any order, so a column tells their side.
    schema = layout.schema.append(pa.field(_SIDE, pa.int8()))
    return replace(layout, schema=schema, sequence_fields=())


def _with_side(batch: pa.RecordBatch, side: int) -> pa.RecordBatch:
    return batch.append_column(_SIDE, pa.repeat(pa.scalar(side, pa.int8()), batch.num_rows))


def _compare(window: MergeWindow, layout: KeyValueLayout) -> Differences:
    """Compare the sides of a window, in which each key has one row a side at most."""
    batch = window.batch
    order = np.arange(batch.num_rows) if window.order is None else window.order
    is_last = window.is_last_row(layout)
    is_first = np.concatenate(([True], is_last[:-1]))[: len(is_last)]
    is_after = batch.column(_SIDE).to_numpy()[order] == _AFTER
    is_alone = is_first & is_last
    pair_starts = np.flatnonzero(~is_last)
    return Differences(
        batch=batch,
        order=order,
        added_indices=np.flatnonzero(is_alone & is_after),
        removed_indices=np.flatnonzero(is_alone & ~is_after),
        older_indices=pair_starts + is_after[pair_starts],
        newer_indices=pair_starts + (~is_after[pair_starts]),
    )


def _float_bits(column: pa.Array) -> pa.Array:
    """Return floating-point values as bits, so that NaN equals NaN and -0.0 differs from 0.0."""
    if pa.types.is_floating(column.type):
        return column.view(_INTEGER_TYPES[column.type.byte_width])
    return column
