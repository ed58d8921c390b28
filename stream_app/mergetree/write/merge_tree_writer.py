"""Writes rows of one bucket: buffers them, and flushes level-0 and changelog files.

`table.kinds.keyed` calls it in a task. It never compacts: the driver decides about compactions
after the commit (`compact_manager`).

Source: Paimon `mergetree/MergeTreeWriter.java`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from stream_app.mergetree.file_access import (
    HiddenChanges,
    KeyValueFileAccess,
    OldRowLookup,
    WrittenFiles,
)
from stream_app.mergetree.key_value_batch import KeyValueLayout, retract_mask, rows_at
from stream_app.mergetree.merge_engines.merge_function import MergeFunction
from stream_app.mergetree.merge_window import MergeWindow
from stream_app.mergetree.write.fill_unchanged import (
    RestoredRows,
    RowFinder,
    restored_windows,
    widened_layout,
    with_further_columns,
)
from stream_app.mergetree.write.history_versions import HistoryRule, history_windows
from stream_app.mergetree.write.mergeable_rows import check_mergeable
from stream_app.mergetree.write.row_kinds import accepted_mask, with_kinds_of
from stream_app.mergetree.write.write_buffer import SortBufferWriteBuffer
from stream_app.model.files.data_file_meta import DataFileMeta, FileSource
from stream_app.model.row_kind import RowKind
from stream_app.model.schema.merge.refusal_rules import RefusalRule
from stream_app.model.schema.table_schema import SEQUENCE_NUMBER
from stream_app.model.schema.unchanged_values import UNCHANGED


@dataclass(slots=True, kw_only=True)
class MergeTreeWriter:
    """The writer of one bucket, for one epoch.

    Attributes:
        next_sequence_number: the sequence number of the first row, greater than any in the bucket.
        writes_changelog: whether each row also goes to a changelog file (``changelog-producer =
            input``).
        ignored_kinds: the row kinds that are dropped first (``ignore-delete``,
            ``ignore-update-before``).
        refusal_rules: the rules about rows that no merge accepts, and which must not be committed.
        kind_column: the column with each row's kind (``rowkind.field``); empty: none.
        history_rule: derives the versions of rows; None if a key has only one version.
        hidden_changes: the bucket's hidden changes; see `history_windows`.
        old_row_lookup: looks up omitted values, or the table's versions; None if no row needs them.
    """

    layout: KeyValueLayout
    buffer: SortBufferWriteBuffer
    merge_function: MergeFunction
    file_access: KeyValueFileAccess
    next_sequence_number: int
    writes_changelog: bool
    ignored_kinds: frozenset[RowKind] = frozenset()
    refusal_rules: tuple[RefusalRule, ...] = ()
    kind_column: str = ""
    history_rule: HistoryRule | None = None
    hidden_changes: HiddenChanges | None = None
    old_row_lookup: OldRowLookup | None = None
    _new_files: list[DataFileMeta] = field(init=False, default_factory=list)
    _changelog_files: list[DataFileMeta] = field(init=False, default_factory=list)
    _refused_batches: list[pa.RecordBatch] = field(init=False, default_factory=list)

    def write(self, rows: pa.RecordBatch) -> None:
        """Add rows (`_VALUE_KIND` and the table's columns) in their order of arrival.

        Rows that omit values also have the columns of `model.schema.unchanged_values`.
        """
        if self.kind_column:
            rows = with_kinds_of(rows, self.kind_column)
        if self.ignored_kinds:
            rows = self._without_ignored_rows(rows)
        if not rows.num_rows:
            return
        check_mergeable(rows, self.refusal_rules, self.layout.key_names)
        if UNCHANGED in rows.schema.names and not self._accepts_omissions:
            self._widen(rows.schema)
        first_sequence_number = self.next_sequence_number
        self.next_sequence_number += rows.num_rows
        sequence_numbers = pa.array(
            np.arange(first_sequence_number, self.next_sequence_number, dtype=np.int64)
        )
        rows = rows.add_column(0, SEQUENCE_NUMBER, sequence_numbers)
        batch = with_further_columns(rows, self.buffer.layout.schema)
        for piece in self.buffer.cut(batch):
            self.buffer.put(piece)
            if self.buffer.is_full:
                self.flush()

    def flush(self) -> None:
        """Merge the buffered rows into level-0 files, and write the changelog beside them."""
        if self.buffer.is_empty:
            return
        data_writer = self.file_access.data_writer(level=0, file_source=FileSource.APPEND)
        changelog_writer = self.file_access.changelog_writer() if self.writes_changelog else None
        try:
            for window in self._windows():
                if changelog_writer is None:
                    data_writer.write(self.merge_function.merge(window, self.layout))
                    continue
                # The merge of sorted rows reads memory in order.
                rows = self.layout.rows_at(window.batch, window.order)
                changelog_writer.write(rows)
                sorted_rows = MergeWindow(rows, None, window.is_last)
                data_writer.write(self.merge_function.merge(sorted_rows, self.layout))
            new_files = data_writer.close()
            changelog_files = () if changelog_writer is None else changelog_writer.close()
        except BaseException:
            data_writer.abort()
            if changelog_writer is not None:
                changelog_writer.abort()
            raise
        self._new_files += new_files
        self._changelog_files += changelog_files

    def prepare_commit(self) -> WrittenFiles:
        """Flush, and return all files since the last call."""
        self.flush()
        written_files = WrittenFiles(
            tuple(self._new_files),
            tuple(self._changelog_files),
            tuple(self._refused_batches),
            index_entries=() if self.hidden_changes is None else self.hidden_changes.finish(),
            late_change_count=0
            if self.hidden_changes is None
            else self.hidden_changes.late_change_count,
        )
        self._new_files, self._changelog_files, self._refused_batches = [], [], []
        return written_files

    def abort(self) -> None:
        """Drop the buffer, and delete the files that were not returned yet."""
        self.buffer.close()
        for file in (*self._new_files, *self._changelog_files):
            self.file_access.delete(file)
        self._new_files, self._changelog_files = [], []

    @property
    def _accepts_omissions(self) -> bool:
        """Whether the buffer accepts rows that omit values."""
        return len(self.buffer.layout.schema) > len(self.layout.schema)

    def _widen(self, row_schema: pa.Schema) -> None:
        """Accept rows that omit values from now on."""
        if self.buffer.spilled_size:
            self.flush()
        self.buffer.widen(widened_layout(self.layout, row_schema))

    def _windows(self) -> Iterator[MergeWindow]:
        """Yield the buffered rows with older values; refuse rows that lack an older value."""
        if self.history_rule is None and not self._accepts_omissions:
            yield from self.buffer.drain()
            return
        assert self.old_row_lookup is not None, "rows need older rows of the table"
        find, new_files = self.old_row_lookup.find, self._new_files
        for restored_rows in self._restored_windows(
            lambda keys, names: find(keys, names, new_files)
        ):
            if (
                restored_rows.refused_messages is not None
                and restored_rows.refused_messages.num_rows
            ):
                self._refused_batches.append(restored_rows.refused_messages)
            yield restored_rows.window

    def _restored_windows(self, find: RowFinder) -> Iterator[RestoredRows]:
        if self.history_rule is not None:
            yield from history_windows(
                self.buffer.drain(), self.history_rule, find, self.hidden_changes
            )
            return
        for window in self.buffer.drain():
            yield from restored_windows(window, self.layout, find)

    def _without_ignored_rows(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        if not retract_mask(rows).any():
            return rows
        is_accepted = accepted_mask(rows, self.ignored_kinds)
        return rows if is_accepted.all() else rows_at(rows, np.flatnonzero(is_accepted))
