"""Each column keeps its newest value that is not null.

The columns of a sequence group take a row's values, nulls too, unless the row is older than the
last one that they took (`sequence_groups`).

Source: Paimon `mergetree/compact/PartialUpdateMergeFunction.java`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stream_app.errors import MergeError
from stream_app.mergetree.key_value_batch import KeyValueLayout, Mask
from stream_app.mergetree.merge_engines.aggregates.registry import folded
from stream_app.mergetree.merge_engines.aggregates.steps import Folded, Op, Steps
from stream_app.mergetree.merge_engines.key_segments import KeySegments, key_segments
from stream_app.mergetree.merge_engines.sequence_groups import grouped_steps
from stream_app.mergetree.merge_window import MergeWindow
from stream_app.model.row_kind import RowKind
from stream_app.model.schema.merge_rules import LAST_NON_NULL, ColumnAggregate, MergeRules
from stream_app.model.schema.table_schema import SEQUENCE_NUMBER, VALUE_KIND
from stream_app.model.schema.undone_rows import OF_PARTIAL_UPDATE

_NEWEST = ColumnAggregate(function=LAST_NON_NULL)


@dataclass(frozen=True, slots=True)
class PartialUpdate:
    """Deletes are dropped, remove the row, or clear their groups' columns, by the rules."""

    rules: MergeRules
    merges_in_parts: ClassVar[bool] = False

    def merge(
        self, window: MergeWindow, layout: KeyValueLayout, *, also_alone: bool = False
    ) -> pa.RecordBatch:
        """One row a key.

        Raises:
            MergeError: a row is -U or -D, and the rules do not say what that does.
        """
        keys = key_segments(window, layout, also_alone=also_alone)
        if keys is None:
            return layout.take(window.batch, window.order)
        kinds = keys.kinds()
        retracts = (kinds & 1).astype(np.bool_)
        retracts[keys.kept] = False
        if retracts.any() and not self.rules.takes_retracts:
            raise MergeError(OF_PARTIAL_UPDATE.what, fix=OF_PARTIAL_UPDATE.fix)
        plain = keys.plain
        sequence_rows = keys.rows[plain.ends]
        if self.rules.ignores_delete and retracts.any():
            sequence_rows = plain.row_at(plain.last(~retracts))
        values, is_removed = self._values(keys, kinds, _value_names(layout))
        return keys.batch_of(
            values,
            sequence_rows=sequence_rows,
            is_delete=is_removed | ~plain.any(~retracts) if retracts.any() else is_removed,
            layout=layout,
        )

    def _values(
        self, keys: KeySegments, kinds: npt.NDArray[np.int8], names: Sequence[str]
    ) -> tuple[dict[str, Folded], Mask]:
        """The values of columns, and the mask of segments whose last row removes them."""
        column = keys.batch.column
        if not self.rules.groups:
            steps, is_removed = self._steps(keys, kinds)
            return {name: folded(column(name), steps, _NEWEST) for name in names}, is_removed
        grouped = grouped_steps(keys, kinds, self.rules)
        values = {}
        for name in names:
            if name in self.rules.group_of:
                group, how = self.rules.group_of[name], self.rules.aggregates.get(name)
                values[name] = grouped.value(column(name), name, group, how)
            else:
                values[name] = folded(column(name), grouped.free, _NEWEST)
        return values, grouped.is_removed

    def _steps(self, keys: KeySegments, kinds: npt.NDArray[np.int8]) -> tuple[Steps, Mask]:
        ends = keys.plain.ends
        if not (kinds & 1).any():
            return keys.plain, np.zeros(len(ends), np.bool_)
        ops = np.where(kinds & 1, np.int8(Op.SKIP), np.int8(Op.ADD))
        # Paimon begins a row with the values of its first delete, whatever follows.
        first = keys.starts[(kinds[keys.starts] & 1).astype(np.bool_)]
        ops[first] = Op.SET
        is_removed = np.zeros(len(ends), np.bool_)
        if self.rules.removes_on_delete:
            ops[kinds == RowKind.DELETE] = Op.SET
            is_removed = kinds[ends] == RowKind.DELETE
        return keys.steps(ops), is_removed


def _value_names(layout: KeyValueLayout) -> list[str]:
    same = {SEQUENCE_NUMBER, VALUE_KIND, *layout.key_names, *layout.constant_names}
    return [name for name in layout.schema.names if name not in same]
