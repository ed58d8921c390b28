"""Derives the versions of rows from their changes (slowly changing dimension, type 2).

The writer calls it with all changes of each source key, before it merges them. The changes and the
table's versions of these keys make a timeline for each key:

1. A version of the table gives a value at its start, and ends that value at its end.
2. A change gives a value, or a delete, at its start. Of several changes at one time the last
   counts.
3. A value equal to the previous one continues its version. Another value or a delete ends it.

Only versions that differ from the table are written. So a late change is inserted between versions,
and a repeated change has no effect.

Source: the rules of Spark's AUTO CDC with ``stored_as_scd_type = 2``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stream_app.mergetree.fill_unchanged import (
    FindsRows,
    RestoredRows,
    leaves_out,
    restored_rows,
    widened_layout,
    with_further_columns,
)
from stream_app.mergetree.key_differences import batch_differences
from stream_app.mergetree.key_value_batch import (
    Indices,
    KeyValueLayout,
    integer_view,
    is_retract,
    last_of_key,
    rows_at,
    slices_of_whole_keys,
)
from stream_app.mergetree.lookup.key_lookup import RowsOfKeys
from stream_app.mergetree.merge_window import MergeWindow, sorted_window
from stream_app.mergetree.value_codes import row_codes, value_codes
from stream_app.model.row_kind import RowKind
from stream_app.model.schema.history_columns import HistoryColumns
from stream_app.model.schema.table_schema import SEQUENCE_NUMBER, VALUE_KIND

PART_ROWS = 65_536
"""Changes that are looked up together; a key is never cut."""
_OF_TABLE, _END_OF_TABLE = -1, -2
"""The sequence numbers of what the table has: at one moment a change comes after it."""


@dataclass(frozen=True, slots=True)
class HistoryRule:
    """The rule for one bucket's versions.

    Attributes:
        layout: the layout of the table's rows, in which the start of a version is the last key
            column.
        with_before: whether a changed row comes with its earlier row, as -U or -D.
    """

    columns: HistoryColumns
    layout: KeyValueLayout
    with_before: bool

    @property
    def of_source(self) -> KeyValueLayout:
        """The layout by the source's key, whose versions form one timeline."""
        return replace(self.layout, key_names=self.layout.key_names[:-1])

    @property
    def tracked(self) -> list[str]:
        """The columns whose change begins a version."""
        others = {SEQUENCE_NUMBER, VALUE_KIND, *self.columns.names, *self.columns.untracked}
        return [name for name in self.layout.schema.names if name not in others]


def history_windows(
    drained: Iterator[MergeWindow], rule: HistoryRule, find: FindsRows
) -> Iterator[RestoredRows]:
    """Yield the rows that changes add to the table or change in it, in bounded windows.

    Args:
        drained: changes in order of key and age, in the rule's layout or a widened one.
        find: returns all versions of the given source keys, by key and start.
    """
    batches = (rows_at(window.batch, window.order) for window in drained)
    names = rule.of_source.key_names
    for whole in slices_of_whole_keys(batches, names):
        ends = np.flatnonzero(last_of_key(whole, None, rule.of_source)) + 1
        start = 0
        while start < whole.num_rows:
            wanted = min(start + PART_ROWS, whole.num_rows)
            end = int(ends[np.searchsorted(ends, wanted)])
            yield written_versions(whole.slice(start, end - start), rule, find)
            start = end


def written_versions(changes: pa.RecordBatch, rule: HistoryRule, find: FindsRows) -> RestoredRows:
    """Return the rows that the changes of whole keys add to the table or change in it.

    A customer moves; the table has one version of the key 5::

        table      key 5, valid from 10 to null, city = Bern
        change     key 5, valid from 20, city = Basel
        rows       key 5, valid from 10 to 20, city = Bern, and key 5, valid from 20 to null, Basel

    Args:
        changes: changes in order of key and age.
        find: see `history_windows`.
    """
    layout = rule.layout
    newest = pc.max(changes.column(SEQUENCE_NUMBER)).as_py()
    stored = _versions_near(changes, rule, find)
    wide = widened_layout(layout, changes.schema)
    known = [with_further_columns(part, wide.schema) for part in (stored, _ends(stored, rule))]
    rows = pa.concat_batches([*known, _ends(changes, rule), changes])
    window = sorted_window(rows, wide)
    rows = rows_at(window.batch, window.order)
    refused = None
    if leaves_out(rows):
        whole = restored_rows(MergeWindow(rows), rule.of_source, _no_rows)
        rows, refused = whole.window.batch, whole.refused
    versions = _timelines(rows.select(layout.schema.names), rule)
    before, after = (_numbered(part, newest) for part in (stored, versions))
    differ = batch_differences(layout, before, after)
    written = (
        differ.changelog(~differ.same_values())
        if rule.with_before
        else differ.rows(keep_deletes=True)
    )
    return RestoredRows(MergeWindow(written), refused)


