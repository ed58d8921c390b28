"""Chooses one of a segment's values: the first, the last, the largest, the smallest.

The functions return the row with this value, and copy no values.

Source: Paimon `mergetree/compact/aggregate/Field{First,Last}*Agg.java`, `FieldMaxAgg.java`,
`FieldMinAgg.java`, `FieldBool*Agg.java`, `FieldPrimaryKeyAgg.java`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stream_app.arrow_buffers import Bools, Int64s, valid_of
from stream_app.mergetree.merge_engines.aggregates.combined_values import counted_changes
from stream_app.mergetree.merge_engines.aggregates.ordered_values import (
    filled,
    from_ordered_integers,
    is_plain_number,
    ordered_integers,
)
from stream_app.mergetree.merge_engines.aggregates.segment_changes import (
    SHALLOW,
    ChangeOp,
    Folded,
    SegmentChanges,
)
from stream_app.model.schema.merge.merge_rules import ColumnAggregate


def last_row(column: pa.Array, changes: SegmentChanges, _: ColumnAggregate) -> Int64s:
    """Choose the last value, for ``primary-key``, whose values are equal in all rows of a key."""
    del column
    return changes.newest


def last_value(column: pa.Array, changes: SegmentChanges, _: ColumnAggregate) -> Int64s:
    """Choose the newest value, even if it is null."""
    del column
    return changes.newest_values


def last_non_null_value(column: pa.Array, changes: SegmentChanges, _: ColumnAggregate) -> Int64s:
    """Choose the newest value that is not null. Undoing a value gives null."""
    if changes.ops is None:
        return nearest_valid(column, changes, changes.newest, -1)
    valid = changes.valid(column)
    counts = (changes.is_any(ChangeOp.ADD, ChangeOp.TAKE_BACK) & valid) | changes.is_any(
        ChangeOp.SET, ChangeOp.CLEAR
    )
    last = changes.last(counts)
    is_value = (changes.is_any(ChangeOp.ADD, ChangeOp.SET) & valid)[last] & (last >= 0)
    indices = np.where(is_value, last, -1)
    if changes.has(ChangeOp.ADD_OLDER):
        # A late value fills a null.
        late = (
            changes.is_any(ChangeOp.ADD_OLDER)
            & valid
            & (changes.indices > np.repeat(last, changes.lengths))
        )
        first = changes.first(late)
        indices = np.where(~is_value & (first < len(changes.rows)), first, indices)
    return changes.row_at(indices)


def first_value(column: pa.Array, changes: SegmentChanges, _: ColumnAggregate) -> Int64s:
    """Choose the oldest value, even if it is null. A late row's value is older."""
    del column
    changes.refuse_take_back("first_value")
    if changes.ops is None:
        return changes.oldest
    calls = changes.is_any(ChangeOp.ADD, ChangeOp.ADD_OLDER)
    return _first(changes, calls, calls)


def first_non_null_value(column: pa.Array, changes: SegmentChanges, _: ColumnAggregate) -> Int64s:
    """Choose the oldest value that is not null."""
    changes.refuse_take_back("first_non_null_value")
    if changes.ops is None:
        return nearest_valid(column, changes, changes.oldest, 1)
    valid = changes.valid(column)
    if changes.has(ChangeOp.ADD_OLDER):
        return _first_non_null_in_rounds(changes, valid)
    return _first(changes, changes.is_any(ChangeOp.ADD) & valid, valid)


def _first(changes: SegmentChanges, calls: Bools, valid: Bools) -> Int64s:
    """Return the last change that sets the value: a SET, the first call, or a later late one."""
    first = changes.first(calls)
    opens = np.zeros(len(changes.rows), np.bool_)
    opens[first[first < len(opens)]] = True
    late = changes.is_any(ChangeOp.ADD_OLDER) & (
        changes.indices > np.repeat(first, changes.lengths)
    )
    sets = (
        (opens & changes.is_any(ChangeOp.ADD)) | late | changes.is_any(ChangeOp.SET, ChangeOp.CLEAR)
    )
    last = changes.last(sets)
    is_value = (last >= 0) & valid_or_set(changes, valid)[last]
    return changes.row_at(np.where(is_value, last, -1))


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
    valid = valid_of(column)
    open_ones = np.flatnonzero(~valid[ends])
    edges = changes.ends if step < 0 else changes.starts
    nearest = ends.copy()
    for number in range(1, min(changes.depth, SHALLOW)):
        # Selecting by indices is three times faster than by an irregular mask.
        open_ones = open_ones[np.flatnonzero(changes.lengths[open_ones] > number)]
        rows = changes.rows[edges[open_ones] + step * number]
        is_valid = valid[rows]
        hits = np.flatnonzero(is_valid)
        nearest[open_ones[hits]] = rows[hits]
        open_ones = open_ones[np.flatnonzero(~is_valid)]
    open_ones = open_ones[changes.lengths[open_ones] > SHALLOW]
    if len(open_ones):
        all_valid = valid[changes.rows]
        valid_index = (changes.last(all_valid) if step < 0 else changes.first(all_valid))[open_ones]
        has_value = (valid_index >= 0) & (valid_index < len(changes.rows))
        nearest[open_ones[has_value]] = changes.rows[valid_index[has_value]]
    return nearest


