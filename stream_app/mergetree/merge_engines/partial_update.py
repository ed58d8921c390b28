"""Merges the rows of a key by keeping each column's newest value that is not null.

The columns of a sequence group accept a row's values, including nulls, unless the row is older than
the last accepted one. Paimon compares each row with the group's last accepted sequence. Here a row
is in sequence if its rank equals the running maximum of its key's ranks. A row with a null sequence
does not change its group.

Source: Paimon `mergetree/compact/PartialUpdateMergeFunction.java` (`updateWithSequenceGroup`,
`retractWithSequenceGroup`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stream_app.arrow_buffers import Bools, Int64s
from stream_app.errors import MergeError
from stream_app.mergetree.key_value_batch import KeyValueLayout, retract_kind_mask
from stream_app.mergetree.merge_engines.aggregates.aggregate_registry import fold_column
from stream_app.mergetree.merge_engines.aggregates.ordered_values import sequence_ranks
from stream_app.mergetree.merge_engines.aggregates.segment_changes import (
    ChangeOp,
    SegmentChanges,
    SegmentValues,
)
from stream_app.mergetree.merge_engines.key_segments import KeySegments, key_segments, set_unmerged
from stream_app.mergetree.merge_window import MergeWindow
from stream_app.model.row_kind import RowKind
from stream_app.model.schema.merge.merge_rules import (
    LAST_NON_NULL,
    LAST_VALUE,
    ColumnAggregate,
    MergeRules,
    SequenceGroup,
)
from stream_app.model.schema.merge.refusal_rules import OF_PARTIAL_UPDATE
from stream_app.model.schema.table_schema import SEQUENCE_NUMBER, VALUE_KIND

_ChangeOps = npt.NDArray[np.int8]
_OpsOf = Callable[[Bools, Bools, Bools], _ChangeOps]
"""Returns the operations from three masks, bool [changes]: has a sequence, is late, is +I or +U."""
_NEWEST_OR_NULL = ColumnAggregate(function=LAST_VALUE)
_NEWEST = ColumnAggregate(function=LAST_NON_NULL)


@dataclass(frozen=True, kw_only=True)
class GroupedChanges:
    """The changes of the sequence groups of all segments.

    A further change begins each segment whose first row is a delete. Paimon gives a row the values
    of its first delete, and only then applies the delete.

    Attributes:
        plain: the changes, all of which add.
        is_add: bool [changes]; which rows are +I or +U.
        is_restart: bool [changes]; which changes set all columns to their row's values.
        unmerged_indices: the indices of changes that are alone in their segment, and set all
            columns to their row's values.
        is_removed: bool [segments]; whether the last row removes the whole row.
        ignores_deletes: whether deletes have no effect (``ignore-delete``).
        has_sequence: for each group, which rows have a sequence that is not null: bool [changes].
        in_sequence: for each group, which changes are not older than the previous ones: bool
            [changes].
    """

    plain: SegmentChanges
    is_add: Bools
    is_restart: Bools
    unmerged_indices: Int64s
    is_removed: Bools
    ignores_deletes: bool
    has_sequence: Mapping[SequenceGroup, Bools] = field(default_factory=dict)
    in_sequence: Mapping[SequenceGroup, Bools] = field(default_factory=dict)
    _changes_of_group: dict[tuple[SequenceGroup, _OpsOf], SegmentChanges] = field(
        init=False, default_factory=dict
    )

    @cached_property
    def ungrouped(self) -> SegmentChanges:
        """The changes of columns without a group, on which deletes have no effect."""
        return self._changes(np.where(self.is_add, np.int8(ChangeOp.ADD), np.int8(ChangeOp.SKIP)))

    def value(
        self, column: pa.Array, name: str, group: SequenceGroup, aggregate: ColumnAggregate | None
    ) -> SegmentValues:
        """Return a column of a group, with one value for each segment."""
        if name in group.sequence or (aggregate is None and self.is_add.all()):
            ops_of = _ops_on_sequence_columns
            aggregate = None
        else:
            ops_of = _ops_on_plain_columns if aggregate is None else _ops_on_aggregated_columns
        return fold_column(column, self._group_changes(group, ops_of), aggregate or _NEWEST_OR_NULL)

    def _group_changes(self, group: SequenceGroup, ops_of: _OpsOf) -> SegmentChanges:
        """Return the changes of a group's columns of one kind, computed once for all of them."""
        if (group, ops_of) not in self._changes_of_group:
            ops = ops_of(self.has_sequence[group], ~self.in_sequence[group], self.is_add)
            if self.ignores_deletes:
                ops[~self.is_add] = ChangeOp.SKIP
            self._changes_of_group[group, ops_of] = self._changes(ops)
        return self._changes_of_group[group, ops_of]

    def _changes(self, ops: _ChangeOps) -> SegmentChanges:
        ops[self.is_restart] = ChangeOp.SET
        return self.plain.with_ops(set_unmerged(ops, self.unmerged_indices))


