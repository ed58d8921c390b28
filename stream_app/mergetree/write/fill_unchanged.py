"""Restores the values that a change omits (`model.schema.unchanged_values`).

The writer calls it with all rows of each key, before it merges them. The older value comes from the
key's older row, which is among these rows or in the table. It looks up only keys whose omitted
values these rows lack. It refuses a row without an older value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

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
from stream_app.model.schema.unchanged_values import MESSAGE_COLUMN, NAME_SEPARATOR, UNCHANGED

PART_SIZE = 32 << 20
"""Approximate Arrow memory of a part of restored rows."""
FIRST_PART_ROW_COUNT = 1024
"""Rows of the first part, whose size is unknown."""
_ROWS_MIN, _ROWS_MAX = 64, 65_536
REASON = "reason"
"""The column with the reason of a refused row, a STRING after `MESSAGE_COLUMN`."""
_NO_ROW_REASON = "its row is not in the table"
_DELETED_REASON = "its row was deleted"
_NULL_REASON = "is null there"

RowFinder = Callable[[pa.RecordBatch, Sequence[str]], RowsOfKeys]
"""Finds the table's rows of distinct keys, with some columns; see `KeyLookup.rows`."""


@dataclass(frozen=True, slots=True)
class RestoredRows:
    """The completed rows of whole keys.

    Attributes:
        window: the complete rows, in the layout of the table.
        refused_messages: the columns `MESSAGE_COLUMN`, `REASON` and `VALUE_KIND` of rows without an
            older value; None or empty without such rows.
    """

    window: MergeWindow
    refused_messages: pa.RecordBatch | None = None


def widened_layout(layout: KeyValueLayout, schema: pa.Schema) -> KeyValueLayout:
    """Return the layout with the columns of unchanged values that `schema` has."""
    further_fields = [field for field in schema if field.name in (UNCHANGED, MESSAGE_COLUMN)]
    return replace(layout, schema=pa.schema([*layout.schema, *further_fields]))


