"""Derives the versions of rows from their changes (slowly changing dimension, type 2).

The writer calls it with all changes of each source key, before it merges them. The changes and the
table's versions of these keys make a timeline for each key:

1. A version of the table gives a value at its start, and ends that value at its end.
2. A change gives a value, or a delete, at its start. Of several changes at one time the last
   counts.
3. A value equal to the previous one continues its version. Another value or a delete ends it.

Only versions that differ from the table are written. So a late change is inserted between versions,
and a repeated change has no effect.

A change is hidden if no version begins or ends with it: an equal value, or a delete without a row.
A later change may belong before it, so the bucket keeps its hidden changes (`HiddenChanges`).

Source: the rules of Spark's AUTO CDC with ``stored_as_scd_type = 2``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stream_app.arrow_buffers import Bools, Int64s
from stream_app.mergetree.file_access import HiddenChanges
from stream_app.mergetree.key_differences import batch_differences
from stream_app.mergetree.key_value_batch import (
    KeyValueLayout,
    batches_of_whole_keys,
    integer_view,
    is_last_of_key,
    retract_mask,
    rows_at,
    with_sequence_number,
)
from stream_app.mergetree.lookup.key_lookup import RowsOfKeys
from stream_app.mergetree.merge_window import MergeWindow, sorted_window
from stream_app.mergetree.value_codes import combined_codes, value_codes
from stream_app.mergetree.write.fill_unchanged import (
    RestoredRows,
    RowFinder,
    omits_values,
    restored_rows,
    widened_layout,
    with_further_columns,
)
from stream_app.model.row_kind import RowKind
from stream_app.model.schema.history_columns import HistoryColumns
from stream_app.model.schema.table_schema import SEQUENCE_NUMBER, VALUE_KIND

PART_ROW_COUNT = 65_536
"""Changes that are looked up together; a key is never cut."""
_VERSION_NUMBER, _END_NUMBER = -(1 << 60), -(1 << 61)
"""The sequence numbers of the table's versions, and of their ends.

At one moment they come before hidden changes, which have numbers up to -1, and those come before
new changes.
"""


@dataclass(frozen=True, slots=True)
class HistoryRule:
    """The rule for one bucket's versions.

    Attributes:
        layout: the layout of the table's rows, in which the start of a version is the last key
            column.
        keeps_old_rows: whether a changed row comes with its old row, as -U or -D.
    """

    history_columns: HistoryColumns
    layout: KeyValueLayout
    keeps_old_rows: bool

    @property
    def source_layout(self) -> KeyValueLayout:
        """The layout by the source's key, whose versions form one timeline."""
        return replace(self.layout, key_names=self.layout.key_names[:-1])

    @property
    def tracked_names(self) -> list[str]:
        """The columns whose change begins a version."""
        untracked_names = {
            SEQUENCE_NUMBER,
            VALUE_KIND,
            *self.history_columns.names,
            *self.history_columns.untracked_columns,
        }
        return [name for name in self.layout.schema.names if name not in untracked_names]


def history_windows(
    windows: Iterator[MergeWindow],
    rule: HistoryRule,
    find: RowFinder,
    hidden_changes: HiddenChanges | None,
) -> Iterator[RestoredRows]:
    """Yield the rows that changes add to the table or change in it, in bounded windows.

    Args:
        windows: changes in order of key and age, in the rule's layout or a widened one.
        find: returns all versions of the given source keys, by key and start.
        hidden_changes: the bucket's hidden changes; None to place late changes without them.
    """
    batches = (rows_at(window.batch, window.order) for window in windows)
    names = rule.source_layout.key_names
    for changes in batches_of_whole_keys(batches, names):
        ends = np.flatnonzero(is_last_of_key(changes, None, rule.source_layout)) + 1
        start = 0
        while start < changes.num_rows:
            end = int(ends[np.searchsorted(ends, min(start + PART_ROW_COUNT, changes.num_rows))])
            yield written_versions(changes.slice(start, end - start), rule, find, hidden_changes)
            start = end


