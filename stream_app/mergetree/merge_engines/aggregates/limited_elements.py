"""Computes, step by step, functions whose result depends on the value so far.

These are ``nested_update`` with ``count-limit``, and ``merge_map_with_keytime``. A round takes one
change of each segment, for all segments at once (`SegmentChanges.rounds`).

Source: Paimon `mergetree/compact/aggregate/FieldNestedUpdateAgg.java`,
`FieldMergeMapWithKeyTimeAgg.java`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stream_app.arrow_buffers import Bools, Int64s
from stream_app.mergetree.merge_engines.aggregates.combined_values import is_counted_change
from stream_app.mergetree.merge_engines.aggregates.elements import (
    NestedColumn,
    last_of_each,
    pair_numbers,
)
from stream_app.mergetree.merge_engines.aggregates.segment_changes import (
    ChangeOp,
    SegmentChanges,
    SegmentValues,
)
from stream_app.mergetree.value_codes import combined_codes, value_codes
from stream_app.model.schema.merge.merge_rules import ColumnAggregate


@dataclass(frozen=True, slots=True)
class SegmentElements:
    """The elements of each segment.

    Attributes:
        indices: int64 [m], the indices in the column's children.
        segments: int64 [m], ascending.
    """

    indices: Int64s
    segments: Int64s

    @classmethod
    def join(cls, parts: Sequence[SegmentElements]) -> SegmentElements:
        """Join all parts; in a shared segment, elements of earlier parts come first."""
        segments = np.concatenate([part.segments for part in parts])
        order = np.argsort(segments, kind="stable")
        return cls(np.concatenate([part.indices for part in parts])[order], segments[order])

    def where(self, selection: Bools | Int64s) -> SegmentElements:
        """Return the elements where the mask is true."""
        return SegmentElements(self.indices[selection], self.segments[selection])

    def merge_with(self, other: SegmentElements) -> SegmentElements:
        """Return the elements of both; in a shared segment, those of `self` come first."""
        return SegmentElements.join((self, other))

    def sizes(self, count: int) -> Int64s:
        """Return the number of elements of each segment: int64 [count]."""
        return np.bincount(self.segments, minlength=count)

    def indices_in_segments(self) -> Int64s:
        """Return the index of each element in its segment: int64 [m]."""
        starts = np.flatnonzero(np.diff(self.segments, prepend=-1))
        sizes = np.diff(starts, append=len(self.segments))
        return np.arange(len(self.segments), dtype=np.int64) - np.repeat(starts, sizes)


CombineElements = Callable[[SegmentElements, SegmentElements], SegmentElements]
"""Combines the present elements with those of a change, in segments that have both."""


def limited_update(
    column: pa.Array, changes: SegmentChanges, aggregate: ColumnAggregate
) -> SegmentValues:
    """Compute ``nested_update`` with ``count-limit``, which drops rows beyond the limit."""
    nested_column, changes = _values_of(column, changes)
    (rows,) = nested_column.children
    is_valid = rows.is_valid().to_numpy(zero_copy_only=False)
    keys = [rows.field(name) for name in aggregate.nested_key] or [rows]
    codes = combined_codes([value_codes(key) for key in keys], len(rows))

    def add(present_elements: SegmentElements, added_elements: SegmentElements) -> SegmentElements:
        sizes = present_elements.sizes(len(changes.starts))
        is_full = sizes >= aggregate.count_limit
        added_elements = added_elements.where(
            is_valid[added_elements.indices] & ~is_full[added_elements.segments]
        )
        added_elements = added_elements.where(
            added_elements.indices_in_segments()
            < (aggregate.count_limit - sizes)[added_elements.segments]
        )
        merged_elements = present_elements.where(
            is_full[present_elements.segments] | is_valid[present_elements.indices]
        ).merge_with(added_elements)
        if not aggregate.nested_key:
            return merged_elements
        # A full segment keeps its elements, even if it has a key twice.
        keys = np.where(
            is_full[merged_elements.segments],
            -np.arange(len(merged_elements.indices)) - 1,
            codes[merged_elements.indices],
        )
        pairs = pair_numbers(merged_elements.segments, keys - keys.min(initial=0))
        return merged_elements.where(last_of_each(pairs))

    def retract(
        present_elements: SegmentElements, retracted_elements: SegmentElements
    ) -> SegmentElements:
        present_elements = present_elements.where(is_valid[present_elements.indices])
        retracted_elements = retracted_elements.where(is_valid[retracted_elements.indices])
        pairs, retracted_pairs = _pairs_of_both(codes, present_elements, retracted_elements)
        is_left = ~np.isin(pairs, retracted_pairs)
        present_elements = present_elements.where(is_left)
        return (
            present_elements.where(last_of_each(pairs[is_left]))
            if aggregate.nested_key
            else present_elements
        )

    return _in_rounds(nested_column, changes, add, retract)


def merge_maps_by_time(
    column: pa.Array, changes: SegmentChanges, aggregate: ColumnAggregate
) -> SegmentValues:
    """Compute ``merge_map_with_keytime``: a newer value replaces a key's, and null removes it.

    Three maps of a segment; a value is a text and its time::

        changes  {a: (x, 1)}    {a: (y, 3), b: (z, 1)}    {a: (w, 2), b: null}
        result   {a: (y, 3)}
    """
    changes.refuse_retract("merge_map_with_keytime")
    nested_column, changes = _values_of(column, changes)
    keys, rows = nested_column.children
    codes = value_codes(keys)
    has_row = rows.is_valid().to_numpy(zero_copy_only=False)
    times = rows.flatten()[rows.type.get_field_index(aggregate.time_field or rows.type[-1].name)]
    # Java compares UTF-16, which differs from the order of bytes only for very rare characters.
    ranks = pc.rank(times, tiebreaker="dense").to_numpy().astype(np.int64)
    ranks = np.where(times.is_valid().to_numpy(zero_copy_only=False), ranks, 0)

    def add(present_elements: SegmentElements, added_elements: SegmentElements) -> SegmentElements:
        pairs, added_pairs = _pairs_of_both(codes, present_elements, added_elements)
        index_of_pair = np.full(len(pairs) + len(added_pairs), -1, dtype=np.int64)
        index_of_pair[pairs] = np.arange(len(pairs))
        old_indices = index_of_pair[added_pairs]
        has_old = old_indices >= 0
        old_ranks = np.zeros(len(old_indices), np.int64)
        old_ranks[has_old] = ranks[present_elements.indices[old_indices[has_old]]]
        is_newer = has_row[added_elements.indices] & (ranks[added_elements.indices] > old_ranks)
        indices = present_elements.indices.copy()
        indices[old_indices[is_newer & has_old]] = added_elements.indices[is_newer & has_old]
        is_removed = np.zeros(len(indices), np.bool_)
        is_removed[old_indices[~has_row[added_elements.indices] & has_old]] = True
        updated_elements = SegmentElements(indices, present_elements.segments)
        return updated_elements.where(~is_removed).merge_with(
            added_elements.where(is_newer & ~has_old)
        )

    return _in_rounds(nested_column, changes, add, lambda present_elements, _: present_elements)


def _pairs_of_both(
    codes: Int64s, left: SegmentElements, right: SegmentElements
) -> tuple[Int64s, Int64s]:
    """Return a number for each element's segment and code, equal in both for equal pairs."""
    segments = np.concatenate((left.segments, right.segments))
    pairs = pair_numbers(segments, codes[np.concatenate((left.indices, right.indices))])
    return pairs[: len(left.indices)], pairs[len(left.indices) :]


