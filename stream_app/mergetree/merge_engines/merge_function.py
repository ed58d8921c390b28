"""The port of a merge engine, which merges the rows of each key of a window into one row.

Flush, compaction and read must all use the same function, or versions are lost.

Source: Paimon `mergetree/compact/MergeFunction.java`, `LookupMergeFunction.java`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from stream_app.mergetree.key_value_batch import KeyValueLayout
from stream_app.mergetree.merge_window import MergeWindow
from stream_app.mergetree.sort_merge_reader import LevelWindow


class MergeFunction(Protocol):
    """The merge of all versions of each key of a window."""

    @property
    def merges_in_parts(self) -> bool:
        """Whether some rows of a key may be merged before the others, with the same result.

        If so, a write buffer merges its rows before it is full.
        """
        ...

    def merge(
        self, window: MergeWindow, layout: KeyValueLayout, *, merges_single_rows: bool = False
    ) -> pa.RecordBatch:
        """Return one row per key, in key order, in the schema of the window's batch.

        Args:
            merges_single_rows: whether a key's only row is merged too, which may change it.
        """
        ...


@dataclass(frozen=True, slots=True)
class LookupMerge:
    """A wrapper of a `MergeFunction` by which only a key's lowest row above level 0 counts.

    Compactions with lookups make such rows: they write the merged row, and the older one stays in
    place.
    """

    function: MergeFunction

    @property
    def merges_in_parts(self) -> bool:
        """See `MergeFunction.merges_in_parts`; the engine decides."""
        return self.function.merges_in_parts

    def merge(
        self, window: MergeWindow, layout: KeyValueLayout, *, merges_single_rows: bool = False
    ) -> pa.RecordBatch:
        """See `MergeFunction.merge`; the engine merges."""
        return self.function.merge(window, layout, merges_single_rows=merges_single_rows)

    def merge_levels(self, window: LevelWindow, layout: KeyValueLayout) -> pa.RecordBatch:
        """Merge rows of any levels."""
        is_merged = window.levels == 0
        indices = window.lowest_above_0()
        is_merged[indices[indices >= 0]] = True
        return self.function.merge(window.select(is_merged), layout)