def written_versions(
    changes: pa.RecordBatch,
    rule: HistoryRule,
    find: RowFinder,
    hidden_changes: HiddenChanges | None,
) -> RestoredRows:
    """Return the rows that the changes of whole keys add to the table or change in it.

    A customer moves; the table has one version of the key 5::

        table      key 5, valid from 10 to null, city = Bern
        change     key 5, valid from 20, city = Basel
        rows       key 5, valid from 10 to 20, city = Bern, and key 5, valid from 20 to null, Basel

    Args:
        changes: changes in order of key and age.
        find: returns all versions of the given source keys, by key and start.
        hidden_changes: the bucket's hidden changes, which gets those that become hidden.
    """
    layout = rule.layout
    newest_number = pc.max(changes.column(SEQUENCE_NUMBER)).as_py()
    stored_versions, older_hidden = _affected_rows(changes, rule, find, hidden_changes)
    wide_layout = widened_layout(layout, changes.schema)
    older_rows = [
        with_further_columns(part, wide_layout.schema)
        for part in (stored_versions, _ends_of_versions(stored_versions, rule), older_hidden)
    ]
    rows = pa.concat_batches([*older_rows, _ends_of_versions(changes, rule), changes])
    window = sorted_window(rows, wide_layout)
    rows = rows_at(window.batch, window.order)
    refused_messages = None
    if omits_values(rows):
        restored_versions = restored_rows(MergeWindow(rows), rule.source_layout, _no_rows)
        rows, refused_messages = restored_versions.window.batch, restored_versions.refused_messages
    versions, hidden_rows = _timelines(rows.select(layout.schema.names), rule)
    if hidden_changes is not None and hidden_rows.num_rows:
        hidden_changes.add(hidden_rows)
    before, after = (
        with_sequence_number(part, newest_number) for part in (stored_versions, versions)
    )
    differences = batch_differences(layout, before, after)
    written_rows = (
        differences.changelog(~differences.has_same_values())
        if rule.keeps_old_rows
        else differences.rows(keeps_deletes=True)
    )
    return RestoredRows(MergeWindow(written_rows), refused_messages)


def _affected_rows(
    changes: pa.RecordBatch,
    rule: HistoryRule,
    find: RowFinder,
    hidden_changes: HiddenChanges | None,
) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """Return the versions that changes may affect, and the hidden changes since these versions.

    For each key these are the last version before its first change, and all later versions.
    """
    names, start = list(rule.source_layout.key_names), rule.history_columns.valid_from
    ends = np.flatnonzero(is_last_of_key(changes, None, rule.source_layout))
    first_indices = np.concatenate(([0], ends[:-1] + 1))
    keys = rows_at(changes.select(names), first_indices)
    first_changes = _integers(changes.column(start))[first_indices]
    stored_rows = find(keys, rule.layout.schema.names[2:])
    starts = _integers(stored_rows.rows.column(start))
    is_before_changes = starts < first_changes[stored_rows.key_indices]
    is_past = np.zeros(len(is_before_changes), np.bool_)
    is_past[:-1] = is_before_changes[1:] & (
        stored_rows.key_indices[1:] == stored_rows.key_indices[:-1]
    )
    rows = rows_at(stored_rows.rows, np.flatnonzero(~is_past))
    kinds = pa.repeat(pa.scalar(int(RowKind.INSERT), pa.int8()), rows.num_rows)
    rows = _set_column(with_sequence_number(rows, _VERSION_NUMBER), VALUE_KIND, kinds)
    if hidden_changes is None:
        return rows, rows.slice(0, 0)
    hidden_changes.count_late_changes(changes.column(start))
    # Without untracked columns an older hidden change cannot affect a later version.
    start_min = None if rule.history_columns.untracked_columns else int(first_changes.min())
    changes_of_keys = hidden_changes.find(keys, start_min)
    last_indices = np.flatnonzero(is_before_changes & ~is_past)
    first_starts = np.full(keys.num_rows, np.iinfo(np.int64).min)
    first_starts[stored_rows.key_indices[last_indices]] = starts[last_indices]
    is_near = (
        _integers(changes_of_keys.rows.column(start)) >= first_starts[changes_of_keys.key_indices]
    )
    is_near &= _is_confirmed(changes_of_keys, stored_rows, rule)
    return rows, _number_by_age(rows_at(changes_of_keys.rows, np.flatnonzero(is_near)))


