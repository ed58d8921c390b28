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

from stream_app.mergetree.key_value_batch import Indices, Mask
from stream_app.mergetree.merge_engines.aggregates.elements import (
    Elements,
    NestedColumn,
    first_of_each,
    folded_elements,
    nested_elements,
    pair_numbers,
    standing_elements,
)
from stream_app.mergetree.merge_engines.aggregates.limited_elements import limited_update
from stream_app.mergetree.merge_engines.aggregates.segment_changes import (
    ChangeOp,
    Folded,
    SegmentChanges,
)
from stream_app.mergetree.value_codes import row_codes, value_codes
from stream_app.model.options.merge_options import NO_LIMIT
from stream_app.model.schema.merge_rules import ColumnAggregate


def collected_elements(
    column: pa.Array, changes: SegmentChanges, aggregate: ColumnAggregate
) -> Folded:
    """Collect all elements in the order of changes; with ``distinct`` each once.

    Undoing an array removes one equal element for each of its own, the oldest first.
    """
    if not aggregate.distinct:
        return folded_elements(column, changes, _all)
    # Each merged row, even one with null, makes the elements distinct.
    calls = changes.any(changes.is_any(ChangeOp.ADD, ChangeOp.ADD_OLDER) & changes.since_begun())
    is_merged = calls & (changes.merges_alone | (changes.lengths > 1))
    return folded_elements(column, changes, _distinct, is_merged)


def _all(nested: NestedColumn, elements: Elements, count: int) -> pa.Array:
    if elements.undoes.any():
        elements = elements.where(_left_over(_pairs(nested, elements), elements.undoes))
    return nested_elements(nested, elements, count)


def _distinct(nested: NestedColumn, elements: Elements, count: int) -> pa.Array:
    of_pair = _pairs(nested, elements)
    stands = np.flatnonzero(standing_elements(elements, of_pair))
    distinct = elements.where(stands).where(first_of_each(of_pair[stands]))
    return nested_elements(nested, distinct, count)


def _pairs(nested: NestedColumn, elements: Elements) -> Indices:
    (values,) = nested.children
    return pair_numbers(elements.segments, value_codes(values.take(pa.array(elements.places))))


def _left_over(of_pair: Indices, undoes: Mask) -> Indices:
    """Return the places of elements that no later change undoes, ascending.

    Equal elements of one segment, of which the second is undone::

        of_pair   [0, 0, 0, 0]
        undoes    [F, T, T, F]
        [3]
    """
    order = np.argsort(of_pair, kind="stable")
    group, is_add = of_pair[order], ~undoes[order]
    change = np.where(is_add, 1, -1)
    starts = np.flatnonzero(np.diff(group, prepend=-1))
    ends = np.append(starts[1:], len(group)) - 1
    sums = np.cumsum(change)
    level = sums - np.repeat(sums[starts] - change[starts], ends - starts + 1)
    # Missing elements cannot be undone, so the level never falls below 0. A bound that falls from
    # group to group lets one running minimum serve all groups.
    falls = group * (2 * len(group) + 2)
    lowest = np.minimum.accumulate(level - falls) + falls
    left = level[ends] - np.minimum(lowest[ends], 0)
    adds = np.cumsum(is_add)
    behind = np.repeat(adds[ends], ends - starts + 1) - adds
    is_left = is_add & (behind < np.repeat(left, ends - starts + 1))
    return np.sort(order[np.flatnonzero(is_left)])


def merged_maps(column: pa.Array, changes: SegmentChanges, _: ColumnAggregate) -> Folded:
    """Merge maps: the newest value of each key; undoing a map removes its keys, whatever the
    values.
    """

    def choose(nested: NestedColumn, elements: Elements, count: int) -> pa.Array:
        codes = value_codes(nested.children[0].take(pa.array(elements.places)))
        return nested_elements(
            nested, _newest(elements, pair_numbers(elements.segments, codes)), count
        )

    return folded_elements(column, changes, choose)


def updated_rows(column: pa.Array, changes: SegmentChanges, aggregate: ColumnAggregate) -> Folded:
    """Collect the rows that are not null; with ``nested-key`` the newest of each key.

    Undoing an array removes the rows with its keys, or without ``nested-key`` the equal rows.
    """
    if aggregate.count_limit != NO_LIMIT:
        return limited_update(column, changes, aggregate)

    def choose(nested: NestedColumn, elements: Elements, count: int) -> pa.Array:
        elements, rows = _without_nulls(nested, elements)
        if aggregate.nested_key:
            chosen = _newest(
                elements, pair_numbers(elements.segments, key_codes(rows, aggregate.nested_key))
            )
        elif elements.undoes.any():
            stands = standing_elements(elements, pair_numbers(elements.segments, value_codes(rows)))
            chosen = elements.where(stands).in_order()
        else:
            chosen = elements.in_order()
        return nested_elements(nested, chosen, count)

    return folded_elements(column, changes, choose)


def partially_updated_rows(
    column: pa.Array, changes: SegmentChanges, aggregate: ColumnAggregate
) -> Folded:
    """Merge rows by ``nested-key``: each field gets its newest value that is not null."""
    changes.refuse_take_back("nested_partial_update")

    def choose(nested: NestedColumn, elements: Elements, count: int) -> pa.Array:
        elements, _ = _without_nulls(nested, elements)
        elements = elements.in_order()
        rows = nested.children[0].take(pa.array(elements.places))
        of_pair = pair_numbers(elements.segments, key_codes(rows, aggregate.nested_key))
        firsts = first_of_each(of_pair)
        chosen = of_pair[firsts]
        fields = [_newest_values(values, of_pair, chosen) for values in rows.flatten()]
        merged = pa.StructArray.from_arrays(fields, fields=list(rows.type))
        return nested.with_children((merged,), elements.segments[firsts], count)

    return folded_elements(column, changes, choose)


def key_codes(rows: pa.Array, nested_key: Sequence[str]) -> Indices:
    """Return a number for each row's key: int64 [n]."""
    return row_codes([value_codes(rows.field(name)) for name in nested_key], len(rows))


def _without_nulls(nested: NestedColumn, elements: Elements) -> tuple[Elements, pa.Array]:
    rows = nested.children[0].take(pa.array(elements.places))
    if rows.null_count:
        valid = np.flatnonzero(rows.is_valid().to_numpy(zero_copy_only=False))
        return elements.where(valid), rows.take(pa.array(valid))
    return elements, rows


def _newest(elements: Elements, of_pair: Indices) -> Elements:
    """Return each remaining pair's newest element, at the place of the oldest."""
    stands = np.flatnonzero(standing_elements(elements, of_pair))
    elements, of_pair = elements.where(stands), of_pair[stands]
    order = np.lexsort((elements.rank, elements.segments))
    ordered, of_pair = elements.where(order), of_pair[order]
    firsts = first_of_each(of_pair)
    last = np.zeros(int(of_pair.max(initial=-1)) + 1, np.int64)
    last[of_pair] = np.arange(len(of_pair))  # the last of several numbers for one place wins
    return ordered.where(last[of_pair[firsts]])


def _newest_values(values: pa.Array, of_pair: Indices, chosen: Indices) -> pa.Array:
    last = np.full(int(of_pair.max(initial=-1)) + 1, -1, dtype=np.int64)
    valid = np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False))
    last[of_pair[valid]] = valid
    places = last[chosen]
    return values.take(pa.array(places, mask=places < 0))