def _ops_on_sequence_columns(has_value: Bools, is_late: Bools, is_add: Bools) -> _ChangeOps:
    """Return the operations on sequence columns, which each row in sequence sets."""
    del is_add
    return (is_late | ~has_value) * np.int8(ChangeOp.SKIP)


def _ops_on_plain_columns(has_value: Bools, is_late: Bools, is_add: Bools) -> _ChangeOps:
    """Return the operations on plain group columns, which a delete in sequence clears."""
    return np.where(
        has_value & ~is_late,
        np.where(is_add, np.int8(ChangeOp.ADD), np.int8(ChangeOp.CLEAR)),
        np.int8(ChangeOp.SKIP),
    )


def _ops_on_aggregated_columns(has_value: Bools, is_late: Bools, is_add: Bools) -> _ChangeOps:
    """Return the operations on aggregated columns. Late rows count; a delete undoes values."""
    add_ops = np.where(is_late, np.int8(ChangeOp.ADD_OLDER), np.int8(ChangeOp.ADD))
    return np.where(
        has_value, np.where(is_add, add_ops, np.int8(ChangeOp.RETRACT)), np.int8(ChangeOp.SKIP)
    )


def grouped_changes(
    keys: KeySegments, kinds: npt.NDArray[np.int8], rules: MergeRules
) -> GroupedChanges:
    """Return the changes of a window's keys.

    Two keys of two rows, and the sequence ``g`` of a group. The first key begins with a delete,
    which makes two changes; its second row is late::

        kinds              [-D,   +I, +I, +U]
        g                  [5,    4,  1,  2]
        plain.row_indices  [0, 0, 1,  2,  3]
        plain.starts       [0,        3]
        is_restart         [T, F, F,  F,  F]
        is_add             [F, F, T,  T,  T]
        in_sequence        [T, T, F,  T,  T]

    Args:
        kinds: int8 [m], the row kinds of `keys.row_indices`.
    """
    changes, kinds, is_restart = _with_first_deletes(keys, kinds)
    is_retract = retract_kind_mask(kinds)
    ranks = {
        group: sequence_ranks([keys.batch.column(name) for name in group.sequence])[
            changes.row_indices
        ]
        for group in rules.groups
        if all(name in keys.batch.schema.names for name in group.sequence)
    }
    is_counted = (
        ~is_retract | is_restart if rules.ignores_deletes else np.ones(len(kinds), np.bool_)
    )
    removing_groups = (
        [] if rules.ignores_deletes else [group for group in ranks if group.removes_record]
    )
    removals = _removals(changes, ranks, removing_groups, (kinds == RowKind.DELETE) & ~is_restart)
    parts = _parts(changes, removals)
    is_restart[removals[removals >= 0]] = True
    return GroupedChanges(
        plain=changes,
        is_add=~is_retract,
        is_restart=is_restart,
        unmerged_indices=changes.starts[np.flatnonzero(~keys.is_merged)],
        is_removed=removals == changes.ends,
        ignores_deletes=rules.ignores_deletes,
        has_sequence={group: group_ranks > 0 for group, group_ranks in ranks.items()},
        in_sequence={
            group: _is_in_sequence(group_ranks, parts, is_counted)
            for group, group_ranks in ranks.items()
        },
    )


