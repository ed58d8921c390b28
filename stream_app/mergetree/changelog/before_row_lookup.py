"""Looks up the old rows of the keys in a compaction's window: a port and its implementations.

`table.compact.keyed.keyed_compaction` chooses one by a table's options, and `changelog_rewriter`
calls it.

Source: Paimon `mergetree/compact/ChangelogMergeTreeRewriter.java`,
`FullChangelogMergeTreeCompactRewriter.java`, `LookupMergeTreeCompactRewriter.java`,
`LookupChangelogMergeFunctionWrapper.java`, `FirstRowMergeFunctionWrapper.java`.
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby

import numpy as np
import pyarrow as pa

from stream_app.arrow_buffers import Bools, Int64s
from stream_app.mergetree.file_access import RowPositionReader
from stream_app.mergetree.interval_partition import Section
from stream_app.mergetree.key_differences import rows_of_keys
from stream_app.mergetree.key_value_batch import KeyValueLayout, rows_at
from stream_app.mergetree.merge_window import MergeWindow, sorted_window
from stream_app.mergetree.sort_merge_reader import LevelWindow, RunCursor
from stream_app.mergetree.sorted_run import sorted_run
from stream_app.model.files.data_file_meta import DataFileMeta, KeyOrder

_FILE, _POSITION = "\0file", "\0position"
_KEY_INDEX = "\0key"


@dataclass(slots=True)
class HigherLevelLookup:
    """A lookup of keys in levels above the output, in ascending order over all calls.

    Attributes:
        higher_files: the data files of levels above the output.
        positions_read: name of a data file → the positions of the rows that lookups returned.
    """

    layout: KeyValueLayout
    row_reader: RowPositionReader
    higher_files: Sequence[DataFileMeta]
    key_of: KeyOrder
    positions_read: dict[str, list[Int64s]] = field(init=False, default_factory=dict)
    _cursors: list[RunCursor] | None = field(init=False, default=None)

    def rows_of(self, keys: pa.RecordBatch) -> tuple[list[pa.RecordBatch], pa.RecordBatch]:
        """Return the newest row of each key, unordered, and the keys without a row.

        Args:
            keys: rows with at least the key columns, unique and ascending over all calls.

        Raises:
            CorruptFileError: a file cannot be read.
        """
        if self._cursors is None:
            self._cursors = [RunCursor(rows, self.layout) for rows in self._levels()]
        last_key = RunCursor(iter((keys,)), self.layout).last_key
        batches: list[pa.RecordBatch] = []
        for cursor in self._cursors:
            while cursor.batch is not None and keys.num_rows:
                candidates = cursor.take_up_to(last_key)
                if candidates is None:
                    break
                hits, keys = rows_of_keys(self.layout, candidates, keys)
                if hits.num_rows:
                    batches.append(self._note_positions(hits))
        return batches, keys

    def may_have(self, file: DataFileMeta) -> bool:
        """Return whether a key of this file may exist above, judged by minimum and maximum keys."""
        min_key, max_key = self.key_of(file.min_key), self.key_of(file.max_key)
        return any(
            self.key_of(file_above.min_key) <= max_key
            and min_key <= self.key_of(file_above.max_key)
            for file_above in self.higher_files
        )

    def _note_positions(self, hits: pa.RecordBatch) -> pa.RecordBatch:
        file_indices = hits.column(_FILE).to_numpy()
        for file_index in np.unique(file_indices):
            positions = hits.column(_POSITION).to_numpy()[file_indices == file_index]
            self.positions_read.setdefault(self.higher_files[file_index].file_name, []).append(
                positions
            )
        return hits.drop_columns([_FILE, _POSITION])

    def _levels(self) -> Iterator[Iterator[pa.RecordBatch]]:
        """Yield the rows of each level, the lowest level first."""
        sorted_files = sorted(self.higher_files, key=lambda file: file.level)
        for _, files in groupby(sorted_files, key=lambda file: file.level):
            yield self._read_with_positions(sorted_run(files, self.key_of).files)

    def _read_with_positions(self, files: Sequence[DataFileMeta]) -> Iterator[pa.RecordBatch]:
        for file in files:
            file_index = pa.scalar(self.higher_files.index(file), pa.int32())
            for batch, positions in self.row_reader.read_with_positions(file):
                with_file = batch.append_column(_FILE, pa.repeat(file_index, batch.num_rows))
                yield with_file.append_column(_POSITION, pa.array(positions))


class Upgrade(enum.Enum):
    """The treatment of a file that overlaps no other, by a compaction."""

    MOVE = "it moves by metadata alone"
    RECORD = "it moves, and its rows go to the changelog"
    REWRITE = "it is rewritten, and its changes go to the changelog"


@dataclass(frozen=True, slots=True)
class WindowBefore:
    """The rows of a window, and the old rows of its keys.

    Attributes:
        window: the rows to merge.
        old_rows: the old rows of keys that may change, as key-value rows, at most one per key. A
            delete means that the key had no row. None if no key has one; merged rows then keep
            their kind.
        may_change: bool [keys]; whether each key of `window`, in order, has new rows.
        merges_single_rows: whether a key's only row is merged too; see `MergeFunction.merge`.
    """

    window: MergeWindow
    old_rows: pa.RecordBatch | None
    may_change: Bools
    merges_single_rows: bool = False


def has_level0(sections: Sequence[Section]) -> bool:
    """Return whether the sections have a file of level 0."""
    files = (file for section in sections for run in section for file in run.files)
    return any(file.level == 0 for file in files)


class BeforeRowLookup(ABC):
    """A lookup of a bucket's rows that followers have seen."""

    def records_changes(self, sections: Sequence[Section], output_level: int, /) -> bool:
        """Return whether a rewrite writes a changelog; by default if level 0 is part of it."""
        return output_level != 0 and has_level0(sections)

    @abstractmethod
    def upgrade(self, file: DataFileMeta, output_level: int, /) -> Upgrade:
        """Return the treatment of a file that overlaps no other and moves to `output_level`."""

    @abstractmethod
    def look_up(self, level_window: LevelWindow) -> WindowBefore:
        """Return the old rows of a window's keys. Callers pass windows in key order."""


