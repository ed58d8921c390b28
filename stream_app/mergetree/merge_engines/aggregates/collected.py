"""Computes ``collect``, ``merge_map``, ``nested_update`` and ``nested_partial_update``.

Elements of Paimon's hash sets are in order of arrival here. Elements of its hash maps keep the
position at which their key first appeared.

Source: Paimon `mergetree/compact/aggregate/FieldCollectAgg.java`, `FieldMergeMapAgg.java`,
`FieldNestedUpdateAgg.java`, `FieldNestedPartialUpdateAgg.java`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from stream_app.arrow_buffers import Bools, Int64s
from stream_app.mergetree.merge_engines.aggregates.elements import (
    Elements,
    NestedColumn,
    build_elements,
    first_of_each,
    fold_elements,
    is_standing_element,
    last_of_each,
    pair_numbers,
)
from stream_app.mergetree.merge_engines.aggregates.limited_elements import limited_update
from stream_app.mergetree.merge_engines.aggregates.segment_changes import (
    ChangeOp,
    SegmentChanges,
    SegmentValues,
)
from stream_app.mergetree.value_codes import combined_codes, value_codes
from stream_app.model.options.merge_options import NO_LIMIT
from stream_app.model.schema.merge.merge_rules import ColumnAggregate


def collect_elements(
    column: pa.Array, changes: SegmentChanges, aggregate: ColumnAggregate
) -> SegmentValues:
    """Collect all elements in the order of changes; with ``distinct`` each once.

    Undoing an array removes one equal element for each of its own, the oldest first.
    """
    if not aggregate.is_distinct:
        return fold_elements(column, changes, _all_elements)
    # Each merged row, even one with null, makes the elements distinct.
    has_add = changes.has_any(
        changes.is_any(ChangeOp.ADD, ChangeOp.ADD_OLDER) & changes.is_since_restart()
    )
    is_merged = has_add & (changes.merges_single_rows | (changes.lengths > 1))
    return fold_elements(column, changes, _distinct_elements, is_merged)


def _all_elements(nested_column: NestedColumn, elements: Elements, count: int) -> pa.Array:
    if elements.is_retract.any():
        elements = elements.where(
            _elements_not_retracted(_pairs(nested_column, elements), elements.is_retract)
        )
    return build_elements(nested_column, elements, count)


def _distinct_elements(nested_column: NestedColumn, elements: Elements, count: int) -> pa.Array:
    pairs = _pairs(nested_column, elements)
    standing_indices = np.flatnonzero(is_standing_element(elements, pairs))
    distinct_elements = elements.where(standing_indices).where(
        first_of_each(pairs[standing_indices])
    )
    return build_elements(nested_column, distinct_elements, count)


def _pairs(nested_column: NestedColumn, elements: Elements) -> Int64s:
    (values,) = nested_column.children
    return pair_numbers(elements.segments, value_codes(values.take(pa.array(elements.indices))))


def _elements_not_retracted(pairs: Int64s, is_retract: Bools) -> Int64s:
    """Return the indices of elements that no later change undoes, ascending.

    Equal elements of one segment, of which the second is undone::

        pairs      [0, 0, 0, 0]
        is_retract [F, T, T, F]
                   [3]
    """
    order = np.argsort(pairs, kind="stable")
    ordered_pairs, is_add = pairs[order], ~is_retract[order]
    steps = np.where(is_add, 1, -1)
    starts = np.flatnonzero(np.diff(ordered_pairs, prepend=-1))
    ends = np.append(starts[1:], len(ordered_pairs)) - 1
    sums = np.cumsum(steps)
    levels = sums - np.repeat(sums[starts] - steps[starts], ends - starts + 1)
    # Missing elements cannot be undone, so the level never falls below 0. An offset that falls from
    # pair to pair lets one running minimum serve all pairs.
    offsets = ordered_pairs * (2 * len(ordered_pairs) + 2)
    minima = np.minimum.accumulate(levels - offsets) + offsets
    remaining_counts = levels[ends] - np.minimum(minima[ends], 0)
    add_counts = np.cumsum(is_add)
    later_adds = np.repeat(add_counts[ends], ends - starts + 1) - add_counts
    is_left = is_add & (later_adds < np.repeat(remaining_counts, ends - starts + 1))
    return np.sort(order[np.flatnonzero(is_left)])


def merge_maps(column: pa.Array, changes: SegmentChanges, _: ColumnAggregate) -> SegmentValues:
    """Merge maps: the newest value of each key; undoing a map removes its keys."""

    def choose(nested_column: NestedColumn, elements: Elements, count: int) -> pa.Array:
        codes = value_codes(nested_column.children[0].take(pa.array(elements.indices)))
        return build_elements(
            nested_column, _newest_elements(elements, pair_numbers(elements.segments, codes)), count
        )

    return fold_elements(column, changes, choose)


def update_rows(
    column: pa.Array, changes: SegmentChanges, aggregate: ColumnAggregate
) -> SegmentValues:
    """Collect the rows that are not null; with ``nested-key`` the newest of each key.

    Undoing an array removes the rows with its keys, or without ``nested-key`` the equal rows.
    """
    if aggregate.count_limit != NO_LIMIT:
        return limited_update(column, changes, aggregate)

    def choose(nested_column: NestedColumn, elements: Elements, count: int) -> pa.Array:
        elements, rows = _without_nulls(nested_column, elements)
        if aggregate.nested_key:
            remaining_elements = _newest_elements(
                elements, pair_numbers(elements.segments, key_codes(rows, aggregate.nested_key))
            )
        elif elements.is_retract.any():
            is_standing = is_standing_element(
                elements, pair_numbers(elements.segments, value_codes(rows))
            )
            remaining_elements = elements.where(is_standing).in_order()
        else:
            remaining_elements = elements.in_order()
        return build_elements(nested_column, remaining_elements, count)

    return fold_elements(column, changes, choose)


def update_rows_partially(
    column: pa.Array, changes: SegmentChanges, aggregate: ColumnAggregate
) -> SegmentValues:
    """Merge rows by ``nested-key``: each field gets its newest value that is not null."""
    changes.refuse_retract("nested_partial_update")

    def choose(nested_column: NestedColumn, elements: Elements, count: int) -> pa.Array:
        elements, _ = _without_nulls(nested_column, elements)
        elements = elements.in_order()
        rows = nested_column.children[0].take(pa.array(elements.indices))
        pairs = pair_numbers(elements.segments, key_codes(rows, aggregate.nested_key))
        first_indices = first_of_each(pairs)
        first_pairs = pairs[first_indices]
        fields = [_newest_values(values, pairs, first_pairs) for values in rows.flatten()]
        merged_rows = pa.StructArray.from_arrays(fields, fields=list(rows.type))
        return nested_column.with_children((merged_rows,), elements.segments[first_indices], count)

    return fold_elements(column, changes, choose)


def key_codes(rows: pa.Array, nested_key: Sequence[str]) -> Int64s:
    """Return a number for each row's key: int64 [n]."""
    return combined_codes([value_codes(rows.field(name)) for name in nested_key], len(rows))


def _without_nulls(nested_column: NestedColumn, elements: Elements) -> tuple[Elements, pa.Array]:
    rows = nested_column.children[0].take(pa.array(elements.indices))
    if rows.null_count:
        valid_indices = np.flatnonzero(rows.is_valid().to_numpy(zero_copy_only=False))
        return elements.where(valid_indices), rows.take(pa.array(valid_indices))
    return elements, rows


def _newest_elements(elements: Elements, pairs: Int64s) -> Elements:
    """Return each remaining pair's newest element, at the place of the oldest."""
    standing_indices = np.flatnonzero(is_standing_element(elements, pairs))
    elements, pairs = elements.where(standing_indices), pairs[standing_indices]
    order = np.lexsort((elements.ranks, elements.segments))
    elements, pairs = elements.where(order), pairs[order]
    return elements.where(last_of_each(pairs))


def _newest_values(values: pa.Array, pairs: Int64s, first_pairs: Int64s) -> pa.Array:
    last_indices = np.full(int(pairs.max(initial=-1)) + 1, -1, dtype=np.int64)
    valid_indices = np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False))
    last_indices[pairs[valid_indices]] = valid_indices
    indices = last_indices[first_pairs]
    return values.take(pa.array(indices, mask=indices < 0))