def _versions_near(changes: pa.RecordBatch, rule: HistoryRule, find: FindsRows) -> pa.RecordBatch:
    """Return the versions that changes may affect: the last before the first change, and later."""
    names, start = list(rule.of_source.key_names), rule.columns.valid_from
    ends = np.flatnonzero(last_of_key(changes, None, rule.of_source))
    firsts = np.concatenate(([0], ends[:-1] + 1))
    keys = rows_at(changes.select(names), firsts)
    stored = find(keys, rule.layout.schema.names[2:])
    first_change = _integers(changes.column(start))[firsts][stored.at]
    precedes = _integers(stored.rows.column(start)) < first_change
    hidden = np.zeros(len(precedes), np.bool_)
    hidden[:-1] = precedes[1:] & (stored.at[1:] == stored.at[:-1])
    rows = rows_at(stored.rows, np.flatnonzero(~hidden))
    kinds = pa.repeat(pa.scalar(int(RowKind.INSERT), pa.int8()), rows.num_rows)
    return _with(_numbered(rows, _OF_TABLE), VALUE_KIND, kinds)


def _ends(rows: pa.RecordBatch, rule: HistoryRule) -> pa.RecordBatch:
    """Return the ends of versions, as deletes at that time."""
    columns = rule.columns
    closed = rows.filter(rows.column(columns.valid_to).is_valid())
    kinds = pa.repeat(pa.scalar(int(RowKind.DELETE), pa.int8()), closed.num_rows)
    closed = _with(_numbered(closed, _END_OF_TABLE), VALUE_KIND, kinds)
    return _with(closed, columns.valid_from, closed.column(columns.valid_to))


def _timelines(rows: pa.RecordBatch, rule: HistoryRule) -> pa.RecordBatch:
    """Return the versions of each key in order, with the sequence numbers of their newest rows.

    Args:
        rows: values and deletes in order of key, start and age.
    """
    columns = rule.columns
    states = rows_at(rows, np.flatnonzero(last_of_key(rows, None, rule.layout)))
    is_value = ~is_retract(states)
    follows = np.zeros(states.num_rows, np.bool_)
    follows[1:] = ~last_of_key(states, None, rule.of_source)[:-1]
    values = row_codes([value_codes(states.column(name)) for name in rule.tracked], len(is_value))
    continues = follows & is_value
    continues[1:] &= is_value[:-1] & (values[1:] == values[:-1])
    heads = np.flatnonzero(is_value & ~continues)
    breaks = np.append(np.flatnonzero(~continues), states.num_rows)
    ends = breaks[np.searchsorted(breaks, heads, side="right")]
    is_ended = np.append(follows, False)[ends]
    starts = states.column(columns.valid_from)
    valid_to = starts.take(pa.array(ends, mask=~is_ended))
    versions = rows_at(states, ends - 1)
    versions = _with(versions, columns.valid_from, starts.take(pa.array(heads)))
    versions = _with(versions, columns.valid_to, valid_to)
    return _with(versions, columns.is_current, pa.array(~is_ended))


def _with(rows: pa.RecordBatch, name: str, values: pa.Array) -> pa.RecordBatch:
    at = rows.schema.get_field_index(name)
    return rows.set_column(at, rows.schema.field(at), values)


def _numbered(rows: pa.RecordBatch, number: int) -> pa.RecordBatch:
    numbers = pa.repeat(pa.scalar(number, pa.int64()), rows.num_rows)
    return _with(rows, SEQUENCE_NUMBER, numbers)


def _integers(column: pa.Array) -> Indices:
    values: Indices = integer_view(column).to_numpy(zero_copy_only=False)
    return values


def _no_rows(keys: pa.RecordBatch, _names: object) -> RowsOfKeys:
    """Return no row, because the timeline already has the table's rows."""
    return RowsOfKeys(np.empty(0, np.int64), keys.slice(0, 0))
