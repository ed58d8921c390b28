"""Functions whose result is one of the values: the first, the last, the largest, the smallest.

They find the row that has it, and copy nothing.

Source: Paimon `mergetree/compact/aggregate/Field{First,Last}*Agg.java`, `FieldMaxAgg.java`,
`FieldMinAgg.java`, `FieldBool*Agg.java`, `FieldPrimaryKeyAgg.java`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from stream_app.mergetree.key_value_batch import Indices, Mask
from stream_app.mergetree.merge_engines.aggregates.steps import Op, Steps
from stream_app.mergetree.merge_engines.ordered_values import ordered_integers
from stream_app.model.schema.merge_rules import ColumnAggregate


def last_row(column: pa.Array, steps: Steps, _: ColumnAggregate) -> Indices:
    """``primary-key``: all rows of a key have the same value."""
    del column
    return steps.rows[steps.ends]


def last_value(column: pa.Array, steps: Steps, _: ColumnAggregate) -> Indices:
    """The newest value, also when it is null."""
    del column
    if steps.ops is None:
        return steps.rows[steps.ends]
    place = steps.last(~steps.is_any(Op.ADD_OLDER, Op.SKIP))
    is_value = steps.is_any(Op.ADD, Op.SET)[place] & (place >= 0)
    return steps.row_at(np.where(is_value, place, -1))


def last_non_null_value(column: pa.Array, steps: Steps, _: ColumnAggregate) -> Indices:
    """The newest value that is not null; undoing a value leaves null."""
    valid = steps.valid(column)
    if steps.ops is None:
        return steps.row_at(steps.last(valid)) if column.null_count else steps.rows[steps.ends]
    counts = (steps.is_any(Op.ADD, Op.TAKE_BACK) & valid) | steps.is_any(Op.SET, Op.CLEAR)
    place = steps.last(counts)
    is_value = (steps.is_any(Op.ADD, Op.SET) & valid)[place] & (place >= 0)
    found = np.where(is_value, place, -1)
    if steps.has(Op.ADD_OLDER):
        # A late value fills a gap.
        late = steps.is_any(Op.ADD_OLDER) & valid & (steps.places > np.repeat(place, steps.lengths))
        first = steps.first(late)
        found = np.where(~is_value & (first < len(steps.rows)), first, found)
    return steps.row_at(found)


def first_value(column: pa.Array, steps: Steps, _: ColumnAggregate) -> Indices:
    """The oldest value, also when it is null; a late row's value is older."""
    del column
    steps.refuse_take_back("first_value")
    calls = steps.is_any(Op.ADD, Op.ADD_OLDER)
    return _first(steps, calls, calls)


def first_non_null_value(column: pa.Array, steps: Steps, _: ColumnAggregate) -> Indices:
    """The oldest value that is not null."""
    steps.refuse_take_back("first_non_null_value")
    valid = steps.valid(column)
    if steps.has(Op.ADD_OLDER):
        return _first_non_null_in_rounds(steps, valid)
    return _first(steps, steps.is_any(Op.ADD) & valid, valid)


def _first(steps: Steps, calls: Mask, valid: Mask) -> Indices:
    """The last step that sets the value: a SET, the first call, or a late one after it."""
    first = steps.first(calls)
    opens = np.zeros(len(steps.rows), np.bool_)
    opens[first[first < len(opens)]] = True
    late = steps.is_any(Op.ADD_OLDER) & (steps.places > np.repeat(first, steps.lengths))
    sets = (opens & steps.is_any(Op.ADD)) | late | steps.is_any(Op.SET, Op.CLEAR)
    place = steps.last(sets)
    is_value = (place >= 0) & valid_or_set(steps, valid)[place]
    return steps.row_at(np.where(is_value, place, -1))


def valid_or_set(steps: Steps, valid: Mask) -> Mask:
    """Steps whose row has the value, if they set it."""
    return ~steps.is_any(Op.CLEAR) & (valid | steps.is_any(Op.SET))


def _first_non_null_in_rounds(steps: Steps, valid: Mask) -> Indices:
    # A late row replaces the value only once a value was taken in, so each step needs the last.
    is_taken = np.zeros(len(steps.starts), np.bool_)
    found = np.full(len(steps.starts), -1, dtype=np.int64)
    add, older = steps.is_any(Op.ADD), steps.is_any(Op.ADD_OLDER)
    for segments, places in steps.rounds(~steps.is_any(Op.SKIP)):
        value = np.where(valid[places] & ~steps.is_any(Op.CLEAR)[places], places, -1)
        before, taken = found[segments], is_taken[segments]
        takes = add[places] & ~taken & (value >= 0)
        keeps = older[places] & ~taken & (before >= 0)
        is_taken[segments] = taken | takes | keeps
        stays = (add[places] & ~takes) | keeps
        found[segments] = np.where(stays, before, value)
    return steps.row_at(found)


def largest(function: str) -> Callable[[pa.Array, Steps, ColumnAggregate], Indices]:
    """``max`` and ``bool_or``."""
    return lambda column, steps, _: _extreme(column, steps, function, np.maximum)


def smallest(function: str) -> Callable[[pa.Array, Steps, ColumnAggregate], Indices]:
    """``min`` and ``bool_and``."""
    return lambda column, steps, _: _extreme(column, steps, function, np.minimum)


def _extreme(column: pa.Array, steps: Steps, function: str, reduce: np.ufunc) -> Indices:
    steps.refuse_take_back(function)
    values = ordered_integers(column)[steps.rows]
    counts = steps.valid(column) & steps.since_begun() & ~steps.is_any(Op.SKIP, Op.CLEAR)
    limits = np.iinfo(values.dtype)
    neutral = limits.min if reduce is np.maximum else limits.max
    extreme = reduce.reduceat(np.where(counts, values, neutral), steps.starts)
    is_it = counts & (values == np.repeat(extreme, steps.lengths))
    place = steps.last(is_it)
    return steps.row_at(place)
