"""Chooses one of a segment's values: the first, the last, the largest or the smallest.

Most functions return the row with this value, and copy no values.

Source: Paimon `mergetree/compact/aggregate/Field{First,Last}*Agg.java`, `FieldMaxAgg.java`,
`FieldMinAgg.java`, `FieldBool*Agg.java`, `FieldPrimaryKeyAgg.java`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stream_app.arrow_buffers import Bools, Int64s, valid_of
from stream_app.mergetree.merge_engines.aggregates.combined_values import is_counted_change
from stream_app.mergetree.merge_engines.aggregates.ordered_values import (
    fill_nulls,
    from_ordered_integers,
    is_plain_number,
    ordered_integers,
)
from stream_app.mergetree.merge_engines.aggregates.segment_changes import (
    SHALLOW,
    ChangeOp,
    SegmentChanges,
    SegmentValues,
)
from stream_app.model.schema.merge.merge_rules import ColumnAggregate


def last_row(column: pa.Array, changes: SegmentChanges, _: ColumnAggregate) -> Int64s:
    """Choose the last value, for ``primary-key``, whose values are equal in all rows of a key."""
    del column
    return changes.newest_row_indices


def last_value(column: pa.Array, changes: SegmentChanges, _: ColumnAggregate) -> Int64s:
    """Choose the newest value, even if it is null."""
    del column
    return changes.newest_values


def last_non_null_value(column: pa.Array, changes: SegmentChanges, _: ColumnAggregate) -> Int64s:
    """Choose the newest value that is not null. Undoing a value gives null."""
    if changes.ops is None:
        return nearest_valid(column, changes, changes.newest_row_indices, -1)
    is_valid = changes.is_valid(column)
    is_counted = (changes.is_any(ChangeOp.ADD, ChangeOp.RETRACT) & is_valid) | changes.is_any(
        ChangeOp.SET, ChangeOp.CLEAR
    )
    last_indices = changes.last_indices(is_counted)
    is_value = (changes.is_any(ChangeOp.ADD, ChangeOp.SET) & is_valid)[last_indices] & (
        last_indices >= 0
    )
    indices = np.where(is_value, last_indices, -1)
    if changes.has(ChangeOp.ADD_OLDER):
        # A late value fills a null.
        is_late = (
            changes.is_any(ChangeOp.ADD_OLDER)
            & is_valid
            & (changes.indices > np.repeat(last_indices, changes.lengths))
        )
        first_late = changes.first_indices(is_late)
        indices = np.where(~is_value & (first_late < len(changes.row_indices)), first_late, indices)
    return changes.row_at(indices)


def first_value(column: pa.Array, changes: SegmentChanges, _: ColumnAggregate) -> Int64s:
    """Choose the oldest value, even if it is null. A late row's value is older."""
    del column
    changes.refuse_retract("first_value")
    if changes.ops is None:
        return changes.oldest_row_indices
    is_add = changes.is_any(ChangeOp.ADD, ChangeOp.ADD_OLDER)
    return _first(changes, is_add, is_add)


def first_non_null_value(column: pa.Array, changes: SegmentChanges, _: ColumnAggregate) -> Int64s:
    """Choose the oldest value that is not null."""
    changes.refuse_retract("first_non_null_value")
    if changes.ops is None:
        return nearest_valid(column, changes, changes.oldest_row_indices, 1)
    is_valid = changes.is_valid(column)
    if changes.has(ChangeOp.ADD_OLDER):
        return _first_non_null_in_rounds(changes, is_valid)
    return _first(changes, changes.is_any(ChangeOp.ADD) & is_valid, is_valid)


def _first(changes: SegmentChanges, is_add: Bools, is_valid: Bools) -> Int64s:
    """Return the row of the last change that sets the value.

    That is a SET, the first chosen change, or a late one after it.

    Args:
        is_add: bool [changes]; the chosen changes, which add a value.
        is_valid: bool [changes]; whether the change has a value.
    """
    first_indices = changes.first_indices(is_add)
    is_first = np.zeros(len(changes.row_indices), np.bool_)
    is_first[first_indices[first_indices < len(is_first)]] = True
    is_late = changes.is_any(ChangeOp.ADD_OLDER) & (
        changes.indices > np.repeat(first_indices, changes.lengths)
    )
    is_set = (
        (is_first & changes.is_any(ChangeOp.ADD))
        | is_late
        | changes.is_any(ChangeOp.SET, ChangeOp.CLEAR)
    )
    last_indices = changes.last_indices(is_set)
    is_value = (last_indices >= 0) & is_valid_or_set(changes, is_valid)[last_indices]
    return changes.row_at(np.where(is_value, last_indices, -1))


def nearest_valid(column: pa.Array, changes: SegmentChanges, ends: Int64s, step: int) -> Int64s:
    """Return the row of the first value that is not null, from one end of each segment.

    Only segments with a null at this end take further steps. Without any value the result is the
    row at this end, which is also null.

    Args:
        ends: int64 [segments], the row at this end of each segment.
        step: 1 forward from the oldest row, -1 back from the newest.
    """
    if not column.null_count:
        return ends
    is_valid = valid_of(column)
    open_indices = np.flatnonzero(~is_valid[ends])
    edges = changes.ends if step < 0 else changes.starts
    nearest_rows = ends.copy()
    for distance in range(1, min(changes.depth, SHALLOW)):
        # Selecting by indices is three times faster than by an irregular mask.
        open_indices = open_indices[np.flatnonzero(changes.lengths[open_indices] > distance)]
        rows = changes.row_indices[edges[open_indices] + step * distance]
        is_hit = is_valid[rows]
        hit_indices = np.flatnonzero(is_hit)
        nearest_rows[open_indices[hit_indices]] = rows[hit_indices]
        open_indices = open_indices[np.flatnonzero(~is_hit)]
    open_indices = open_indices[changes.lengths[open_indices] > SHALLOW]
    if len(open_indices):
        is_valid_change = is_valid[changes.row_indices]
        valid_indices = (
            changes.last_indices(is_valid_change)
            if step < 0
            else changes.first_indices(is_valid_change)
        )
        valid_indices = valid_indices[open_indices]
        has_value = (valid_indices >= 0) & (valid_indices < len(changes.row_indices))
        nearest_rows[open_indices[has_value]] = changes.row_indices[valid_indices[has_value]]
    return nearest_rows