def _is_confirmed(hidden_changes: RowsOfKeys, stored_rows: RowsOfKeys, rule: HistoryRule) -> Bools:
    """Return which hidden changes the versions of their keys confirm: bool [n].

    A hidden value is in a version with its tracked values, and a hidden delete is in none. The
    others were replaced by a newer change of their moment, which the bucket does not keep::

        versions        [10 to 30, A], [40 to null, B]
        hidden          [20 A, 20 B, 35 deleted, 50 deleted]
        is confirmed    [T,    F,    T,          F]

    Args:
        stored_rows: all versions of the keys, by key and start.
    """
    columns = rule.history_columns
    rows = pa.concat_batches([stored_rows.rows, hidden_changes.rows])
    count = stored_rows.rows.num_rows
    starts = _integers(rows.column(columns.valid_from))
    key_indices = np.concatenate([stored_rows.key_indices, hidden_changes.key_indices])
    is_hidden = np.arange(len(key_indices)) >= count
    order = np.lexsort((is_hidden, starts, key_indices))
    # For each row, the row of the version that begins last at or before it.
    latest_versions = np.empty(len(key_indices), np.int64)
    latest_versions[order] = order[
        np.maximum.accumulate(np.where(is_hidden[order], 0, np.arange(len(order))))
    ]
    versions, moments = latest_versions[count:], starts[count:]
    is_covered = (versions < count) & (key_indices[versions] == key_indices[count:])
    valid_to = rows.column(columns.valid_to)
    ends = _integers(pc.fill_null(integer_view(valid_to), np.iinfo(np.int64).max))
    is_covered &= moments < ends[versions]
    codes = _tracked_codes(rows, rule)
    is_same = codes[versions] == codes[count:]
    is_delete = retract_mask(hidden_changes.rows)
    is_confirmed: Bools = np.where(is_delete, ~is_covered, is_covered & is_same)
    return is_confirmed


def _tracked_codes(rows: pa.RecordBatch, rule: HistoryRule) -> Int64s:
    """Return a number for each row, equal for equal tracked values: int64 [n]."""
    return combined_codes(
        [value_codes(rows.column(name)) for name in rule.tracked_names], rows.num_rows
    )