def _with_first_deletes(
    keys: KeySegments, kinds: npt.NDArray[np.int8]
) -> tuple[SegmentChanges, npt.NDArray[np.int8], Bools]:
    """Return the rows of all keys as changes; a delete that begins a merged key makes two of them.

    Args:
        kinds: int8 [m], of `keys.row_indices`.

    Returns:
        The changes; their kinds, int8 [changes]; and the mask of the first change of each such
        delete, bool [changes].
    """
    is_doubled = retract_kind_mask(kinds[keys.starts]) & keys.is_merged
    if not is_doubled.any():
        return keys.plain, kinds, np.zeros(len(kinds), np.bool_)
    repetitions = np.ones(len(kinds), np.int64)
    repetitions[keys.starts[is_doubled]] = 2
    # Each key begins later by the doubled deletes of the keys before it.
    starts = keys.starts + np.cumsum(is_doubled) - is_doubled
    is_restart = np.zeros(int(repetitions.sum()), np.bool_)
    is_restart[starts[is_doubled]] = True
    rows, kinds = np.repeat(keys.row_indices, repetitions), np.repeat(kinds, repetitions)
    changes = SegmentChanges(rows, starts, merges_single_rows=keys.merges_single_rows)
    return changes, kinds, is_restart


def _removals(
    changes: SegmentChanges,
    ranks: Mapping[SequenceGroup, Int64s],
    removing_groups: list[SequenceGroup],
    is_delete: Bools,
) -> Int64s:
    """Return the index of each segment's last delete that removes the whole row, else -1.

    A removal restarts the sequences of all groups, so the search for the next begins after it. One
    group needs no second search: its own sequence is not lower after a removal.
    """
    removals = np.full(len(changes.starts), -1, dtype=np.int64)
    is_counted = np.ones(len(changes.row_indices), np.bool_)
    while removing_groups and is_delete.any():
        parts = _parts(changes, removals)
        is_removal = np.zeros(len(changes.row_indices), np.bool_)
        for group in removing_groups:
            is_in_sequence = _is_in_sequence(ranks[group], parts, is_counted)
            is_removal |= is_delete & (ranks[group] > 0) & is_in_sequence
        is_removal &= changes.indices > np.repeat(removals, changes.lengths)
        if len(removing_groups) == 1:
            return changes.last_indices(is_removal)
        if not is_removal.any():
            break
        first_removals = changes.first_indices(is_removal)
        removals = np.where(first_removals < len(changes.row_indices), first_removals, removals)
    return removals


def _parts(changes: SegmentChanges, removals: Int64s) -> Int64s:
    """Number the parts of segments; a part begins with the segment and after each removal."""
    is_start = np.zeros(len(changes.row_indices), np.int64)
    is_start[changes.starts] = 1
    is_start[removals[removals >= 0]] = 1
    return np.cumsum(is_start)


def _is_in_sequence(ranks: Int64s, parts: Int64s, is_counted: Bools) -> Bools:
    """Return the mask of ranks that are not below an earlier rank of their part: bool [n].

    Args:
        ranks: int64 [n]; 0 without sequence.
        parts: int64 [n], ascending.
        is_counted: which ranks count; the others change nothing.
    """
    width = int(ranks.max()) + 1 if len(ranks) else 1
    if int(parts[-1] if len(parts) else 0) * width >= 1 << 62:
        distinct_ranks, ranks = np.unique(np.append(ranks, 0), return_inverse=True)
        width, ranks = len(distinct_ranks), ranks.reshape(-1)[:-1]
    # The part is in the high bits, so the running maximum restarts with each part.
    part_ranks = parts * width + np.where(is_counted, ranks, 0)
    is_in_sequence: Bools = part_ranks == np.maximum.accumulate(part_ranks)
    return is_in_sequence


