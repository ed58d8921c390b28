"""Fills in older values that a change omits (`model.schema.unchanged_values`).

The writer calls it with all rows of each key, before it merges them. The older value comes from the
key's previous row, which is among these rows or in the table. Only keys with omitted values are
looked up. A row without an older value is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stream_app.arrow_buffers import Bools, Int64s
from stream_app.mergetree.key_value_batch import (
    KeyValueLayout,
    retract_mask,
    rows_at,
)
from stream_app.mergetree.lookup.key_lookup import RowsOfKeys
from stream_app.mergetree.merge_window import MergeWindow
from stream_app.model.schema.table_schema import VALUE_KIND
from stream_app.model.schema.unchanged_values import MESSAGE, SEPARATOR, UNCHANGED

PART_BYTES = 32 << 20
"""Approximate Arrow memory of a part of restored rows."""
FIRST_ROWS = 1024
"""Rows of the first part, whose size is unknown."""
_ROWS_MIN, _ROWS_MAX = 64, 65_536
REASON = "reason"
"""The column with the reason of a refused row, a STRING behind `MESSAGE`."""
_NO_ROW, _DELETED, _NULL = "its row is not in the table", "its row was deleted", "is null there"

FindsRows = Callable[[pa.RecordBatch, Sequence[str]], RowsOfKeys]
"""Finds the table's rows of distinct keys, with some columns; see `KeyLookup.rows`."""


@dataclass(frozen=True, slots=True)
class RestoredRows:
    """The completed rows of whole keys.

    Attributes:
        window: the complete rows, in the layout of the table.
        refused: the columns `MESSAGE`, `REASON` and `VALUE_KIND` of rows without an older value;
            None if no row omits a value.
    """

    window: MergeWindow
    refused: pa.RecordBatch | None = None


def widened_layout(layout: KeyValueLayout, rows: pa.Schema) -> KeyValueLayout:
    """Return the layout with the further columns that rows have."""
    further = [field for field in rows if field.name in (UNCHANGED, MESSAGE)]
    return replace(layout, schema=pa.schema([*layout.schema, *further]))