@dataclass(frozen=True, slots=True)
class FullCompactionChangelog(BeforeRowLookup):
    """``changelog-producer = full-compaction``: the changes since the last full compaction.

    Only a full compaction writes the highest level. So followers have seen exactly its rows, and
    all rows below are newer.
    """

    max_level: int

    def records_changes(self, _sections: Sequence[Section], output_level: int, /) -> bool:
        """Return whether the rewrite is a full compaction."""
        return output_level == self.max_level

    def upgrade(self, _file: DataFileMeta, output_level: int, /) -> Upgrade:
        """Write a changelog for a file that reaches the highest level, whose rows are all new."""
        return Upgrade.RECORD if output_level == self.max_level else Upgrade.MOVE

    def look_up(self, level_window: LevelWindow) -> WindowBefore:
        """Return the rows of the highest level whose keys have newer rows."""
        is_newer = level_window.levels != self.max_level
        may_change = level_window.has_chosen_row(is_newer)
        is_old_row = level_window.has_chosen_key(may_change) & ~is_newer
        old_rows = rows_at(level_window.window.batch, level_window.order[is_old_row])
        return WindowBefore(level_window.window, old_rows, may_change)


@dataclass(frozen=True, slots=True)
class FirstRowChangelog(BeforeRowLookup):
    """``merge-engine = first-row``: rows of level 0 whose key is new.

    Readers do not merge the levels above 0 of such a table, so a key may be on only one of them. A
    row is dropped if its key exists above the output.

    Attributes:
        higher_level_lookup: looks up keys above the compaction's output, in the layout of the key
            columns.
    """

    max_level: int
    higher_level_lookup: HigherLevelLookup

    def upgrade(self, file: DataFileMeta, output_level: int, /) -> Upgrade:
        """Rewrite a file of level 0 if one of its keys may exist above."""
        if file.level != 0:
            return Upgrade.MOVE
        is_new = output_level == self.max_level or not self.higher_level_lookup.may_have(file)
        return Upgrade.RECORD if is_new else Upgrade.REWRITE

    def look_up(self, level_window: LevelWindow) -> WindowBefore:
        """Return no rows, because the window omits keys that exist above."""
        batch = level_window.window.batch
        is_new = ~level_window.has_chosen_row(level_window.levels > 0)
        new_rows = rows_at(batch, level_window.order[level_window.starts[is_new]])
        is_kept = np.ones(len(is_new), np.bool_)
        if new_rows.num_rows and self.higher_level_lookup.higher_files:
            layout = self.higher_level_lookup.layout
            keys = new_rows.select(list(layout.key_names)).cast(layout.schema)
            key_indices = pa.array(np.flatnonzero(is_new))
            _, absent_keys = self.higher_level_lookup.rows_of(
                keys.append_column(_KEY_INDEX, key_indices)
            )
            is_kept = ~is_new
            is_kept[absent_keys.column(_KEY_INDEX).to_numpy()] = True
        window = level_window.select(level_window.has_chosen_key(is_kept))
        return WindowBefore(window, None, is_new[is_kept])