@dataclass(frozen=True, slots=True)
class PartialUpdate:
    """The merge column by column. By option a delete is ignored, or removes the row or a group."""

    rules: MergeRules
    merges_in_parts: ClassVar[bool] = False

    def merge(
        self, window: MergeWindow, layout: KeyValueLayout, *, merges_single_rows: bool = False
    ) -> pa.RecordBatch:
        """Merge a window into one row for each key.

        Raises:
            MergeError: a row is -U or -D, for which the rules define no effect.
        """
        keys = key_segments(window, layout, merges_single_rows=merges_single_rows)
        if keys is None:
            return layout.rows_at(window.batch, window.order)
        kinds = keys.kinds()
        is_retract = retract_kind_mask(kinds)
        is_retract[keys.unmerged_starts] = False
        if is_retract.any() and not self.rules.accepts_retracts:
            raise MergeError(OF_PARTIAL_UPDATE.problem, fix=OF_PARTIAL_UPDATE.fix)
        plain = keys.plain
        sequence_indices = keys.row_indices[plain.ends]
        if self.rules.ignores_deletes and is_retract.any():
            sequence_indices = plain.row_at(plain.last_indices(~is_retract))
        values, is_removed = self._values(keys, kinds, _value_names(layout))
        if is_retract.any():
            is_removed = is_removed | ~plain.has_any(~is_retract)
        return keys.batch_of(
            values, sequence_indices=sequence_indices, is_delete=is_removed, layout=layout
        )

    def _values(
        self, keys: KeySegments, kinds: npt.NDArray[np.int8], names: Sequence[str]
    ) -> tuple[dict[str, SegmentValues], Bools]:
        """Return the values of columns, and the mask of segments whose last row removes them."""
        column = keys.batch.column
        if not self.rules.groups:
            changes, is_removed = self._changes(keys, kinds)
            return {name: fold_column(column(name), changes, _NEWEST) for name in names}, is_removed
        group_changes = grouped_changes(keys, kinds, self.rules)
        values = {}
        for name in names:
            if name in self.rules.group_of:
                group, aggregate = self.rules.group_of[name], self.rules.aggregates.get(name)
                values[name] = group_changes.value(column(name), name, group, aggregate)
            else:
                values[name] = fold_column(column(name), group_changes.ungrouped, _NEWEST)
        return values, group_changes.is_removed

    def _changes(
        self, keys: KeySegments, kinds: npt.NDArray[np.int8]
    ) -> tuple[SegmentChanges, Bools]:
        ends = keys.plain.ends
        if not retract_kind_mask(kinds).any():
            return keys.plain, np.zeros(len(ends), np.bool_)
        ops = np.where(retract_kind_mask(kinds), np.int8(ChangeOp.SKIP), np.int8(ChangeOp.ADD))
        # Paimon begins a row with the values of its first delete, whatever follows.
        first_deletes = keys.starts[retract_kind_mask(kinds[keys.starts])]
        ops[first_deletes] = ChangeOp.SET
        is_removed = np.zeros(len(ends), np.bool_)
        if self.rules.removes_on_delete:
            ops[kinds == RowKind.DELETE] = ChangeOp.SET
            is_removed = kinds[ends] == RowKind.DELETE
        return keys.changes(ops), is_removed


def _value_names(layout: KeyValueLayout) -> list[str]:
    other_names = {SEQUENCE_NUMBER, VALUE_KIND, *layout.key_names, *layout.constant_names}
    return [name for name in layout.schema.names if name not in other_names]
