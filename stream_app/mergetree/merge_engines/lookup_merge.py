"""Merges rows of which those of a level above 0 hold all that is still further up.

So it does where compactions look rows up: they write the merged row, and the older one stays where
it is. Of the rows above 0, only that of the lowest level counts. Engines by which one row wins need
no such care.

Source: Paimon `mergetree/compact/LookupMergeFunction.java`.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from stream_app.mergetree.key_value_batch import KeyValueLayout
from stream_app.mergetree.level_windows import LevelWindow
from stream_app.mergetree.merge_engines.merge_function import MergeFunction
from stream_app.mergetree.merge_window import MergeWindow


@dataclass(frozen=True, slots=True)
class LookupMerge:
    """Implements `MergeFunction` for rows that are on one level above 0 at most."""

    function: MergeFunction

    @property
    def merges_in_parts(self) -> bool:
        """As the engine does."""
        return self.function.merges_in_parts

    def merge(
        self, window: MergeWindow, layout: KeyValueLayout, *, also_alone: bool = False
    ) -> pa.RecordBatch:
        """As the engine does."""
        return self.function.merge(window, layout, also_alone=also_alone)

    def merge_levels(self, given: LevelWindow, layout: KeyValueLayout) -> pa.RecordBatch:
        """Merge rows of any levels."""
        counts = given.levels == 0
        places = given.lowest_above_0()
        counts[places[places >= 0]] = True
        return self.function.merge(given.chosen(counts), layout)