@dataclass(frozen=True, slots=True)
class LookupChangelog(BeforeRowLookup):
    """``changelog-producer = lookup``: the changes that each compaction of level 0 brings.

    A key's old row is that of the lowest level above 0, in the compaction or above it. With
    deletion vectors, each row above the compaction is marked as deleted.

    Attributes:
        higher_level_lookup: looks up the rows above the compaction's output.
        keeps_newest: whether the merged row is the newest by order of arrival. If so, the rows of a
            level-0 file without overlaps are already merged.
        deletes_older: whether rows above are marked as deleted, and no level above 0 may have
            deletes.
        needs_keys_only: whether only the keys of rows above are looked up, to delete the rows; they
            are not merged.
    """

    layout: KeyValueLayout
    max_level: int
    higher_level_lookup: HigherLevelLookup
    keeps_newest: bool
    deletes_older: bool = False
    needs_keys_only: bool = False

    def upgrade(self, file: DataFileMeta, output_level: int, /) -> Upgrade:
        """Write a changelog for level 0, for which rows above may have to be merged."""
        if file.level != 0:
            return Upgrade.MOVE
        if self.deletes_older and file.may_have_deletes:
            return Upgrade.REWRITE
        is_merged = output_level == self.max_level or self.keeps_newest
        return Upgrade.RECORD if is_merged else Upgrade.REWRITE

    def look_up(self, level_window: LevelWindow) -> WindowBefore:
        """Return each key's row of the lowest level above 0, into which all lower rows are merged.

        Higher rows were already merged into it, and are omitted.
        """
        batch, order = level_window.window.batch, level_window.order
        is_new = level_window.levels == 0
        may_change = level_window.has_chosen_row(is_new)
        indices = level_window.lowest_above_0()
        has_old_row = indices >= 0
        old_rows = [rows_at(batch, order[indices[has_old_row & may_change]])]
        is_merged = is_new.copy()
        is_merged[indices[has_old_row]] = True
        window = level_window.select(is_merged)
        if not has_old_row.all():
            new_rows = rows_at(batch, order[level_window.starts[~has_old_row]])
            if self.needs_keys_only:
                keys = self.higher_level_lookup.layout
                new_rows = new_rows.select(list(keys.key_names)).cast(keys.schema)
            rows_above, _ = self.higher_level_lookup.rows_of(new_rows)
            if rows_above and not self.needs_keys_only:
                old_rows += rows_above
                rows = pa.concat_batches([rows_at(batch, window.order), *rows_above])
                window = sorted_window(rows, self.layout)
        return WindowBefore(
            window, pa.concat_batches(old_rows), may_change, merges_single_rows=True
        )