def with_further_columns(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Append the missing columns of `schema` to a batch, with nulls."""
    types = schema.types[batch.num_columns :]
    columns = [*batch.columns, *(pa.nulls(batch.num_rows, data_type) for data_type in types)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def omits_values(batch: pa.RecordBatch) -> bool:
    """Return whether any row omits a value."""
    index = batch.schema.get_field_index(UNCHANGED)
    return index >= 0 and bool(batch.column(index).null_count < batch.num_rows)


def restored_windows(
    window: MergeWindow, layout: KeyValueLayout, find: RowFinder
) -> Iterator[RestoredRows]:
    """Yield the window's rows with their older values, in windows of bounded size.

    An omitted value is usually large, so a restored row takes far more memory. So the window is
    split into parts of whole keys, whose size follows from the bytes of the previous part's rows.

    Args:
        window: a window in the result of `widened_layout` for `layout`.
    """
    rows, is_last = layout.rows_at(window.batch, window.order), window.is_last_row(layout)
    if not omits_values(rows):
        yield restored_rows(MergeWindow(rows, None, is_last), layout, find)
        return
    ends = np.flatnonzero(is_last) + 1
    start = 0
    part_row_count = FIRST_PART_ROW_COUNT
    while start < rows.num_rows:
        end = int(ends[np.searchsorted(ends, min(start + part_row_count, rows.num_rows))])
        part = MergeWindow(rows.slice(start, end - start), None, is_last[start:end])
        restored_window = restored_rows(part, layout, find)
        yield restored_window
        row_size = restored_window.window.batch.nbytes / max(
            1, restored_window.window.batch.num_rows
        )
        part_row_count = int(min(max(PART_SIZE / max(row_size, 1), _ROWS_MIN), _ROWS_MAX))
        start = end


def restored_rows(window: MergeWindow, layout: KeyValueLayout, find: RowFinder) -> RestoredRows:
    """Return the window's rows with their older values.

    Four rows of two keys; v of row 1 comes from row 0, v of row 3 from the table::

        k             [5, 5, 7, 7]
        kind          [+I, +U, -U, +U]
        v             [a, ., ., .]       a point: omitted
        w             [1, 2, ., 4]

    Args:
        window: a window in the result of `widened_layout` for `layout`.
    """
    rows = layout.rows_at(window.batch, window.order)
    is_last = window.is_last_row(layout)
    filled_rows = rows.select(layout.schema.names)
    reasons: dict[int, str] = {}
    if omits_values(rows):
        columns = [
            _OmittedColumn.in_rows(name, rows, is_last, is_omitted)
            for name, is_omitted in _omission_masks(rows.column(UNCHANGED)).items()
        ]
        keys = filled_rows.select(list(layout.key_names))
        stored_rows = _stored_rows(keys, columns, find)
        for column in columns:
            index = filled_rows.schema.get_field_index(column.name)
            values, column_reasons = column.restore(filled_rows.column(index), stored_rows)
            filled_rows = filled_rows.set_column(index, filled_rows.schema.field(index), values)
            reasons = column_reasons | reasons
    if not reasons:
        return RestoredRows(MergeWindow(filled_rows, None, is_last), _refused_messages(rows, {}))
    is_accepted = np.ones(rows.num_rows, np.bool_)
    is_accepted[list(reasons)] = False
    accepted_rows = rows_at(filled_rows, np.flatnonzero(is_accepted))
    return RestoredRows(MergeWindow(accepted_rows), _refused_messages(rows, reasons))


def _omission_masks(texts: pa.Array) -> dict[str, Bools]:
    """Return column → the mask of rows that omit its value: bool [n]."""
    encoded_texts = texts.dictionary_encode()
    codes = encoded_texts.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    masks: dict[str, Bools] = {}
    # The loop is short: few sets of columns differ.
    for code, text in enumerate(encoded_texts.dictionary.to_pylist()):
        for name in text.split(NAME_SEPARATOR):
            masks[name] = masks.get(name, np.zeros(len(texts), np.bool_)) | (codes == code)
    return masks


class _StoredRows(NamedTuple):
    """The table's rows of some keys.

    Attributes:
        rows: the rows; None if no key was looked up.
        indices: int64 [n]; for each row that begins a key, the index of the key's row in `rows`; -1
            without one.
    """

    rows: pa.RecordBatch | None
    indices: Int64s


def _stored_rows(
    keys: pa.RecordBatch, columns: Sequence[_OmittedColumn], find: RowFinder
) -> _StoredRows:
    """Look up the keys whose omitted values the rows lack; `keys` has the key of each row."""
    indices = np.full(keys.num_rows, -1)
    key_starts = np.unique(np.concatenate([column.unknown_keys for column in columns]))
    if not len(key_starts):
        return _StoredRows(None, indices)
    names = [column.name for column in columns if len(column.unknown_keys)]
    rows_of_keys = find(rows_at(keys, key_starts), names)
    indices[key_starts[rows_of_keys.key_indices]] = np.arange(len(rows_of_keys.key_indices))
    return _StoredRows(rows_of_keys.rows, indices)


@dataclass(frozen=True, slots=True, kw_only=True)
class _OmittedColumn:
    """The rows that omit one column, and the rows that have its value.

    Attributes:
        row_indices: int64 [k]; those of the rows that omit the column.
        key_starts: int64 [k]; where the keys of these rows begin.
        sources: int64 [k]; the key's newest older row that has the value or is a delete; -1
            without one.
        is_deleted: bool [k]; whether the source is a delete.
    """

    name: str
    row_indices: Int64s
    key_starts: Int64s
    sources: Int64s
    is_deleted: Bools

    @staticmethod
    def in_rows(
        name: str, rows: pa.RecordBatch, is_last: Bools, is_omitted: Bools
    ) -> _OmittedColumn:
        """Find the rows that omit the column, among rows in order of key and age."""
        indices = np.arange(rows.num_rows)
        is_first = np.ones(rows.num_rows, np.bool_)
        is_first[1:] = is_last[:-1]
        omitting_indices = np.flatnonzero(is_omitted)
        key_starts = np.maximum.accumulate(np.where(is_first, indices, 0))[omitting_indices]
        sources = np.maximum.accumulate(np.where(is_omitted, -1, indices))[omitting_indices]
        sources = np.where(sources >= key_starts, sources, -1)
        return _OmittedColumn(
            name=name,
            row_indices=omitting_indices,
            key_starts=key_starts,
            sources=sources,
            is_deleted=retract_mask(rows)[sources] & (sources >= 0),
        )

    @property
    def unknown_keys(self) -> Int64s:
        """The starts of the keys that must be looked up in the table."""
        return np.unique(self.key_starts[self.sources < 0])

    def restore(
        self, column: pa.Array, stored_rows: _StoredRows
    ) -> tuple[pa.Array, dict[int, str]]:
        """Return the column with older values, and for each row without one the reason."""
        indices = np.arange(len(column))
        stored_indices = stored_rows.indices[self.key_starts]
        is_unknown = self.sources < 0
        has_no_row = is_unknown & (stored_indices < 0)
        indices[self.row_indices] = np.where(is_unknown, len(column) + stored_indices, self.sources)
        indices[self.row_indices[has_no_row | self.is_deleted]] = 0
        candidates = column
        if stored_rows.rows is not None and self.name in stored_rows.rows.schema.names:
            candidates = pa.concat_arrays([column, stored_rows.rows.column(self.name)])
        values = candidates.take(pa.array(indices))
        # An omitted value is never null at the source, so a null means that the table lacks it.
        is_null = pc.is_null(values).to_numpy(zero_copy_only=False)[self.row_indices]
        reasons: dict[int, str] = {}
        for mask, cause in (
            (has_no_row, _NO_ROW_REASON),
            (self.is_deleted, _DELETED_REASON),
            (is_null, _NULL_REASON),
        ):
            for row_index in self.row_indices[
                mask
            ].tolist():  # few rows, because such records are bad
                reasons.setdefault(row_index, _unchanged_reason(self.name, cause))
        return values, reasons


def _unchanged_reason(name: str, cause: str) -> str:
    clause = f"the table's value {cause}" if cause is _NULL_REASON else cause
    return f"column {name!r} is unchanged and its value was not sent, and {clause}"


def _refused_messages(rows: pa.RecordBatch, reasons: dict[int, str]) -> pa.RecordBatch:
    refused_rows = rows.select([MESSAGE_COLUMN, VALUE_KIND]).take(
        pa.array(sorted(reasons), pa.int64())
    )
    texts = pa.array([reasons[row_index] for row_index in sorted(reasons)], pa.string())
    columns = [refused_rows.column(MESSAGE_COLUMN), texts, refused_rows.column(VALUE_KIND)]
    return pa.RecordBatch.from_arrays(columns, [MESSAGE_COLUMN, REASON, VALUE_KIND])
