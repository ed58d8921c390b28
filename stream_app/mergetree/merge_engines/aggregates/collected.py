"""``collect``: the elements of all arrays in one.

Where Paimon uses a hash set, the order of elements is that in which they came.

Source: Paimon `mergetree/compact/aggregate/FieldCollectAgg.java`.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from stream_app.mergetree.key_value_batch import Indices, Mask
from stream_app.mergetree.merge_engines.aggregates.elements import (
    Elements,
    NestedColumn,
    first_of_each,
    folded_elements,
    pairs,
    standing,
    taken,
)
from stream_app.mergetree.merge_engines.aggregates.steps import Folded, Op, Steps
from stream_app.mergetree.value_codes import value_codes
from stream_app.model.schema.merge_rules import ColumnAggregate


def collected(column: pa.Array, steps: Steps, how: ColumnAggregate) -> Folded:
    """All elements in the order of steps, each once with ``distinct``.

    Undoing an array takes one equal element away for each of its own, the oldest first.
    """
    if not how.distinct:
        return folded_elements(column, steps, _all)
    # Each row of a merge, even one with null, makes the elements distinct.
    calls = steps.any(steps.is_any(Op.ADD, Op.ADD_OLDER) & steps.since_begun())
    is_merged = calls & (steps.merges_alone | (steps.lengths > 1))
    return folded_elements(column, steps, _distinct, is_merged)


def _all(nested: NestedColumn, elements: Elements, count: int) -> pa.Array:
    if elements.undoes.any():
        elements = elements.where(_left_over(_pairs(nested, elements), elements.undoes))
    return taken(nested, elements, count)


def _distinct(nested: NestedColumn, elements: Elements, count: int) -> pa.Array:
    of_pair = _pairs(nested, elements)
    stands = np.flatnonzero(standing(elements, of_pair))
    kept = elements.where(stands).where(first_of_each(of_pair[stands]))
    return taken(nested, kept, count)


def _pairs(nested: NestedColumn, elements: Elements) -> Indices:
    (values,) = nested.children
    return pairs(elements.segments, value_codes(values.take(pa.array(elements.at))))


def _left_over(of_pair: Indices, undoes: Mask) -> Indices:
    """Places of the elements that no later one takes back, ascending.

    Equal elements of one segment, of which the second is taken back::

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
    # Elements that are not there cannot be taken back: the level never falls below 0. A bound that
    # falls from group to group lets one running minimum serve all of them.
    falls = group * (2 * len(group) + 2)
    lowest = np.minimum.accumulate(level - falls) + falls
    left = level[ends] - np.minimum(lowest[ends], 0)
    adds = np.cumsum(is_add)
    behind = np.repeat(adds[ends], ends - starts + 1) - adds
    kept = is_add & (behind < np.repeat(left, ends - starts + 1))
    return np.sort(order[np.flatnonzero(kept)])
