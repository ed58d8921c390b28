"""k sorted runs → windows that hold every version of their keys, in bounded memory.

Used by the write buffer (sorted chunks), the compaction (files) and the read (sections). From each
run it holds one batch. Every row up to the smallest of the batches' last keys can be merged now,
because what the runs bring later is greater. So memory is batches × runs, whatever the files' size.

Source: Paimon `mergetree/SortMergeReader*.java` does this row by row with a loser tree; here a
window is concatenated and sorted at once, which for presorted runs is one merge pass per column.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from stream_app.mergetree.key_value_batch import (
    Indices,
    KeyValueLayout,
    integer_keys,
    key_tuple,
    order_by_key,
)


@dataclass(frozen=True, slots=True)
class MergeWindow:
    """Rows to merge: all versions of each key in `batch`, and the order that sorts them.

    `order` is None when the batch lies in order (it came from one run alone).
    """

    batch: pa.RecordBatch
    order: Indices | None


class _RunCursor:
    """One run: its current batch and how much of it is used up."""

    def __init__(self, batches: Iterator[pa.RecordBatch], layout: KeyValueLayout) -> None:
        self._batches = batches
        self._layout = layout
        self._keys: Any = None
        self.batch: pa.RecordBatch | None = None
        self.advance()

    def advance(self) -> None:
        """Go to the next batch that has rows; `batch` is None at the end."""
        self.batch = next((batch for batch in self._batches if batch.num_rows), None)
        self._keys = None
        if self.batch is not None and len(self._layout.key_names) == 1:
            keys = integer_keys(self.batch, self._layout)
            self._keys = None if keys is None else keys[0]

    def last_key(self) -> Any:
        """The greatest key of the current batch."""
        assert self.batch is not None
        if self._keys is not None:
            return self._keys[-1]
        return key_tuple(self.batch, self.batch.num_rows - 1, self._layout)

    def take_up_to(self, bound: Any) -> pa.RecordBatch | None:
        """Use up and return the rows whose key is not greater than `bound`."""
        assert self.batch is not None
        count = self._count_up_to(bound)
        if count == 0:
            return None
        taken = self.batch.slice(0, count)
        if count == self.batch.num_rows:
            self.advance()
        else:
            self.batch = self.batch.slice(count)
            self._keys = None if self._keys is None else self._keys[count:]
        return taken

    def _count_up_to(self, bound: Any) -> int:
        assert self.batch is not None
        if self._keys is not None:
            return int(np.searchsorted(self._keys, bound, side="right"))
        low, high = 0, self.batch.num_rows
        while low < high:
            middle = (low + high) // 2
            if key_tuple(self.batch, middle, self._layout) <= bound:
                low = middle + 1
            else:
                high = middle
        return low


def merge_windows(
    runs: Sequence[Iterator[pa.RecordBatch]], layout: KeyValueLayout
) -> Iterator[MergeWindow]:
    """Merge sorted runs into windows in key order; no key is in two windows.

    Args:
        runs: batches in key order; a run may repeat a key (an unmerged write buffer does), but
            only inside one batch, never across two.
    """
    cursors = [_RunCursor(run, layout) for run in runs]
    while cursors := [cursor for cursor in cursors if cursor.batch is not None]:
        if len(cursors) == 1:
            batch = cursors[0].batch
            assert batch is not None
            cursors[0].advance()
            yield MergeWindow(batch, None)
            continue
        bound = min(cursor.last_key() for cursor in cursors)
        parts = [part for cursor in cursors if (part := cursor.take_up_to(bound)) is not None]
        if len(parts) == 1:
            yield MergeWindow(parts[0], None)
            continue
        batch = pa.concat_batches(parts)
        yield MergeWindow(batch, order_by_key(batch, layout))
