"""Chooses one of a segment's values: the first, the last, the largest, the smallest.

They find the row that has it, and copy nothing.

Source: Paimon `mergetree/compact/aggregate/Field{First,Last}*Agg.java`, `FieldMaxAgg.java`,
`FieldMinAgg.java`, `FieldBool*Agg.java`, `FieldPrimaryKeyAgg.java`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stream_app.mergetree.key_value_batch import Indices, Mask
from stream_app.mergetree.merge_engines.aggregates.combined_values import counted_steps
from stream_app.mergetree.merge_engines.aggregates.ordered_values import (
    filled,
    from_ordered_integers,
    is_plain_number,
    ordered_integers,
    valid_rows,
)
from stream_app.mergetree.merge_engines.aggregates.steps import SHALLOW, Folded, StepOp, Steps
from stream_app.model.schema.merge_rules import ColumnAggregate


def last_row(column: pa.Array, steps: Steps, _: ColumnAggregate) -> Indices:
    """Choose the last value, for ``primary-key``: all rows of a key have the same value."""
    del column
    return steps.newest


def last_value(column: pa.Array, steps: Steps, _: ColumnAggregate) -> Indices:
    """Choose the newest value, even if it is null."""
    del column
    return steps.newest_values


def last_non_null_value(column: pa.Array, steps: Steps, _: ColumnAggregate) -> Indices:
    """Choose the newest value that is not null; undoing a value leaves null."""
    if steps.ops is None:
        return nearest_valid(column, steps, steps.newest, -1)
    valid = steps.valid(column)
    counts = (steps.is_any(StepOp.ADD, StepOp.TAKE_BACK) & valid) | steps.is_any(
        StepOp.SET, StepOp.CLEAR
    )
    place = steps.last(counts)
    is_value = (steps.is_any(StepOp.ADD, StepOp.SET) & valid)[place] & (place >= 0)
    chosen = np.where(is_value, place, -1)
    if steps.has(StepOp.ADD_OLDER):
        # A late value fills a gap.
        late = (
            steps.is_any(StepOp.ADD_OLDER)
            & valid
            & (steps.places > np.repeat(place, steps.lengths))
        )
        first = steps.first(late)
        chosen = np.where(~is_value & (first < len(steps.rows)), first, chosen)
    return steps.row_at(chosen)


def first_value(column: pa.Array, steps: Steps, _: ColumnAggregate) -> Indices:
    """Choose the oldest value, even if it is null; a late row's value is older."""
    del column
    steps.refuse_take_back("first_value")
    if steps.ops is None:
        return steps.oldest
    calls = steps.is_any(StepOp.ADD, StepOp.ADD_OLDER)
    return _first(steps, calls, calls)


def first_non_null_value(column: pa.Array, steps: Steps, _: ColumnAggregate) -> Indices:
    """Choose the oldest value that is not null."""
    steps.refuse_take_back("first_non_null_value")
    if steps.ops is None:
        return nearest_valid(column, steps, steps.oldest, 1)
    valid = steps.valid(column)
    if steps.has(StepOp.ADD_OLDER):
        return _first_non_null_in_rounds(steps, valid)
    return _first(steps, steps.is_any(StepOp.ADD) & valid, valid)


def _first(steps: Steps, calls: Mask, valid: Mask) -> Indices:
    """The last step that sets the value: a SET, the first call, or a late one after it."""
    first = steps.first(calls)
    opens = np.zeros(len(steps.rows), np.bool_)
    opens[first[first < len(opens)]] = True
    late = steps.is_any(StepOp.ADD_OLDER) & (steps.places > np.repeat(first, steps.lengths))
    sets = (opens & steps.is_any(StepOp.ADD)) | late | steps.is_any(StepOp.SET, StepOp.CLEAR)
    place = steps.last(sets)
    is_value = (place >= 0) & valid_or_set(steps, valid)[place]
    return steps.row_at(np.where(is_value, place, -1))


def nearest_valid(column: pa.Array, steps: Steps, ends: Indices, way: int) -> Indices:
    """The row of the first value that is not null, counted from one end of each segment.

    Most are found at once, so only segments with a null go on. Without any value the result is the
    row at the end, which has null as well.

    Args:
        ends: int64 [segments], rows.
        way: 1 forward from the oldest row, -1 back from the newest.
    """
    if not column.null_count:
        return ends
    valid = valid_rows(column)
    open_ones = np.flatnonzero(~valid[ends])
    places = steps.ends if way < 0 else steps.starts
    nearest = ends.copy()
    for number in range(1, min(steps.depth, SHALLOW)):
        # Numbers choose three times faster than a mask without a pattern.
        open_ones = open_ones[np.flatnonzero(steps.lengths[open_ones] > number)]
        rows = steps.rows[places[open_ones] + way * number]
        is_valid = valid[rows]
        hits = np.flatnonzero(is_valid)
        nearest[open_ones[hits]] = rows[hits]
        open_ones = open_ones[np.flatnonzero(~is_valid)]
    open_ones = open_ones[steps.lengths[open_ones] > SHALLOW]
    if len(open_ones):
        all_valid = valid[steps.rows]
        place = (steps.last(all_valid) if way < 0 else steps.first(all_valid))[open_ones]
        has = (place >= 0) & (place < len(steps.rows))
        nearest[open_ones[has]] = steps.rows[place[has]]
    return nearest


