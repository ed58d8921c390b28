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
from stream_app.mergetree.merge_engines.aggregates.combined_values import counted_changes
from stream_app.mergetree.merge_engines.aggregates.segment_changes import (
    ChangeOp,
    Folded,
    SegmentChanges,
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

    def elements(self, rows: Int64s) -> tuple[Int64s, Int64s]:
        """Return the elements of rows in order, as indices in the children and as row numbers.

        Returns:
            int64 [m] each; the second counts from 0 in the order of `rows`.
        """
        begins, sizes = self.offsets[rows], self.offsets[rows + 1] - self.offsets[rows]
        owners = np.repeat(np.arange(len(rows), dtype=np.int64), sizes)
        before = np.cumsum(sizes) - sizes
        return np.arange(len(owners), dtype=np.int64) + (begins - before)[owners], owners

    def with_children(self, children: tuple[pa.Array, ...], owners: Int64s, count: int) -> pa.Array:
        """Build `count` arrays or maps from elements.

        Args:
            owners: int64 [m], ascending; the array or map of each element.
        """
        bounds = np.searchsorted(owners, np.arange(count + 1))
        kind, offsets = self.column.type, pa.array(bounds, pa.int32())
        if pa.types.is_map(kind):
            return pa.MapArray.from_arrays(offsets, *children, type=kind)
        return pa.ListArray.from_arrays(offsets, *children, type=kind)


@dataclass(frozen=True, slots=True)
class Elements:
    """The elements of the changes of k segments, one segment after the other.

    Attributes:
        indices: int64 [m], the indices in the column's children.
        segments: int64 [m], from 0 on, ascending.
        changes: int64 [m], the change of each; a change's elements are together.
        undoes: bool [m], whether each undoes an element.
        rank: int64 [m], the order of values, in which a late change precedes the others.
    """

    indices: Int64s
    segments: Int64s
    changes: Int64s
    undoes: Bools
    rank: Int64s

    def where(self, selection: Bools | Int64s) -> Elements:
        """Return the elements where the mask is true."""
        return Elements(
            self.indices[selection],
            self.segments[selection],
            self.changes[selection],
            self.undoes[selection],
            self.rank[selection],
        )

    def in_order(self) -> Elements:
        """Return the elements in the order of values."""
        return self.where(np.lexsort((self.rank, self.segments)))


Choose = Callable[[NestedColumn, Elements, int], pa.Array]
"""Makes one array or map for each segment from the elements of all segments."""


def fold_elements(
    column: pa.Array, changes: SegmentChanges, choose: Choose, even_alone: Bools | None = None
) -> Folded:
    """Fold each segment into one value. A single value stays unchanged, and no value gives null.

    Args:
        even_alone: bool [segments], whether even a single value is rebuilt from its elements.
    """
    counts = counted_changes(column, changes)
    undoes = counts & changes.is_any(ChangeOp.TAKE_BACK)
    adds = counts & ~undoes
    first, last = changes.first(adds), changes.last(adds)
    # Before the first value there is nothing to undo.
    undoes &= changes.indices > np.repeat(first, changes.lengths)
    counts = adds | undoes
    sizes = changes.sums(counts.astype(np.int64))
    rows = changes.row_at(last)
    is_made = sizes > 1
    if even_alone is not None:
        is_made |= even_alone & (last >= 0)
    several = np.flatnonzero(is_made)
    if not len(several):
        return rows
    positions = np.flatnonzero(counts & np.repeat(is_made, changes.lengths))
    nested = NestedColumn.of_column(column)
    indices, owners = nested.elements(changes.rows[positions])
    number = np.cumsum(is_made) - 1
    segments = np.repeat(number, changes.lengths)[positions]
    late = changes.is_any(ChangeOp.ADD_OLDER)[positions]
    rank = np.where(late, -positions - 1, positions)
    elements = Elements(
        indices, segments[owners], positions[owners], undoes[positions][owners], rank[owners]
    )
    folded = choose(nested, elements, len(several))
    rows[several] = len(column) + np.arange(len(several))
    return pa.concat_arrays([column, folded]).take(pa.array(rows, mask=rows < 0))


def build_elements(nested: NestedColumn, elements: Elements, count: int) -> pa.Array:
    """Build arrays or maps of these elements, segment by segment."""
    indices = pa.array(elements.indices)
    children = tuple(child.take(indices) for child in nested.children)
    return nested.with_children(children, elements.segments, count)


def pair_numbers(segments: Int64s, codes: Int64s) -> Int64s:
    """Return a number from 0 on for each pair of segment and code: int64 [m]."""
    both = segments * (int(codes.max(initial=0)) + 1) + codes
    numbered: Int64s = np.unique(both, return_inverse=True)[1].reshape(-1)
    return numbered


def standing_elements(elements: Elements, pairs: Int64s) -> Bools:
    """Return the mask of elements after the last undoing one of their pair: bool [m]."""
    if not elements.undoes.any():
        return np.ones(len(pairs), np.bool_)
    undone = np.full(int(pairs.max(initial=-1)) + 1, -1, dtype=np.int64)
    np.maximum.at(undone, pairs[elements.undoes], elements.changes[elements.undoes])
    mask: Bools = ~elements.undoes & (elements.changes > undone[pairs])
    return mask


def first_of_each(pairs: Int64s) -> Int64s:
    """Return the index of each pair's first element, ascending: int64 [pairs]."""
    return np.sort(np.unique(pairs, return_index=True)[1])
