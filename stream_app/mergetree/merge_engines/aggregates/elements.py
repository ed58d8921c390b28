"""Unfolds the elements of arrays and the entries of maps of all segments into one sequence.

Functions of nested columns choose among existing elements, and return the remaining ones in order.
Nothing is copied before that.

Source: Paimon `data/InternalArray.java`, `data/InternalMap.java`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from stream_app.arrow_buffers import Bools, Int64s
from stream_app.mergetree.merge_engines.aggregates.combined_values import is_counted_change
from stream_app.mergetree.merge_engines.aggregates.segment_changes import (
    ChangeOp,
    SegmentChanges,
    SegmentValues,
)


@dataclass(frozen=True, slots=True)
class NestedColumn:
    """A column of arrays or maps, and the indices of its elements.

    Attributes:
        offsets: int64 [n + 1], where the rows' elements begin in `children`.
        children: the elements, or the keys and the values.
    """

    column: pa.Array
    offsets: Int64s
    children: tuple[pa.Array, ...]

    @classmethod
    def of_column(cls, column: pa.Array) -> NestedColumn:
        """Return the parts of a column."""
        is_map = pa.types.is_map(column.type)
        children = (column.keys, column.items) if is_map else (column.values,)
        return cls(column, column.offsets.to_numpy().astype(np.int64), children)

    def elements(self, row_indices: Int64s) -> tuple[Int64s, Int64s]:
        """Return the elements of rows in order, as indices in the children and as row numbers.

        Returns:
            int64 [m] each; the second counts from 0 in the order of `row_indices`.
        """
        starts = self.offsets[row_indices]
        sizes = self.offsets[row_indices + 1] - self.offsets[row_indices]
        owners = np.repeat(np.arange(len(row_indices), dtype=np.int64), sizes)
        before = np.cumsum(sizes) - sizes
        return np.arange(len(owners), dtype=np.int64) + (starts - before)[owners], owners

    def with_children(self, children: tuple[pa.Array, ...], owners: Int64s, count: int) -> pa.Array:
        """Build `count` arrays or maps from elements.

        Args:
            owners: int64 [m], ascending; the array or map of each element.
        """
        bounds = np.searchsorted(owners, np.arange(count + 1))
        arrow_type = self.column.type
        offsets = pa.array(bounds, pa.int32())
        if pa.types.is_map(arrow_type):
            return pa.MapArray.from_arrays(offsets, *children, type=arrow_type)
        return pa.ListArray.from_arrays(offsets, *children, type=arrow_type)


@dataclass(frozen=True, slots=True)
class Elements:
    """The elements of the changes of k segments, one segment after the other.

    Attributes:
        indices: int64 [m], the indices in the column's children.
        segments: int64 [m], from 0 on, ascending.
        changes: int64 [m], the change of each; a change's elements are together.
        is_retract: bool [m], whether each undoes an element.
        ranks: int64 [m], the order of values, in which a late change precedes the others.
    """

    indices: Int64s
    segments: Int64s
    changes: Int64s
    is_retract: Bools
    ranks: Int64s

    def where(self, selection: Bools | Int64s) -> Elements:
        """Return the elements at a mask or at indices."""
        return Elements(
            self.indices[selection],
            self.segments[selection],
            self.changes[selection],
            self.is_retract[selection],
            self.ranks[selection],
        )

    def in_order(self) -> Elements:
        """Return the elements in the order of values."""
        return self.where(np.lexsort((self.ranks, self.segments)))


Choose = Callable[[NestedColumn, Elements, int], pa.Array]
"""Makes one array or map for each segment from the elements of all segments."""


def fold_elements(
    column: pa.Array, changes: SegmentChanges, choose: Choose, rebuilds_single: Bools | None = None
) -> SegmentValues:
    """Fold each segment into one value. A single value stays unchanged, and no value gives null.

    Args:
        rebuilds_single: bool [segments]; whether even a single value is rebuilt from its elements.
    """
    is_counted = is_counted_change(column, changes)
    is_retract = is_counted & changes.is_any(ChangeOp.RETRACT)
    is_add = is_counted & ~is_retract
    first_adds, last_adds = changes.first_indices(is_add), changes.last_indices(is_add)
    # Before the first value there is nothing to undo.
    is_retract &= changes.indices > np.repeat(first_adds, changes.lengths)
    is_counted = is_add | is_retract
    sizes = changes.sums(is_counted.astype(np.int64))
    result_indices = changes.row_at(last_adds)
    is_rebuilt = sizes > 1
    if rebuilds_single is not None:
        is_rebuilt |= rebuilds_single & (last_adds >= 0)
    rebuilt_indices = np.flatnonzero(is_rebuilt)
    if not len(rebuilt_indices):
        return result_indices
    change_indices = np.flatnonzero(is_counted & np.repeat(is_rebuilt, changes.lengths))
    nested_column = NestedColumn.of_column(column)
    indices, owners = nested_column.elements(changes.row_indices[change_indices])
    rebuilt_numbers = np.cumsum(is_rebuilt) - 1
    segments = np.repeat(rebuilt_numbers, changes.lengths)[change_indices]
    is_late = changes.is_any(ChangeOp.ADD_OLDER)[change_indices]
    ranks = np.where(is_late, -change_indices - 1, change_indices)
    elements = Elements(
        indices,
        segments[owners],
        change_indices[owners],
        is_retract[change_indices][owners],
        ranks[owners],
    )
    folded_column = choose(nested_column, elements, len(rebuilt_indices))
    result_indices[rebuilt_indices] = len(column) + np.arange(len(rebuilt_indices))
    return pa.concat_arrays([column, folded_column]).take(
        pa.array(result_indices, mask=result_indices < 0)
    )


def build_elements(nested_column: NestedColumn, elements: Elements, count: int) -> pa.Array:
    """Build arrays or maps of these elements, segment by segment."""
    indices = pa.array(elements.indices)
    children = tuple(child.take(indices) for child in nested_column.children)
    return nested_column.with_children(children, elements.segments, count)


def pair_numbers(segments: Int64s, codes: Int64s) -> Int64s:
    """Return a number from 0 on for each pair of segment and code: int64 [m]."""
    pair_codes = segments * (int(codes.max(initial=0)) + 1) + codes
    ranks: Int64s = np.unique(pair_codes, return_inverse=True)[1].reshape(-1)
    return ranks


def is_standing_element(elements: Elements, pairs: Int64s) -> Bools:
    """Return the mask of elements that no later element of their pair undoes: bool [m]."""
    if not elements.is_retract.any():
        return np.ones(len(pairs), np.bool_)
    last_retract = np.full(int(pairs.max(initial=-1)) + 1, -1, dtype=np.int64)
    np.maximum.at(last_retract, pairs[elements.is_retract], elements.changes[elements.is_retract])
    is_standing: Bools = ~elements.is_retract & (elements.changes > last_retract[pairs])
    return is_standing


def last_of_each(pairs: Int64s) -> Int64s:
    """Return the index of each pair's last element, in order of its first: int64 [pairs]."""
    last_indices = np.zeros(int(pairs.max(initial=-1)) + 1, np.int64)
    last_indices[pairs] = np.arange(len(pairs))  # of several values at one index the last stays
    return last_indices[pairs[first_of_each(pairs)]]


def first_of_each(pairs: Int64s) -> Int64s:
    """Return the index of each pair's first element, ascending: int64 [pairs]."""
    return np.sort(np.unique(pairs, return_index=True)[1])
