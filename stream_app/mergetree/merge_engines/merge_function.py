"""What a merge engine does: rows of one key → one row, for whole windows at a time.

Used at flush, in compaction and on read: the same function everywhere, or versions get lost.

Source: Paimon `mergetree/compact/MergeFunction.java`.
"""

from __future__ import annotations

from typing import Protocol

import pyarrow as pa

from stream_app.mergetree.key_value_batch import KeyValueLayout
from stream_app.mergetree.merge_window import MergeWindow


class MergeFunction(Protocol):
    """Merges all versions of each key of a window."""

    @property
    def merges_in_parts(self) -> bool:
        """Whether some rows of a key may be merged before the others, with the same result.

        Then a write buffer merges what it holds before it is full.
        """
        ...

    def merge(
        self, window: MergeWindow, layout: KeyValueLayout, *, also_alone: bool = False
    ) -> pa.RecordBatch:
        """One row a key, in key order, in the schema of the window's batch.

        Args:
            also_alone: a key's only row is merged as well, which may change it; else it stays.
        """
        ...
