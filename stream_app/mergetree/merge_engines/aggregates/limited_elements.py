"""Computes, step by step, functions whose result depends on the value so far.

``nested_update`` with ``count-limit``, and ``merge_map_with_keytime``. A round takes one change of
each segment, for all segments at once (`SegmentChanges.rounds`).

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
from stream_app.mergetree.merge_engines.aggregates.combined_values import counted_changes
from stream_app.mergetree.merge_engines.aggregates.elements import (
    NestedColumn,
    first_of_each,
    pair_numbers,
)
from stream_app.mergetree.merge_engines.aggregates.segment_changes import (
    ChangeOp,
    Folded,
    SegmentChanges,
)
from stream_app.mergetree.value_codes import row_codes, value_codes
from stream_app.model.schema.merge.merge_rules import ColumnAggregate


@dataclass(frozen=True, slots=True)
class HeldElements:
    """The elements of each segment.

    Attributes:
        indices: int64 [m], the indices in the column's children.
        segments: int64 [m], ascending.
    """

    indices: Int64s
    segments: Int64s

    @classmethod
    def join(cls, parts: Sequence[HeldElements]) -> HeldElements:
        """Join all parts; in a shared segment, elements of earlier parts come first."""
        segments = np.concatenate([part.segments for part in parts])
        order = np.argsort(segments, kind="stable")
        return cls(np.concatenate([part.indices for part in parts])[order], segments[order])

    def where(self, selection: Bools | Int64s) -> HeldElements:
        """Return the elements where the mask is true."""
        return HeldElements(self.indices[selection], self.segments[selection])

    def merge_with(self, other: HeldElements) -> HeldElements:
        """Return the elements of both; in a shared segment, those of `self` come first."""
        return HeldElements.join((self, other))

    def sizes(self, count: int) -> Int64s:
        """Return the number of elements of each segment: int64 [count]."""
        return np.bincount(self.segments, minlength=count)

    def positions(self) -> Int64s:
        """Return the position of each element in its segment, from 0 on."""
        starts = np.flatnonzero(np.diff(self.segments, prepend=-1))
        sizes = np.diff(starts, append=len(self.segments))
        return np.arange(len(self.segments), dtype=np.int64) - np.repeat(starts, sizes)


CombineElements = Callable[[HeldElements, HeldElements], HeldElements]
"""Combines present and new elements of segments that have both."""


def limited_update(column: pa.Array, changes: SegmentChanges, aggregate: ColumnAggregate) -> Folded:
    """Compute ``nested_update`` with ``count-limit``, which drops rows beyond the limit."""
    nested, changes = _values_of(column, changes)
    (rows,) = nested.children
    valid = rows.is_valid().to_numpy(zero_copy_only=False)
    keys = [rows.field(name) for name in aggregate.nested_key] or [rows]
    codes = row_codes([value_codes(key) for key in keys], len(rows))

    def add(held: HeldElements, new: HeldElements) -> HeldElements:
        count = len(changes.starts)
        sizes = held.sizes(count)
        is_full = sizes >= aggregate.count_limit
        new = new.where(valid[new.indices] & ~is_full[new.segments])
        new = new.where(new.positions() < (aggregate.count_limit - sizes)[new.segments])
        merged = held.where(is_full[held.segments] | valid[held.indices]).merge_with(new)
        if not aggregate.nested_key:
            return merged
        # A full segment keeps its elements, even if it has a key twice.
        keys = np.where(
            is_full[merged.segments], -np.arange(len(merged.indices)) - 1, codes[merged.indices]
        )
        pairs = pair_numbers(merged.segments, keys - keys.min(initial=0))
        firsts = first_of_each(pairs)
        last = np.zeros(len(firsts), np.int64)
        last[pairs] = np.arange(len(pairs))
        return merged.where(last[pairs[firsts]])

    def take_back(held: HeldElements, undone: HeldElements) -> HeldElements:
        held, undone = held.where(valid[held.indices]), undone.where(valid[undone.indices])
        merged = pair_numbers(
            np.concatenate((held.segments, undone.segments)),
            np.concatenate((codes[held.indices], codes[undone.indices])),
        )
        held = held.where(~np.isin(merged[: len(held.indices)], merged[len(held.indices) :]))
        if not aggregate.nested_key:
            return held
        pairs = pair_numbers(held.segments, codes[held.indices])
        firsts = first_of_each(pairs)
        last = np.zeros(len(firsts), np.int64)
        last[pairs] = np.arange(len(pairs))
        return held.where(last[pairs[firsts]])

    return _in_rounds(nested, changes, add, take_back)


def merge_maps_by_time(
    column: pa.Array, changes: SegmentChanges, aggregate: ColumnAggregate
) -> Folded:
    """Compute ``merge_map_with_keytime``: a newer value replaces a key's, and null removes it."""
    changes.refuse_take_back("merge_map_with_keytime")
    nested, changes = _values_of(column, changes)
    keys, rows = nested.children
    codes = value_codes(keys)
    has_row = rows.is_valid().to_numpy(zero_copy_only=False)
    times = rows.flatten()[rows.type.get_field_index(aggregate.time_field or rows.type[-1].name)]
    # Java compares UTF-16, which differs from the order of bytes only for very rare characters.
    ranks = pc.rank(times, tiebreaker="dense").to_numpy().astype(np.int64)
    ranks = np.where(times.is_valid().to_numpy(zero_copy_only=False), ranks, 0)

    def add(held: HeldElements, new: HeldElements) -> HeldElements:
        merged = pair_numbers(
            np.concatenate((held.segments, new.segments)),
            np.concatenate((codes[held.indices], codes[new.indices])),
        )
        held_pairs, new_pairs = merged[: len(held.indices)], merged[len(held.indices) :]
        index_of_pair = np.full(int(merged.max(initial=-1)) + 1, -1, dtype=np.int64)
        index_of_pair[held_pairs] = np.arange(len(held_pairs))
        old = index_of_pair[new_pairs]
        old_rank = np.where(old >= 0, ranks[held.indices][old] if len(held_pairs) else 0, 0)
        wins = has_row[new.indices] & (ranks[new.indices] > old_rank)
        indices = held.indices.copy()
        indices[old[wins & (old >= 0)]] = new.indices[wins & (old >= 0)]
        is_gone = np.zeros(len(indices), np.bool_)
        is_gone[old[~has_row[new.indices] & (old >= 0)]] = True
        return (
            HeldElements(indices, held.segments)
            .where(~is_gone)
            .merge_with(new.where(wins & (old < 0)))
        )

    return _in_rounds(nested, changes, add, lambda held, _: held)