def valid_or_set(steps: Steps, valid: Mask) -> Mask:
    """The mask of steps with a value that is not null, or that set the value even to null."""
    return ~steps.is_any(StepOp.CLEAR) & (valid | steps.is_any(StepOp.SET))


def _first_non_null_in_rounds(steps: Steps, valid: Mask) -> Indices:
    # A late row replaces the value only once a value was taken in, so each step needs the last.
    is_taken = np.zeros(len(steps.starts), np.bool_)
    chosen = np.full(len(steps.starts), -1, dtype=np.int64)
    add, older = steps.is_any(StepOp.ADD), steps.is_any(StepOp.ADD_OLDER)
    for segments, places in steps.rounds(~steps.is_any(StepOp.SKIP)):
        value = np.where(valid[places] & ~steps.is_any(StepOp.CLEAR)[places], places, -1)
        before, taken = chosen[segments], is_taken[segments]
        takes = add[places] & ~taken & (value >= 0)
        keeps = older[places] & ~taken & (before >= 0)
        is_taken[segments] = taken | takes | keeps
        stays = (add[places] & ~takes) | keeps
        chosen[segments] = np.where(stays, before, value)
    return steps.row_at(chosen)


def largest(function: str) -> Callable[[pa.Array, Steps, ColumnAggregate], Folded]:
    """Choose the largest value, for ``max`` and ``bool_or``."""
    return lambda column, steps, _: _extreme(column, steps, function, np.maximum)


def smallest(function: str) -> Callable[[pa.Array, Steps, ColumnAggregate], Folded]:
    """Choose the smallest value, for ``min`` and ``bool_and``."""
    return lambda column, steps, _: _extreme(column, steps, function, np.minimum)


def _extreme(column: pa.Array, steps: Steps, function: str, reduce: np.ufunc) -> Folded:
    steps.refuse_take_back(function)
    if steps.ops is None and is_plain_number(column.type):
        return _extreme_number(column, steps, reduce)
    if steps.ops is None and steps.depth <= SHALLOW:
        return _extreme_in_rounds(column, steps, is_largest=reduce is np.maximum)
    values = ordered_integers(column)[steps.rows]
    counts = counted_steps(column, steps)
    limits = np.iinfo(values.dtype)
    neutral = limits.min if reduce is np.maximum else limits.max
    extreme = reduce.reduceat(np.where(counts, values, neutral), steps.starts)
    is_it = counts & (values == np.repeat(extreme, steps.lengths))
    place = steps.last(is_it)
    return steps.row_at(place)


def _extreme_number(column: pa.Array, steps: Steps, reduce: np.ufunc) -> pa.Array:
    values = ordered_integers(column)
    if not column.null_count:
        return from_ordered_integers(steps.reduced(values, reduce), None, column.type)
    valid = valid_rows(column)
    limits = np.iinfo(np.int64)
    neutral = limits.min if reduce is np.maximum else limits.max
    extreme = steps.reduced(filled(values, valid, neutral), reduce)
    has = extreme != neutral
    if (valid & (values == neutral)).any():
        has = valid[nearest_valid(column, steps, steps.newest, -1)]
    return from_ordered_integers(extreme, has, column.type)


def _extreme_in_rounds(column: pa.Array, steps: Steps, *, is_largest: bool) -> Indices:
    """The extreme for segments of few steps: each round compares the next value with the best."""
    best = steps.oldest.copy()
    valid = valid_rows(column) if column.null_count else None
    wins_by = pc.greater_equal if is_largest else pc.less_equal
    for all_segments, all_rows in steps.later_rows:
        segments, rows = all_segments, all_rows
        if valid is not None:
            # A null loses against any value.
            rivals, is_value = valid[best[segments]], valid[rows]
            gains, both = np.flatnonzero(is_value > rivals), np.flatnonzero(is_value & rivals)
            best[segments[gains]] = rows[gains]
            segments, rows = segments[both], rows[both]
        values, others = column.take(pa.array(rows)), column.take(pa.array(best[segments]))
        wins = np.flatnonzero(wins_by(values, others).to_numpy(zero_copy_only=False))
        best[segments[wins]] = rows[wins]
    return best
