"""Finds the earlier rows of the keys in a compaction's window: a port and its implementations.

Source: Paimon `mergetree/compact/ChangelogMergeTreeRewriter.java`,
`FullChangelogMergeTreeCompactRewriter.java`, `LookupMergeTreeCompactRewriter.java`,
`LookupChangelogMergeFunctionWrapper.java`, `FirstRowMergeFunctionWrapper.java`.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Protocol

import numpy as np
import pyarrow as pa

from stream_app.mergetree.file_access import RowPlaceReader
from stream_app.mergetree.interval_partition import Section
from stream_app.mergetree.key_differences import rows_of_keys
from stream_app.mergetree.key_value_batch import Indices, KeyValueLayout, Mask, rows_at
from stream_app.mergetree.merge_window import MergeWindow, sorted_window
from stream_app.mergetree.sort_merge_reader import LevelWindow, RunCursor
from stream_app.mergetree.sorted_run import sorted_run
from stream_app.model.files.data_file_meta import DataFileMeta, KeyOrder

_FILE, _PLACE = "_FILE", "_PLACE"


@dataclass(slots=True)
class RowsAbove:
    """Looks keys up, in ascending order over all calls.

    Attributes:
        above: data files, of levels above the output.
        places_read: by the name of a data file, the places of the rows that were found in it.
    """

    layout: KeyValueLayout
    files: RowPlaceReader
    above: Sequence[DataFileMeta]
    key_of: KeyOrder
    places_read: dict[str, list[Indices]] = field(init=False, default_factory=dict)
    _cursors: list[RunCursor] | None = field(init=False, default=None)

    def rows_of(self, keys: pa.RecordBatch) -> tuple[list[pa.RecordBatch], pa.RecordBatch]:
        """The newest row of each key that has one, in no order; and the keys that have none.

        Args:
            keys: rows with at least the key columns; unique and ascending over all calls.

        Raises:
            CorruptFileError: a file cannot be read.
        """
        if self._cursors is None:
            self._cursors = [RunCursor(rows, self.layout) for rows in self._levels()]
        bound = RunCursor(iter((keys,)), self.layout).last_key
        batches: list[pa.RecordBatch] = []
        for cursor in self._cursors:
            while cursor.batch is not None and keys.num_rows:
                part = cursor.take_up_to(bound)
                if part is None:
                    break
                hits, keys = rows_of_keys(self.layout, part, keys)
                if hits.num_rows:
                    batches.append(self._noted(hits))
        return batches, keys

    def may_have(self, file: DataFileMeta) -> bool:
        """Whether a key of this file may be above, by least and greatest keys."""
        least, greatest = self.key_of(file.min_key), self.key_of(file.max_key)
        return any(
            self.key_of(above.min_key) <= greatest and least <= self.key_of(above.max_key)
            for above in self.above
        )

    def _noted(self, hits: pa.RecordBatch) -> pa.RecordBatch:
        files = hits.column(_FILE).to_numpy()
        for number in np.unique(files):
            places = hits.column(_PLACE).to_numpy()[files == number]
            self.places_read.setdefault(self.above[number].file_name, []).append(places)
        return hits.drop_columns([_FILE, _PLACE])

    def _levels(self) -> Iterator[Iterator[pa.RecordBatch]]:
        """The rows of each level, the lowest level first."""
        by_level = sorted(self.above, key=lambda file: file.level)
        for _, files in groupby(by_level, key=lambda file: file.level):
            yield self._read(sorted_run(files, self.key_of).files)

    def _read(self, files: Sequence[DataFileMeta]) -> Iterator[pa.RecordBatch]:
        for file in files:
            number = pa.scalar(self.above.index(file), pa.int32())
            for batch, places in self.files.read_places(file):
                marked = batch.append_column(_FILE, pa.repeat(number, batch.num_rows))
                yield marked.append_column(_PLACE, pa.array(places))


class Upgrade(enum.Enum):
    """The treatment of a file that overlaps no other."""

    MOVE = "it moves by metadata alone"
    RECORD = "it moves, and its rows go to the changelog"
    REWRITE = "it is rewritten, and its changes go to the changelog"


@dataclass(frozen=True, slots=True)
class WindowBefore:
    """The changes of one window.

    Attributes:
        window: the rows that are merged.
        before: key-value rows, at most one a key, of the keys that may change. A key whose row is
            a delete had none. None: there are none, and merged rows keep their kind.
        may_change: bool [keys]; the keys of `window`, in order, that have new rows.
        also_alone: a key's only row is merged as well; see `MergeFunction.merge`.
    """

    window: MergeWindow
    before: pa.RecordBatch | None
    may_change: Mask
    also_alone: bool = False


def leave_level_0(sections: Sequence[Section]) -> bool:
    """Whether the sections have a file of level 0."""
    files = (file for section in sections for run in section for file in run.files)
    return any(file.level == 0 for file in files)


class BeforeRows(Protocol):
    """Finds the rows of a bucket as followers have seen them."""

    def records_changes(self, sections: Sequence[Section], output_level: int, /) -> bool:
        """Whether a rewrite of sections writes a changelog; by default if they leave level 0."""
        return output_level != 0 and leave_level_0(sections)

    def upgrade(self, file: DataFileMeta, output_level: int, /) -> Upgrade:
        """The treatment of a file that overlaps no other and moves to `output_level`."""
        ...

    def before(self, window: LevelWindow) -> WindowBefore:
        """The earlier rows of a window's keys; windows come in key order."""
        ...


