"""Merges sorted runs into windows that have all versions of their keys, in bounded memory.

The write buffer merges sorted chunks, compactions merge files, and readers merge sections. A merge
has one batch of each run in memory. It can merge all rows up to the smallest of the batches' last
keys, because later rows of the runs have greater keys. So memory is batches × runs, whatever the
files' size.

Source: Paimon `mergetree/SortMergeReader*.java` does this row by row with a loser tree. Here a
window is concatenated and sorted at once, which for presorted runs is one merge pass per column.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from stream_app.arrow_buffers import Bools, Int64s
from stream_app.mergetree.file_access import KeyValueFileReader
from stream_app.mergetree.interval_partition import Section
from stream_app.mergetree.key_value_batch import (
    KeyValueLayout,
    integer_keys,
    integer_view,
)
from stream_app.mergetree.merge_window import MergeWindow, sorted_window
from stream_app.mergetree.sorted_run import SortedRun

_NO_RANK = np.iinfo(np.int64).max
_INDEX_BITS = 32
"""The bits of a rank below the level, for the index of a row in its window."""


class RunCursor:
    """The read position in one run: its current batch, and the rows of it that are consumed."""

    def __init__(self, batches: Iterator[pa.RecordBatch], layout: KeyValueLayout) -> None:
        self._batches = batches
        self._layout = layout
        self.advance()

    def advance(self) -> None:
        """Advance to the next batch with rows; `batch` is None at the end."""
        self.batch = next((batch for batch in self._batches if batch.num_rows), None)
        self._start = 0
        if self.batch is not None:
            self._columns = [
                integer_view(self.batch.column(name)) for name in self._layout.key_names
            ]
            keys = integer_keys(self.batch, self._layout) if self._is_one_number() else None
            self._integers = None if keys is None else keys[0]
            self.last_key = self._key(self.batch.num_rows - 1)
            """The greatest key of the current batch."""

    def _is_one_number(self) -> bool:
        # A later batch of the run may have a null, whose key is a tuple.
        schema, names = self._layout.schema, self._layout.key_names
        return len(names) == 1 and not schema.field(names[0]).nullable

    def take_rest(self) -> pa.RecordBatch:
        """Consume and return the rest of the batch."""
        assert self.batch is not None
        remaining_rows = self.batch.slice(self._start)
        self.advance()
        return remaining_rows

    def take_up_to(self, key_max: Any) -> pa.RecordBatch | None:
        """Consume and return the rows whose key is not greater than `key_max`."""
        assert self.batch is not None
        if self.last_key <= key_max:
            return self.take_rest()
        start = self._start
        end = self._end_of(key_max)
        self._start = end
        return self.batch.slice(start, end - start) if end > start else None

    def _key(self, row_index: int) -> Any:
        if self._integers is not None:
            return self._integers[row_index]
        values = (column[row_index].as_py() for column in self._columns)
        return tuple((0,) if value is None else (1, value) for value in values)

    def _end_of(self, key_max: Any) -> int:
        assert self.batch is not None
        if self._integers is not None:
            return int(np.searchsorted(self._integers, key_max, side="right"))
        low, high = self._start, self.batch.num_rows
        while low < high:
            middle = (low + high) // 2
            if self._key(middle) <= key_max:
                low = middle + 1
            else:
                high = middle
        return low


def merge_windows(
    runs: Sequence[Iterator[pa.RecordBatch]], layout: KeyValueLayout
) -> Iterator[MergeWindow]:
    """Merge sorted runs into windows in key order; no key is in two windows.

    Two runs of two batches each. The smallest last key of the open batches bounds a window::

        run A     [1, 3]         [9]
        run B     [2, 3]         [8]
        max key    3, of both    8, of B
        windows   [1, 3, 2, 3]   [8]     then [9], the rest of A
        order     [0, 2, 1, 3]   None: one part, which is in order

    Args:
        runs: batches in key order. A run may repeat a key, as an unmerged write buffer does, but
            only inside one batch.
    """
    cursors = [RunCursor(run, layout) for run in runs]
    while cursors := [cursor for cursor in cursors if cursor.batch is not None]:
        if len(cursors) == 1:
            yield MergeWindow(cursors[0].take_rest())
            continue
        key_max = min(cursor.last_key for cursor in cursors)
        parts = [part for cursor in cursors if (part := cursor.take_up_to(key_max)) is not None]
        if len(parts) == 1:
            yield MergeWindow(parts[0])
            continue
        yield sorted_window(pa.concat_batches(parts), layout)


_LEVEL = "_LEVEL"


@dataclass(frozen=True, slots=True)
class LevelWindow:
    """A window with rows, and their levels.

    Attributes:
        order: int64 [m], the window's order.
        levels: int64 [m], the level of each row in order.
        starts: int64 [keys], where each key's rows begin in the order.
    """

    window: MergeWindow
    order: Int64s
    levels: Int64s
    starts: Int64s

    def has_chosen_row(self, is_chosen: Bools) -> Bools:
        """Return the mask of keys with a chosen row: bool [keys].

        Args:
            is_chosen: bool [m], in order.
        """
        has_row: Bools = np.logical_or.reduceat(is_chosen, self.starts)
        return has_row

    def has_chosen_key(self, is_chosen: Bools) -> Bools:
        """Return the mask of rows whose key is chosen: bool [m].

        Args:
            is_chosen: bool [keys].
        """
        return is_chosen.repeat(np.diff(self.starts, append=len(self.order)))

    def lowest_above_0(self) -> Int64s:
        """Return the index in `order` of each key's row on the lowest level above 0, else -1."""
        indices = np.arange(len(self.order), dtype=np.int64)
        ranks = np.where(self.levels == 0, _NO_RANK, (self.levels << _INDEX_BITS) | indices)
        min_ranks = np.minimum.reduceat(ranks, self.starts)
        lowest: Int64s = np.where(min_ranks == _NO_RANK, -1, min_ranks & ((1 << _INDEX_BITS) - 1))
        return lowest

    def select(self, is_chosen: Bools) -> MergeWindow:
        """Return the window with only the chosen rows.

        Args:
            is_chosen: bool [m], in order.
        """
        if is_chosen.all():
            return self.window
        return MergeWindow(self.window.batch, self.order[is_chosen])


def level_windows(
    section: Section, file_reader: KeyValueFileReader, layout: KeyValueLayout
) -> Iterator[LevelWindow]:
    """Yield the windows of a section in key order. It reads all runs at once, 4 MB each."""
    for read_window in merge_windows([_read_run(run, file_reader) for run in section], layout):
        batch, order = read_window.batch, read_window.order
        window = MergeWindow(batch.drop_columns([_LEVEL]), order, read_window.is_last)
        if order is None:
            order = np.arange(batch.num_rows, dtype=np.int64)
        levels = batch.column(_LEVEL).to_numpy().astype(np.int64)[order]
        yield LevelWindow(window, order, levels, window.key_starts(layout))


def _read_run(run: SortedRun, file_reader: KeyValueFileReader) -> Iterator[pa.RecordBatch]:
    for file in run.files:
        level = pa.scalar(file.level, pa.int8())
        for batch in file_reader.read(file):
            yield batch.append_column(_LEVEL, pa.repeat(level, batch.num_rows))
