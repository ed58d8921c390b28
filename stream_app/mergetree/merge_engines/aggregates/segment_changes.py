"""Defines the changes of one column, for all keys of a window.

A change is a row of the window and its effect on the key's value so far. Each function of this
package folds the changes of each segment into one value, in whole columns.

Source: Paimon `mergetree/compact/aggregate/FieldAggregator.java` (`agg`, `aggReversed`, `retract`),
`mergetree/compact/PartialUpdateMergeFunction.java` (`initRow`).
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stream_app.arrow_buffers import Bools, Int64s, valid_of
from stream_app.errors import MergeError
from stream_app.model.schema.merge.refusal_rules import cannot_retract

ANY_COLUMN = "<column>"
"""Stands for the column's name in errors of a function, which does not know the column."""
SHALLOW = 16
"""Changes of a segment up to which rounds are cheaper than operations on all changes."""
SegmentValues = Int64s | pa.Array
"""A value for each segment: the batch's row that has the value (int64 [segments], -1 for null), or
the values themselves."""


class ChangeOp(enum.IntEnum):
    """The effect of a change on the value so far."""

    ADD = 0
    """Includes the row's value."""
    ADD_OLDER = 1
    """Includes a value that comes before the others: the row was late."""
    RETRACT = 2
    """Undoes a value."""
    SET = 3
    """Restarts with the row's value."""
    CLEAR = 4
    """Restarts with null."""
    SKIP = 5
    """Does nothing."""


@dataclass(frozen=True)
class Segments:
    """The rows of all segments, and facts that do not depend on the changes' operations.

    Attributes:
        row_indices: int64 [changes], each change's row in the batch.
        starts: int64 [segments], ascending from 0; no segment is empty.
    """

    row_indices: Int64s
    starts: Int64s

    @cached_property
    def indices(self) -> Int64s:
        """0, 1, 2 …: int64 [changes]."""
        return np.arange(len(self.row_indices), dtype=np.int64)

    @cached_property
    def lengths(self) -> Int64s:
        """The number of changes of each segment."""
        return np.diff(self.starts, append=len(self.row_indices))

    @cached_property
    def ends(self) -> Int64s:
        """The index of each segment's last change."""
        return self.starts + self.lengths - 1

    @cached_property
    def newest_row_indices(self) -> Int64s:
        """The row of each segment's last change: int64 [segments]."""
        return self.row_indices[self.ends]

    @cached_property
    def oldest_row_indices(self) -> Int64s:
        """The row of each segment's first change: int64 [segments]."""
        return self.row_indices[self.starts]

    @cached_property
    def depth(self) -> int:
        """The number of changes of the longest segment."""
        return int(self.lengths.max()) if len(self.lengths) else 0

    @cached_property
    def later_row_indices(self) -> list[tuple[Int64s, Int64s]]:
        """The segments and the changes' rows of each round but the first."""
        rounds = []
        active_indices = np.flatnonzero(self.lengths > 1)
        for round_index in range(1, self.depth):
            if round_index > 1:
                # Selecting by indices is three times faster than by an irregular mask.
                active_indices = active_indices[
                    np.flatnonzero(self.lengths[active_indices] > round_index)
                ]
            rounds.append(
                (active_indices, self.row_indices[self.starts[active_indices] + round_index])
            )
        return rounds


_CACHED_FACTS = {
    name for name, member in vars(Segments).items() if isinstance(member, cached_property)
}