def _values_of(column: pa.Array, changes: SegmentChanges) -> tuple[NestedColumn, SegmentChanges]:
    """Return one value per change. The column may be a small slice of a large one."""
    values = column.take(pa.array(changes.row_indices))
    return NestedColumn.of_column(values), replace(changes, row_indices=changes.indices)


def _in_rounds(
    nested_column: NestedColumn,
    changes: SegmentChanges,
    add: CombineElements,
    retract: CombineElements,
) -> SegmentValues:
    """Fold the changes of all segments, one change of each segment a round.

    Two segments, of which the second ends after one round::

        starts   [0, 2]
        changes  [[a], [b, c], [d]]
        round 1  [a], [d]
        round 2  [a, b, c]
        result   [[a, b, c], [d]]
    """
    is_counted, count = is_counted_change(nested_column.column, changes), len(changes.starts)
    ops = np.zeros(len(changes.row_indices), np.int8) if changes.ops is None else changes.ops
    present_elements = SegmentElements(np.empty(0, np.int64), np.empty(0, np.int64))
    finished_parts = []
    has_value = np.zeros(count, np.bool_)
    for round_index, (segments, indices) in enumerate(changes.rounds(is_counted)):
        is_over = (changes.lengths <= round_index)[present_elements.segments]
        finished_parts.append(present_elements.where(is_over))
        present_elements = present_elements.where(~is_over)
        element_indices, owners = nested_column.elements(changes.row_indices[indices])
        added_elements = SegmentElements(element_indices, segments[owners])
        op = np.full(count, ChangeOp.SKIP, np.int8)
        op[segments] = ops[indices]
        is_retract, is_late = op == ChangeOp.RETRACT, op == ChangeOp.ADD_OLDER
        has_new = (op != ChangeOp.SKIP) & ~is_retract
        is_first, is_add = has_new & ~has_value, has_new & has_value & ~is_late
        is_late &= has_value
        is_retract &= has_value
        parts = (
            present_elements.where((~(is_add | is_late | is_retract))[present_elements.segments]),
            added_elements.where(is_first[added_elements.segments]),
            add(
                present_elements.where(is_add[present_elements.segments]),
                added_elements.where(is_add[added_elements.segments]),
            ),
            add(
                added_elements.where(is_late[added_elements.segments]),
                present_elements.where(is_late[present_elements.segments]),
            ),
            retract(
                present_elements.where(is_retract[present_elements.segments]),
                added_elements.where(is_retract[added_elements.segments]),
            ),
        )
        present_elements = SegmentElements.join(parts)
        has_value |= has_new
    present_elements = SegmentElements.join((*finished_parts, present_elements))
    children = tuple(
        child.take(pa.array(present_elements.indices)) for child in nested_column.children
    )
    values = nested_column.with_children(children, present_elements.segments, count)
    return values.take(pa.array(np.arange(count), mask=~has_value))