def with_further_columns(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Append the missing columns of `schema` to a batch, with nulls."""
    added = [pa.nulls(batch.num_rows, data_type) for data_type in schema.types[batch.num_columns :]]
    return pa.RecordBatch.from_arrays([*batch.columns, *added], schema=schema)


def omits_values(batch: pa.RecordBatch) -> bool:
    """Return whether any row omits a value."""
    index = batch.schema.get_field_index(UNCHANGED)
    return index >= 0 and bool(batch.column(index).null_count < batch.num_rows)


def restored_windows(
    window: MergeWindow, layout: KeyValueLayout, find: FindsRows
) -> Iterator[RestoredRows]:
    """Yield the window's rows with their older values, in windows of bounded size.

    An omitted value is usually large, so its completed row takes far more memory. So the window is
    split into parts of whole keys, sized by the rows before.

    Args:
        window: a window in the result of `widened_layout` for `layout`.
    """
    rows, last = layout.rows_at(window.batch, window.order), window.last_rows(layout)
    if not omits_values(rows):
        yield restored_rows(MergeWindow(rows, None, last), layout, find)
        return
    ends = np.flatnonzero(last) + 1
    start, size = 0, FIRST_ROWS
    while start < rows.num_rows:
        limit = min(start + size, rows.num_rows)
        end = int(ends[np.searchsorted(ends, limit)])
        part = MergeWindow(rows.slice(start, end - start), None, last[start:end])
        restored = restored_rows(part, layout, find)
        yield restored
        row_bytes = restored.window.batch.nbytes / max(1, restored.window.batch.num_rows)
        size = int(min(max(PART_BYTES / max(row_bytes, 1), _ROWS_MIN), _ROWS_MAX))
        start = end


def restored_rows(window: MergeWindow, layout: KeyValueLayout, find: FindsRows) -> RestoredRows:
    """Return the window's rows with their older values.

    Four rows of two keys; v of row 1 comes from row 0, v of row 3 from the table::

        k             [5, 5, 7, 7]
        kind          [+I, +U, -U, +U]
        v             [a, ., ., .]       a point: left out
        w             [1, 2, ., 4]

    Args:
        window: in the layout that `widened_layout` has made of `layout`.
    """
    rows = layout.rows_at(window.batch, window.order)
    last = window.last_rows(layout)
    narrow = rows.select(layout.schema.names)
    if not omits_values(rows):
        return RestoredRows(MergeWindow(narrow, None, last), _refused_messages(rows, {}))
    left_out = _omitted_values(rows.column(UNCHANGED))
    before = {name: _Before.in_rows(rows, last, mask) for name, mask in left_out.items()}
    asked_keys = np.unique(np.concatenate([column.asked_keys for column in before.values()]))
    old_at = np.full(rows.num_rows, -1)
    old: pa.RecordBatch | None = None
    if len(asked_keys):
        keys = rows_at(narrow.select(list(layout.key_names)), asked_keys)
        names = [name for name, column in before.items() if len(column.asked_keys)]
        looked_up = find(keys, names)
        old, key_indices = looked_up.rows, looked_up.key_indices
        old_at[asked_keys[key_indices]] = np.arange(len(key_indices))
    reasons: dict[int, str] = {}
    for name, column in before.items():
        index = narrow.schema.get_field_index(name)
        values = column.values(narrow.column(index), name, (old, old_at), reasons)
        narrow = narrow.set_column(index, narrow.schema.field(index), values)
    if not reasons:
        return RestoredRows(MergeWindow(narrow, None, last), _refused_messages(rows, {}))
    accepted = np.ones(rows.num_rows, np.bool_)
    accepted[list(reasons)] = False
    live = rows_at(narrow, np.flatnonzero(accepted))
    return RestoredRows(MergeWindow(live), _refused_messages(rows, reasons))


def _omitted_values(texts: pa.Array) -> dict[str, Bools]:
    """Return the mask of omitted values of each column: bool [n]."""
    encoded = texts.dictionary_encode()
    codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    left_out: dict[str, Bools] = {}
    for code, text in enumerate(encoded.dictionary.to_pylist()):  # there are few sets of columns
        for name in text.split(SEPARATOR):
            left_out[name] = left_out.get(name, np.zeros(len(texts), np.bool_)) | (codes == code)
    return left_out


@dataclass(frozen=True, slots=True)
class _Before:
    """The rows that omit one column, and their source rows.

    Attributes:
        lacking: int64 [k]; the rows that omit the column.
        starts: int64 [k]; where the keys of these rows begin.
        sources: int64 [k]; the key's newest earlier row that has the value or is a delete; -1
            without one.
        are_deleted: bool [k]; whether the source row is a delete.
    """

    lacking: Int64s
    starts: Int64s
    sources: Int64s
    are_deleted: Bools

    @staticmethod
    def in_rows(rows: pa.RecordBatch, last: Bools, left_out: Bools) -> _Before:
        """Find these rows among rows in order of key and age."""
        count = rows.num_rows
        indices = np.arange(count)
        is_first = np.ones(count, np.bool_)
        is_first[1:] = last[:-1]
        starts = np.maximum.accumulate(np.where(is_first, indices, 0))
        newest = np.maximum.accumulate(np.where(left_out, -1, indices))
        lacking = np.flatnonzero(left_out)
        sources = np.where(newest[lacking] >= starts[lacking], newest[lacking], -1)
        return _Before(
            lacking=lacking,
            starts=starts[lacking],
            sources=sources,
            are_deleted=retract_mask(rows)[sources] & (sources >= 0),
        )

    @property
    def asked_keys(self) -> Int64s:
        """The beginnings of the keys that must be looked up in the table."""
        return np.unique(self.starts[self.sources < 0])

    def values(
        self,
        column: pa.Array,
        name: str,
        looked_up: tuple[pa.RecordBatch | None, Int64s],
        reasons: dict[int, str],
    ) -> pa.Array:
        """Return the column with older values, and add reasons for rows without one.

        Args:
            looked_up: the table's rows, and for each beginning of a key its row there, or -1.
        """
        old, old_at = looked_up
        indices = np.arange(len(column))
        from_table = old_at[self.starts]
        is_asked = self.sources < 0
        has_no_row = is_asked & (from_table < 0)
        indices[self.lacking] = np.where(is_asked, len(column) + from_table, self.sources)
        indices[self.lacking[has_no_row | self.are_deleted]] = 0
        candidates = column
        if old is not None and name in old.schema.names:
            candidates = pa.concat_arrays([column, old.column(name)])
        values = candidates.take(pa.array(indices))
        # An omitted value is never null at the source, so a null means that the table lacks it.
        is_null = pc.is_null(values).to_numpy(zero_copy_only=False)[self.lacking]
        for mask, cause in ((has_no_row, _NO_ROW), (self.are_deleted, _DELETED), (is_null, _NULL)):
            for row in self.lacking[mask].tolist():  # few rows, because such records are bad
                reasons.setdefault(row, _reason(name, cause))
        return values


def _reason(name: str, cause: str) -> str:
    clause = f"the table's value {cause}" if cause is _NULL else cause
    return f"column {name!r} is unchanged and its value was not sent, and {clause}"


def _refused_messages(rows: pa.RecordBatch, reasons: dict[int, str]) -> pa.RecordBatch:
    positions = pa.array(sorted(reasons), pa.int64())
    texts = pa.array([reasons[row] for row in sorted(reasons)], pa.string())
    columns = [rows.column(MESSAGE).take(positions), texts, rows.column(VALUE_KIND).take(positions)]
    return pa.RecordBatch.from_arrays(columns, [MESSAGE, REASON, VALUE_KIND])
