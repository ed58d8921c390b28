"""The port: which rows of a compaction's window stood in the table before its changes.

Implemented by full_compaction_changelog and lookup_changelog.

Source: Paimon `mergetree/compact/ChangelogMergeTreeRewriter.java`.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stream_app.mergetree.interval_partition import Section
from stream_app.mergetree.key_value_batch import Indices, KeyValueLayout, Mask
from stream_app.mergetree.merge_window import MergeWindow
from stream_app.model.data_file_meta import DataFileMeta

LevelNumbers = npt.NDArray[np.int64]
"""For each row of a window, in order, the level of its file: int64 [m]."""


class Upgrade(enum.Enum):
    """What becomes of a file that overlaps nothing."""

    MOVE = "it moves by metadata alone"
    TELL = "it moves, and its rows go to the changelog"
    REWRITE = "it is rewritten, and its changes go to the changelog"


@dataclass(frozen=True, slots=True)
class WindowBefore:
    """What a window changes.

    Attributes:
        window: the rows that are merged.
        before: key-value rows, at most one a key, of the keys that may change. A key whose row is
            a delete had none.
        may_change: bool [keys]; the keys of the window, in order, that have new rows.
    """

    window: MergeWindow
    before: pa.RecordBatch
    may_change: Mask


class BeforeRows(Protocol):
    """Knows the rows of a bucket as followers have seen them."""

    def tells(self, sections: Sequence[Section], output_level: int, /) -> bool:
        """Whether a rewrite of these sections writes a changelog."""
        ...

    def upgrade(self, file: DataFileMeta, output_level: int, /) -> Upgrade:
        """What becomes of a file that overlaps nothing and moves to `output_level`."""
        ...

    def before(self, window: MergeWindow, levels: LevelNumbers) -> WindowBefore:
        """The rows before; windows come in key order."""
        ...


@dataclass(frozen=True, slots=True)
class Segments:
    """The keys of a window.

    Attributes:
        order: int64 [m], the window's order.
        starts: int64 [keys], where each key's rows begin in the order.
    """

    order: Indices
    starts: Indices

    def any(self, rows: Mask) -> Mask:
        """For each key, whether one of its rows is chosen: bool [keys]."""
        found: Mask = np.logical_or.reduceat(rows, self.starts)
        return found

    def least(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """For each key, the least value of its rows: [keys]."""
        found: npt.NDArray[Any] = np.minimum.reduceat(values, self.starts)
        return found


def segments(window: MergeWindow, layout: KeyValueLayout) -> Segments:
    """The keys of a window that has rows."""
    order = window.order
    if order is None:
        order = np.arange(window.batch.num_rows, dtype=np.int64)
    return Segments(order, window.key_starts(layout))