@dataclass(frozen=True)
class SegmentChanges(Segments):
    """The changes of all segments, one segment after the other.

    Two keys; the second has a delete between two values::

        row_indices  [4, 0,  2, 3, 1]
        starts       [0,     2]
        ops          [ADD, ADD,  ADD, RETRACT, ADD]

    Attributes:
        ops: int8 [changes]; None: all are `ChangeOp.ADD`.
        merges_single_rows: whether a segment's only change is merged too; else it stays unchanged.
    """

    ops: npt.NDArray[np.int8] | None = None
    merges_single_rows: bool = False

    def with_ops(self, ops: npt.NDArray[np.int8]) -> SegmentChanges:
        """Return the same rows with other operations: int8 [changes]."""
        changes = SegmentChanges(
            self.row_indices, self.starts, ops if ops.any() else None, self.merges_single_rows
        )
        # The cached facts about the segments stay valid.
        vars(changes).update({name: vars(self)[name] for name in _CACHED_FACTS & vars(self).keys()})
        return changes

    def is_any(self, *ops: ChangeOp) -> Bools:
        """Return the mask of changes with one of these operations: bool [changes]."""
        if self.ops is None:
            return np.full(len(self.row_indices), ChangeOp.ADD in ops)
        is_chosen = np.zeros(len(self.row_indices), np.bool_)
        for op in ops:
            is_chosen |= self.ops == op
        return is_chosen

    def has(self, *ops: ChangeOp) -> bool:
        """Return whether any change has one of these operations."""
        if self.ops is None:
            return ChangeOp.ADD in ops and len(self.row_indices) > 0
        return bool(self.is_any(*ops).any())

    def last_indices(self, is_chosen: Bools) -> Int64s:
        """Return the index of each segment's last chosen change, else -1: int64 [segments]."""
        # A running maximum takes a third of a `reduceat`'s time. It may be before the segment.
        so_far = np.maximum.accumulate(np.where(is_chosen, self.indices, -1))[self.ends]
        return np.where(so_far < self.starts, -1, so_far)

    def first_indices(self, is_chosen: Bools) -> Int64s:
        """Return the index of each segment's first chosen change, else the number of changes."""
        count = len(self.row_indices)
        chosen_indices = np.where(is_chosen, self.indices, count)
        first_indices = np.minimum.accumulate(chosen_indices[::-1])[::-1][self.starts]
        return np.where(first_indices > self.ends, count, first_indices)

    def has_any(self, is_chosen: Bools) -> Bools:
        """Return the mask of segments with a chosen change: bool [segments]."""
        has_change: Bools = self.sums(is_chosen.astype(np.int64)) > 0
        return has_change

    def sums(self, values: Int64s) -> Int64s:
        """Return the sum of each segment, which overflows silently: int64 [segments]."""
        so_far = np.cumsum(values)
        return so_far[self.ends] - so_far[self.starts] + values[self.starts]

    def in_order(self, is_chosen: Bools) -> Int64s:
        """Return the indices of chosen changes by segment, the oldest value first."""
        indices = np.flatnonzero(is_chosen)
        if not self.has(ChangeOp.ADD_OLDER):
            return indices
        is_late = self.is_any(ChangeOp.ADD_OLDER)[indices]
        segments = np.repeat(np.arange(len(self.starts)), self.lengths)[indices]
        # The last late value is the oldest of all.
        ordered_indices: Int64s = indices[
            np.lexsort((np.where(is_late, -indices - 1, indices), segments))
        ]
        return ordered_indices

    def row_at(self, indices: Int64s) -> Int64s:
        """Return the batch's rows at indices of changes; -1 stays -1."""
        return np.where(indices < 0, -1, self.row_indices[indices])

    def is_valid(self, column: pa.Array) -> Bools:
        """Return the mask of changes with a value that is not null: bool [changes]."""
        if not column.null_count:
            return np.ones(len(self.row_indices), np.bool_)
        return valid_of(column)[self.row_indices]

    @cached_property
    def newest_values(self) -> Int64s:
        """The row of each segment's newest value, null or not; -1 if it was undone."""
        if self.ops is None:
            return self.newest_row_indices
        last_indices = self.last_indices(~self.is_any(ChangeOp.ADD_OLDER, ChangeOp.SKIP))
        is_value = self.is_any(ChangeOp.ADD, ChangeOp.SET)[last_indices] & (last_indices >= 0)
        return self.row_at(np.where(is_value, last_indices, -1))

    def is_since_restart(self) -> Bools:
        """Return the mask of changes since the last restart, which still count: bool [changes]."""
        if not self.has(ChangeOp.SET, ChangeOp.CLEAR):
            return np.ones(len(self.row_indices), np.bool_)
        restarts = self.last_indices(self.is_any(ChangeOp.SET, ChangeOp.CLEAR))
        return self.indices >= np.repeat(restarts, self.lengths)

    def without_retracts(self) -> SegmentChanges:
        """Return the changes without those that undo a value (``ignore-retract``)."""
        if not self.has(ChangeOp.RETRACT):
            return self
        assert self.ops is not None
        return self.with_ops(
            np.where(self.ops == ChangeOp.RETRACT, np.int8(ChangeOp.SKIP), self.ops)
        )

    def refuse_retract(self, function: str) -> None:
        """Refuse to undo values.

        Raises:
            MergeError: a change undoes a value.
        """
        if self.has(ChangeOp.RETRACT):
            raise MergeError(
                cannot_retract(function),
                fix="set one of these options by stream-app alter TABLE --set OPTION=true: "
                f"fields.{ANY_COLUMN}.ignore-retract leaves the column as it is; "
                "ignore-update-before drops the -U rows of updates, and ignore-delete all -U and "
                "-D rows, before they are written",
            )

    def reduce(self, values: npt.NDArray[Any], reduce: np.ufunc) -> npt.NDArray[Any]:
        """Reduce the values of each segment's rows, in order.

        Args:
            values: [n], the values of the batch's rows.

        Returns:
            [segments], of the same type.
        """
        if self.depth > SHALLOW and not np.issubdtype(values.dtype, np.floating):
            return np.asarray(reduce.reduceat(values[self.row_indices], self.starts), values.dtype)
        # Floating-point numbers must be added one after another, which `reduceat` does not promise.
        result = values[self.oldest_row_indices]
        for segments, rows in self.later_row_indices:
            result[segments] = reduce(result[segments], values[rows])
        return result

    def rounds(self, is_chosen: Bools | None) -> Iterator[tuple[Int64s, Int64s]]:
        """Yield the chosen changes (None: all) in rounds, one change of each segment at a time.

        Functions use it if each change needs the previous result. A round handles all segments at
        once. There are as many rounds as the longest segment has changes.

        Yields:
            segments, int64 [m], and the indices of their changes, int64 [m].
        """
        active_segments = np.arange(len(self.starts), dtype=np.int64)
        for round_index in range(self.depth):
            if round_index:
                active_segments = active_segments[self.lengths[active_segments] > round_index]
            indices = self.starts[active_segments] + round_index
            if is_chosen is None:
                yield active_segments, indices
            else:
                is_active = is_chosen[indices]
                yield active_segments[is_active], indices[is_active]
