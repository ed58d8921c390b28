"""Windows of a section whose rows know the level of their file.

Source: Paimon `KeyValue.java#level`, `mergetree/compact/LookupMergeFunction.java`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stream_app.mergetree.file_access import KeyValueFileReader
from stream_app.mergetree.interval_partition import Section
from stream_app.mergetree.key_value_batch import Indices, KeyValueLayout, Mask
from stream_app.mergetree.merge_window import MergeWindow
from stream_app.mergetree.sort_merge_reader import merge_windows
from stream_app.mergetree.sorted_run import SortedRun

_LEVEL = "_LEVEL"
_NO_ROW = np.iinfo(np.int64).max
_PLACE_BITS = 32

LevelNumbers = npt.NDArray[np.int64]
"""For each row of a window, in order, the level of its file: int64 [m]."""


@dataclass(frozen=True, slots=True)
class LevelWindow:
    """A window that has rows, and their levels.

    Attributes:
        order: int64 [m], the window's order.
        levels: int64 [m].
        starts: int64 [keys], where each key's rows begin in the order.
    """

    window: MergeWindow
    order: Indices
    levels: LevelNumbers
    starts: Indices

    def any(self, rows: Mask) -> Mask:
        """For each key, whether one of its rows is chosen: bool [keys]."""
        has_row: Mask = np.logical_or.reduceat(rows, self.starts)
        return has_row

    def of_keys(self, keys: Mask) -> Mask:
        """For each row, whether its key is chosen: bool [m]."""
        return keys.repeat(np.diff(self.starts, append=len(self.order)))

    def lowest_above_0(self) -> Indices:
        """For each key, the place in order of its row on the lowest level above 0; -1: none."""
        places = np.arange(len(self.order), dtype=np.int64)
        ranks = np.where(self.levels == 0, _NO_ROW, (self.levels << _PLACE_BITS) | places)
        least = np.minimum.reduceat(ranks, self.starts)
        lowest: Indices = np.where(least == _NO_ROW, -1, least & ((1 << _PLACE_BITS) - 1))
        return lowest

    def chosen(self, rows: Mask) -> MergeWindow:
        """The window with some of its rows, bool [m] in order."""
        if rows.all():
            return self.window
        return MergeWindow(self.window.batch, self.order[rows])


def level_windows(
    section: Section, files: KeyValueFileReader, layout: KeyValueLayout
) -> Iterator[LevelWindow]:
    """The windows of a section, in key order. All runs are read at once, 4 MB each."""
    for window in merge_windows([_read(run, files) for run in section], layout):
        order = window.order
        if order is None:
            order = np.arange(window.batch.num_rows, dtype=np.int64)
        levels = window.batch.column(_LEVEL).to_numpy().astype(np.int64)[order]
        rows = MergeWindow(window.batch.drop_columns([_LEVEL]), window.order, window.last)
        yield LevelWindow(rows, order, levels, rows.key_starts(layout))


def _read(run: SortedRun, files: KeyValueFileReader) -> Iterator[pa.RecordBatch]:
    for file in run.files:
        level = pa.scalar(file.level, pa.int8())
        for batch in files.read(file):
            yield batch.append_column(_LEVEL, pa.repeat(level, batch.num_rows))