def valid_or_set(changes: SegmentChanges, valid: Bools) -> Bools:
    """Return the mask of changes with a value, or that set the value even to null."""
    return ~changes.is_any(ChangeOp.CLEAR) & (valid | changes.is_any(ChangeOp.SET))


def _first_non_null_in_rounds(changes: SegmentChanges, valid: Bools) -> Int64s:
    # A late row replaces the value only after a first value, so each change depends on the previous
    # one.
    is_taken = np.zeros(len(changes.starts), np.bool_)
    newest = np.full(len(changes.starts), -1, dtype=np.int64)
    add, older = changes.is_any(ChangeOp.ADD), changes.is_any(ChangeOp.ADD_OLDER)
    for segments, indices in changes.rounds(~changes.is_any(ChangeOp.SKIP)):
        value = np.where(valid[indices] & ~changes.is_any(ChangeOp.CLEAR)[indices], indices, -1)
        before, was_taken = newest[segments], is_taken[segments]
        takes = add[indices] & ~was_taken & (value >= 0)
        keeps = older[indices] & ~was_taken & (before >= 0)
        is_taken[segments] = was_taken | takes | keeps
        stays = (add[indices] & ~takes) | keeps
        newest[segments] = np.where(stays, before, value)
    return changes.row_at(newest)


def largest(function: str) -> Callable[[pa.Array, SegmentChanges, ColumnAggregate], Folded]:
    """Choose the largest value, for ``max`` and ``bool_or``."""
    return lambda column, changes, _: _extreme_values(column, changes, function, np.maximum)


def smallest(function: str) -> Callable[[pa.Array, SegmentChanges, ColumnAggregate], Folded]:
    """Choose the smallest value, for ``min`` and ``bool_and``."""
    return lambda column, changes, _: _extreme_values(column, changes, function, np.minimum)


def _extreme_values(
    column: pa.Array, changes: SegmentChanges, function: str, reduce: np.ufunc
) -> Folded:
    changes.refuse_take_back(function)
    if changes.ops is None and is_plain_number(column.type):
        return _extreme_number(column, changes, reduce)
    if changes.ops is None and changes.depth <= SHALLOW:
        return _extreme_in_rounds(column, changes, is_largest=reduce is np.maximum)
    values = ordered_integers(column)[changes.rows]
    counts = counted_changes(column, changes)
    limits = np.iinfo(values.dtype)
    neutral = limits.min if reduce is np.maximum else limits.max
    extreme = reduce.reduceat(np.where(counts, values, neutral), changes.starts)
    is_extreme = counts & (values == np.repeat(extreme, changes.lengths))
    last = changes.last(is_extreme)
    return changes.row_at(last)


def _extreme_number(column: pa.Array, changes: SegmentChanges, reduce: np.ufunc) -> pa.Array:
    values = ordered_integers(column)
    if not column.null_count:
        return from_ordered_integers(changes.reduce(values, reduce), None, column.type)
    valid = valid_of(column)
    limits = np.iinfo(np.int64)
    neutral = limits.min if reduce is np.maximum else limits.max
    extreme = changes.reduce(filled(values, valid, neutral), reduce)
    has_value = extreme != neutral
    if (valid & (values == neutral)).any():
        has_value = valid[nearest_valid(column, changes, changes.newest, -1)]
    return from_ordered_integers(extreme, has_value, column.type)


def _extreme_in_rounds(column: pa.Array, changes: SegmentChanges, *, is_largest: bool) -> Int64s:
    """Return the extreme of short segments: each round compares the next value with the best."""
    best = changes.oldest.copy()
    valid = valid_of(column) if column.null_count else None
    wins_by = pc.greater_equal if is_largest else pc.less_equal
    for all_segments, all_rows in changes.later_rows:
        segments, rows = all_segments, all_rows
        if valid is not None:
            # A null loses to any value.
            rivals, is_value = valid[best[segments]], valid[rows]
            gains, both = np.flatnonzero(is_value > rivals), np.flatnonzero(is_value & rivals)
            best[segments[gains]] = rows[gains]
            segments, rows = segments[both], rows[both]
        values, others = column.take(pa.array(rows)), column.take(pa.array(best[segments]))
        wins = np.flatnonzero(wins_by(values, others).to_numpy(zero_copy_only=False))
        best[segments[wins]] = rows[wins]
    return best