def _values_of(column: pa.Array, changes: SegmentChanges) -> tuple[NestedColumn, SegmentChanges]:
    """Return one value per change. The column may be a small slice of a large one."""
    values = column.take(pa.array(changes.rows))
    return NestedColumn.of_column(values), replace(changes, rows=changes.indices)


def _in_rounds(
    nested: NestedColumn, changes: SegmentChanges, add: CombineElements, take_back: CombineElements
) -> Folded:
    """Fold the changes of all segments, one change of each segment a round."""
    counts, count = counted_changes(nested.column, changes), len(changes.starts)
    ops = np.zeros(len(changes.rows), np.int8) if changes.ops is None else changes.ops
    held = HeldElements(np.empty(0, np.int64), np.empty(0, np.int64))
    finished = []
    has_value = np.zeros(count, np.bool_)
    for number, (segments, indices) in enumerate(changes.rounds(counts)):
        is_over = (changes.lengths <= number)[held.segments]
        finished.append(held.where(is_over))
        held = held.where(~is_over)
        element_indices, owners = nested.elements(changes.rows[indices])
        new = HeldElements(element_indices, segments[owners])
        op = np.full(count, ChangeOp.SKIP, np.int8)
        op[segments] = ops[indices]
        undoes, older = op == ChangeOp.TAKE_BACK, op == ChangeOp.ADD_OLDER
        takes = (op != ChangeOp.SKIP) & ~undoes
        begins, adds = takes & ~has_value, takes & has_value & ~older
        older &= has_value
        undoes &= has_value
        parts = (
            held.where((~(adds | older | undoes))[held.segments]),
            new.where(begins[new.segments]),
            add(held.where(adds[held.segments]), new.where(adds[new.segments])),
            add(new.where(older[new.segments]), held.where(older[held.segments])),
            take_back(held.where(undoes[held.segments]), new.where(undoes[new.segments])),
        )
        held = HeldElements.join(parts)
        has_value |= takes
    held = HeldElements.join((*finished, held))
    children = tuple(child.take(pa.array(held.indices)) for child in nested.children)
    values = nested.with_children(children, held.segments, count)
    return values.take(pa.array(np.arange(count), mask=~has_value))
