"""The port by which a reader skips parts of a data file.

A part is a row group, or rows that are in one page of each requested column.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, TypeAlias

import pyarrow as pa

from stream_app.arrow_buffers import Int64s
from stream_app.format.column_stats import ColumnStats
from stream_app.model.schema.data_type import DataType

JudgeOfValues: TypeAlias = Callable[[pa.RecordBatch], Int64s]
"""Returns the numbers of the rows that may be wanted, ascending, int64 [k], by columns as they are
in a file. A value that is not of the column's type raises a `CorruptFileError`."""


class PartStats(NamedTuple):
    """The facts about a part that are known without reading it.

    Attributes:
        columns: the statistics of `PartChoice.columns`.
    """

    row_count: int
    columns: Sequence[ColumnStats]


class PartChoice(Protocol):
    """A choice of the parts of a file to read."""

    @property
    def columns(self) -> Sequence[tuple[str, DataType]]:
        """The columns whose statistics the choice needs, with names and types in the file."""
        ...

    @property
    def judge(self) -> JudgeOfValues | None:
        """The function that selects rows by values of `columns`; None if values cannot decide."""
        ...

    def may_match(self, parts: Sequence[PartStats]) -> Sequence[bool]:
        """Return for each part whether a row may be wanted; False only if surely none is."""
        ...