def _number_by_age(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return the hidden changes with the sequence numbers -n to -1, in order of their age."""
    sequence_numbers = np.empty(rows.num_rows, np.int64)
    order = np.argsort(_integers(rows.column(SEQUENCE_NUMBER)), kind="stable")
    sequence_numbers[order] = np.arange(-rows.num_rows, 0)
    return _set_column(rows, SEQUENCE_NUMBER, pa.array(sequence_numbers))


def _ends_of_versions(rows: pa.RecordBatch, rule: HistoryRule) -> pa.RecordBatch:
    """Return a delete for each version that ends, at the time of its end."""
    columns = rule.history_columns
    ends = rows.filter(rows.column(columns.valid_to).is_valid())
    kinds = pa.repeat(pa.scalar(int(RowKind.DELETE), pa.int8()), ends.num_rows)
    ends = _set_column(with_sequence_number(ends, _END_NUMBER), VALUE_KIND, kinds)
    return _set_column(ends, columns.valid_from, ends.column(columns.valid_to))


def _timelines(rows: pa.RecordBatch, rule: HistoryRule) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """Return the versions of each key, and the changes to hide.

    A version has the values of its newest row. Five rows of one key; B at 20 was hidden, and at 30
    a value equal to it arrives::

        start       [10, 20, 20, 30, 40]
        value       [A,  B,  C,  C,  deleted]
        states      [10 A,   20 C, 30 C, 40 deleted]      the newest row of each start
        versions    [10 to 20, A], [20 to 40, C]
        to hide     [20 C, 30 C]      20 replaces a hidden change, 30 continues a version

    Args:
        rows: values and deletes in order of key, start and age.
    """
    columns = rule.history_columns
    is_newest = is_last_of_key(rows, None, rule.layout)
    states = rows_at(rows, np.flatnonzero(is_newest))
    is_value = ~retract_mask(states)
    has_predecessor = np.zeros(states.num_rows, np.bool_)
    has_predecessor[1:] = ~is_last_of_key(states, None, rule.source_layout)[:-1]
    codes = _tracked_codes(states, rule)
    is_continued = has_predecessor & is_value  # whether the state continues the previous version
    is_continued[1:] &= is_value[:-1] & (codes[1:] == codes[:-1])
    head_indices = np.flatnonzero(is_value & ~is_continued)
    break_indices = np.append(np.flatnonzero(~is_continued), states.num_rows)
    ends = break_indices[np.searchsorted(break_indices, head_indices, side="right")]
    is_ended = np.append(has_predecessor, False)[ends]
    start_times = states.column(columns.valid_from)
    valid_to = start_times.take(pa.array(ends, mask=~is_ended))
    versions = rows_at(states, ends - 1)
    versions = _set_column(versions, columns.valid_from, start_times.take(pa.array(head_indices)))
    versions = _set_column(versions, columns.valid_to, valid_to)
    versions = _set_column(versions, columns.is_current, pa.array(~is_ended))
    is_shown = np.zeros(len(is_value), np.bool_)
    is_shown[head_indices] = True
    if columns.untracked_columns:  # a longer version has the untracked values of its newest row
        is_shown[:-1] &= ~is_continued[1:]
    is_shown[1:] |= ~is_value[1:] & has_predecessor[1:] & is_value[:-1]
    return versions, rows_at(states, _states_to_hide(rows, is_newest, is_shown))


def _states_to_hide(rows: pa.RecordBatch, is_newest: Bools, is_shown: Bools) -> Int64s:
    """Return the states that become hidden changes: int64 [k].

    A state that no version shows is hidden once. A new change replaces a hidden change of the same
    moment.

    Args:
        rows: values and deletes in order of key, start and age.
        is_newest: bool [n]; the rows that are states.
        is_shown: bool [m]; the states with which a version begins or ends.
    """
    sequence_numbers = _integers(rows.column(SEQUENCE_NUMBER))
    is_hidden = (sequence_numbers < 0) & (sequence_numbers > _VERSION_NUMBER)
    last_indices = np.flatnonzero(is_newest)
    hidden_counts = np.concatenate(([0], np.cumsum(is_hidden)[last_indices]))
    has_hidden = hidden_counts[1:] > hidden_counts[:-1]  # among the rows of the state
    return np.flatnonzero(np.where(has_hidden, ~is_hidden[is_newest], ~is_shown))


def _set_column(rows: pa.RecordBatch, name: str, values: pa.Array) -> pa.RecordBatch:
    index = rows.schema.get_field_index(name)
    return rows.set_column(index, rows.schema.field(index), values)


def _integers(column: pa.Array) -> Int64s:
    values: Int64s = integer_view(column).to_numpy(zero_copy_only=False)
    return values


def _no_rows(keys: pa.RecordBatch, _names: object) -> RowsOfKeys:
    """Return no row, because the timeline already has the table's rows."""
    return RowsOfKeys(np.empty(0, np.int64), keys.slice(0, 0))
