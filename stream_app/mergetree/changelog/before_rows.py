"""The port: which rows of a compaction's window stood in the table before its changes.

Implemented by full_compaction_changelog, lookup_changelog and first_row_changelog.

Source: Paimon `mergetree/compact/ChangelogMergeTreeRewriter.java`.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from stream_app.mergetree.interval_partition import Section
from stream_app.mergetree.key_value_batch import Mask
from stream_app.mergetree.level_windows import LevelWindow
from stream_app.mergetree.merge_window import MergeWindow
from stream_app.model.data_file_meta import DataFileMeta


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
            a delete had none. None: there are none, and merged rows keep their kind.
        may_change: bool [keys]; the keys of `window`, in order, that have new rows.
        also_alone: a key's only row is merged as well; see `MergeFunction.merge`.
    """

    window: MergeWindow
    before: pa.RecordBatch | None
    may_change: Mask
    also_alone: bool = False


class BeforeRows(Protocol):
    """Knows the rows of a bucket as followers have seen them."""

    def tells(self, sections: Sequence[Section], output_level: int, /) -> bool:
        """Whether a rewrite of these sections writes a changelog."""
        ...

    def upgrade(self, file: DataFileMeta, output_level: int, /) -> Upgrade:
        """What becomes of a file that overlaps nothing and moves to `output_level`."""
        ...

    def before(self, given: LevelWindow) -> WindowBefore:
        """The rows before; windows come in key order."""
        ...


def leave_level_0(sections: Sequence[Section]) -> bool:
    """Whether a file of the sections is of level 0."""
    files = (file for section in sections for run in section for file in run.files)
    return any(file.level == 0 for file in files)
