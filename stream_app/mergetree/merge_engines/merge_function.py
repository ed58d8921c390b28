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

    def merge(self, window: MergeWindow, layout: KeyValueLayout) -> pa.RecordBatch:
        """One row a key, in key order, in the schema of the window's batch."""
        ...