def is_valid_or_set(changes: SegmentChanges, is_valid: Bools) -> Bools:
    """Return the mask of changes that have a value, or set the value even to null."""
    return ~changes.is_any(ChangeOp.CLEAR) & (is_valid | changes.is_any(ChangeOp.SET))


def _first_non_null_in_rounds(changes: SegmentChanges, is_valid: Bools) -> Int64s:
    # A late row replaces the value only after a first value, so each change depends on the previous
    # one.
    is_taken = np.zeros(len(changes.starts), np.bool_)
    newest_indices = np.full(len(changes.starts), -1, dtype=np.int64)
    is_add, is_late = changes.is_any(ChangeOp.ADD), changes.is_any(ChangeOp.ADD_OLDER)
    for segments, indices in changes.rounds(~changes.is_any(ChangeOp.SKIP)):
        value_indices = np.where(
            is_valid[indices] & ~changes.is_any(ChangeOp.CLEAR)[indices], indices, -1
        )
        old_indices, was_taken = newest_indices[segments], is_taken[segments]
        sets_value = is_add[indices] & ~was_taken & (value_indices >= 0)
        keeps_value = is_late[indices] & ~was_taken & (old_indices >= 0)
        is_taken[segments] = was_taken | sets_value | keeps_value
        is_unchanged = (is_add[indices] & ~sets_value) | keeps_value
        newest_indices[segments] = np.where(is_unchanged, old_indices, value_indices)
    return changes.row_at(newest_indices)


def largest(function: str) -> Callable[[pa.Array, SegmentChanges, ColumnAggregate], SegmentValues]:
    """Return an aggregate function that chooses the largest value: ``max`` or ``bool_or``."""
    return lambda column, changes, _: _extreme_values(column, changes, function, np.maximum)


def smallest(function: str) -> Callable[[pa.Array, SegmentChanges, ColumnAggregate], SegmentValues]:
    """Return an aggregate function that chooses the smallest value: ``min`` or ``bool_and``."""
    return lambda column, changes, _: _extreme_values(column, changes, function, np.minimum)


def _extreme_values(
    column: pa.Array, changes: SegmentChanges, function: str, reduce: np.ufunc
) -> SegmentValues:
    changes.refuse_retract(function)
    if changes.ops is None and is_plain_number(column.type):
        return _extreme_number(column, changes, reduce)
    if changes.ops is None and changes.depth <= SHALLOW:
        return _extreme_in_rounds(column, changes, is_largest=reduce is np.maximum)
    values = ordered_integers(column)[changes.row_indices]
    is_counted = is_counted_change(column, changes)
    limits = np.iinfo(values.dtype)
    neutral = limits.min if reduce is np.maximum else limits.max
    extremes = reduce.reduceat(np.where(is_counted, values, neutral), changes.starts)
    is_extreme = is_counted & (values == np.repeat(extremes, changes.lengths))
    last_indices = changes.last_indices(is_extreme)
    return changes.row_at(last_indices)


def _extreme_number(column: pa.Array, changes: SegmentChanges, reduce: np.ufunc) -> pa.Array:
    values = ordered_integers(column)
    if not column.null_count:
        return from_ordered_integers(changes.reduce(values, reduce), None, column.type)
    is_valid = valid_of(column)
    limits = np.iinfo(np.int64)
    neutral = limits.min if reduce is np.maximum else limits.max
    extremes = changes.reduce(fill_nulls(values, is_valid, neutral), reduce)
    has_value = extremes != neutral
    if (is_valid & (values == neutral)).any():
        has_value = is_valid[nearest_valid(column, changes, changes.newest_row_indices, -1)]
    return from_ordered_integers(extremes, has_value, column.type)


def _extreme_in_rounds(column: pa.Array, changes: SegmentChanges, *, is_largest: bool) -> Int64s:
    """Return the extreme of short segments: each round compares the next value with the best."""
    best_rows = changes.oldest_row_indices.copy()
    is_valid = valid_of(column) if column.null_count else None
    compare = pc.greater_equal if is_largest else pc.less_equal
    for all_segments, all_rows in changes.later_row_indices:
        segments = all_segments
        rows = all_rows
        if is_valid is not None:
            # A null loses to any value.
            best_is_valid, row_is_valid = is_valid[best_rows[segments]], is_valid[rows]
            valid_indices = np.flatnonzero(row_is_valid > best_is_valid)
            comparable_indices = np.flatnonzero(row_is_valid & best_is_valid)
            best_rows[segments[valid_indices]] = rows[valid_indices]
            segments, rows = segments[comparable_indices], rows[comparable_indices]
        values = column.take(pa.array(rows))
        best_values = column.take(pa.array(best_rows[segments]))
        improved_indices = np.flatnonzero(
            compare(values, best_values).to_numpy(zero_copy_only=False)
        )
        best_rows[segments[improved_indices]] = rows[improved_indices]
    return best_rows
