"""The port by which a reader leaves out parts of a data file.

A part is a row group, or rows that lie in one page of each column that is asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import pyarrow as pa

from stream_app.format.column_stats import ColumnStats
from stream_app.format.parquet.row_ranges import Places
from stream_app.model.schema.data_type import DataType


class PartStats(NamedTuple):
    """What is known of a part without reading it.

    Attributes:
        columns: statistics of `PartChoice.columns`.
    """

    row_count: int
    columns: Sequence[ColumnStats]


class PartChoice(Protocol):
    """Chooses the parts of a file that are read."""

    @property
    def columns(self) -> Sequence[tuple[str, DataType]]:
        """The columns whose statistics it needs, by their names and types in the file."""
        ...

    @property
    def judges_values(self) -> bool:
        """Whether the values of `columns` tell which rows are wanted."""
        ...

    def passing(self, parts: Sequence[PartStats]) -> Sequence[bool]:
        """Whether a row of each part may be wanted; false only if surely none is."""
        ...

    def rows(self, values: pa.RecordBatch) -> Places:
        """The places of the rows that may be wanted, ascending, int64 [k]; only if it `judges_values`.

        Args:
            values: `columns` as they are in the file.

        Raises:
            CorruptFileError: a value is not of the column's type.
        """
        ...