@dataclass(frozen=True, slots=True)
class FullCompactionChangelog(BeforeRows):
    """``changelog-producer = full-compaction``: the changes since the last full compaction.

    Only a full compaction writes the highest level. So followers have seen exactly the rows there,
    and all rows below are newer.
    """

    max_level: int

    def records_changes(self, _sections: Sequence[Section], output_level: int, /) -> bool:
        """Whether it is a full compaction."""
        return output_level == self.max_level

    def upgrade(self, _file: DataFileMeta, output_level: int, /) -> Upgrade:
        """Write a changelog for a file that reaches the highest level: all of its rows are new."""
        return Upgrade.RECORD if output_level == self.max_level else Upgrade.MOVE

    def before(self, window: LevelWindow) -> WindowBefore:
        """The rows of the highest level whose keys have newer rows."""
        is_new = window.levels != self.max_level
        may_change = window.any(is_new)
        chosen = window.of_keys(may_change) & ~is_new
        rows = rows_at(window.window.batch, window.order[chosen])
        return WindowBefore(window.window, rows, may_change)


_NUMBER = "_NUMBER"


@dataclass(frozen=True, slots=True)
class FirstRowChangelog(BeforeRows):
    """``merge-engine = first-row``: rows of level 0 whose key is new.

    Readers do not merge the levels above 0 of such a table. So no key may be on two of them: a row
    is dropped when its key lies above the output.

    Attributes:
        above: the keys above the compaction's output; its layout is that of the key columns.
    """

    max_level: int
    above: RowsAbove

    def upgrade(self, file: DataFileMeta, output_level: int, /) -> Upgrade:
        """Rewrite a file of level 0 if one of its keys may lie above."""
        if file.level != 0:
            return Upgrade.MOVE
        is_new = output_level == self.max_level or not self.above.may_have(file)
        return Upgrade.RECORD if is_new else Upgrade.REWRITE

    def before(self, given: LevelWindow) -> WindowBefore:
        """Returns no rows, because the window omits keys that lie above."""
        batch = given.window.batch
        is_known = given.any(given.levels > 0)
        is_new = ~is_known
        firsts = rows_at(batch, given.order[given.starts[~is_known]])
        keeps = np.ones(len(is_known), np.bool_)
        if firsts.num_rows and self.above.above:
            layout = self.above.layout
            keys = firsts.select(list(layout.key_names)).cast(layout.schema)
            numbers = pa.array(np.flatnonzero(~is_known))
            _, absent = self.above.rows_of(keys.append_column(_NUMBER, numbers))
            keeps = is_known
            keeps[absent.column(_NUMBER).to_numpy()] = True
        window = given.chosen(given.of_keys(keeps))
        return WindowBefore(window, None, is_new[keeps])


@dataclass(frozen=True, slots=True)
class LookupChangelog(BeforeRows):
    """``changelog-producer = lookup``: the changes that level 0 brings, whenever it is compacted.

    A key's former row is that of the lowest level above 0: in the compaction, or further up. Where
    deletion vectors merge rows, each row that is found further up gets deleted.

    Attributes:
        above: the rows above the compaction's output.
        keeps_newest: the merged row is the newest, by order of arrival. So a file of level 0 that
            overlaps nothing holds merged rows already.
        deletes_older: the rows that are found above get deleted, and no level above 0 may hold a
            delete.
        asks_for_keys: the rows above are found by their keys, to be deleted; they are not merged.
    """

    layout: KeyValueLayout
    max_level: int
    above: RowsAbove
    keeps_newest: bool
    deletes_older: bool = False
    asks_for_keys: bool = False

    def upgrade(self, file: DataFileMeta, output_level: int, /) -> Upgrade:
        """Write a changelog for level 0; rows further up may have to be merged in first."""
        if file.level != 0:
            return Upgrade.MOVE
        if self.deletes_older and file.may_have_deletes:
            return Upgrade.REWRITE
        is_merged = output_level == self.max_level or self.keeps_newest
        return Upgrade.RECORD if is_merged else Upgrade.REWRITE

    def before(self, given: LevelWindow) -> WindowBefore:
        """The row of the lowest level above 0; all rows below it are merged with it.

        Rows still further up are merged into it already, and are left out.
        """
        batch, order = given.window.batch, given.order
        is_new = given.levels == 0
        may_change = given.any(is_new)
        places = given.lowest_above_0()
        known = places >= 0
        before = [rows_at(batch, order[places[known & may_change]])]
        is_new[places[known]] = True
        window = given.chosen(is_new)
        if not known.all():
            unknown = rows_at(batch, order[given.starts[~known]])
            if self.asks_for_keys:
                keys = self.above.layout
                unknown = unknown.select(list(keys.key_names)).cast(keys.schema)
            older, _ = self.above.rows_of(unknown)
            if older and not self.asks_for_keys:
                before += older
                rows = pa.concat_batches([rows_at(batch, window.order), *older])
                window = sorted_window(rows, self.layout)
        return WindowBefore(window, pa.concat_batches(before), may_change, also_alone=True)
