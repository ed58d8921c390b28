"""Chooses the parts of a data file that must be read: row groups, and pages within them.

`data_file_reader` calls it with the columns of each file, and the file's format queries it for each
part.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
import pyarrow as pa

from stream_app.arrow_buffers import Int64s
from stream_app.filestore.data.stats_filter import StatsFilter, stats_by_name
from stream_app.format.arrow_schema import stored_fields
from stream_app.format.binary_row import is_null
from stream_app.format.column_stats import ColumnStats
from stream_app.format.data_files.file_batches import conformed_batch
from stream_app.format.file_parts import JudgeOfValues, PartChoice, PartStats
from stream_app.model.schema.data_type import DataField, DataType

_POSITION = "\0position"
"""The name of the column with rows' positions, which no column of a table has."""
ColumnPairs: TypeAlias = Iterable[tuple[DataField, DataField | None]]
"""The columns to read, and their counterparts in the file."""


class PartFilter(Protocol):
    """A filter that chooses the parts of any file of a table."""

    def of_file(self, columns: ColumnPairs) -> PartChoice | None:
        """Return the choice of parts for a file with these columns; None to read all parts."""
        ...


@dataclass(frozen=True, slots=True)
class ConditionPartFilter:
    """A filter by a condition on rows, and by the columns whose statistics may be used.

    Attributes:
        names: all columns of the condition. In a merging read only key columns, because skipping a
            version would restore an older one.
    """

    stats_filter: StatsFilter
    names: frozenset[str]

    def of_file(self, columns: ColumnPairs) -> PartChoice | None:
        """See `PartFilter.of_file`."""
        pairs = [
            (column, stored_column)
            for column, stored_column in columns
            if column.name in self.names
        ]
        return _PassingPartChoice(self.stats_filter, pairs) if pairs else None


@dataclass(frozen=True, slots=True)
class _PassingPartChoice:
    """The choice of the parts of one file in which a row may pass. Implements `PartChoice`."""

    stats_filter: StatsFilter
    pairs: Sequence[tuple[DataField, DataField | None]]

    @property
    def columns(self) -> list[tuple[str, DataType]]:
        return [
            (stored_column.name, stored_column.data_type)
            for _, stored_column in self.pairs
            if stored_column is not None
        ]

    @property
    def judge(self) -> JudgeOfValues | None:
        have_current_types = all(
            stored_column is not None
            and stored_column.data_type.as_nullable() == column.data_type.as_nullable()
            for column, stored_column in self.pairs
        )
        names = {column.name for column, _ in self.pairs}
        return (
            self._passing_indices
            if have_current_types and names == set(self.stats_filter.columns.names)
            else None
        )

    def may_match(self, parts: Sequence[PartStats]) -> list[bool]:
        return self.stats_filter.may_match(
            (part.row_count, stats_by_name(self.pairs, part.columns, part.row_count))
            for part in parts
        )

    def _passing_indices(self, values: pa.RecordBatch) -> Int64s:
        fields = stored_fields(column for column, _ in self.pairs)
        names = [name for name, _ in self.columns]
        named_fields = [field.with_name(name) for field, name in zip(fields, names, strict=True)]
        columns = conformed_batch(values, pa.schema(named_fields)).columns
        numbered_rows = pa.table(
            [*columns, pa.array(np.arange(values.num_rows))],
            names=[*(field.name for field in fields), _POSITION],
        )
        passing_indices: Int64s = (
            numbered_rows.filter(self.stats_filter.expression).column(_POSITION).to_numpy()
        )
        return passing_indices


@dataclass(frozen=True, slots=True)
class KeyPartFilter:
    """A filter that chooses the parts of a sorted file that may have one of the given keys.

    It uses only the first key column, whose values ascend from part to part.

    Attributes:
        first_key_column: the name of that column.
        keys: the keys in ascending order, as results of `format.binary_row.key_order`.
    """

    first_key_column: str
    keys: Sequence[Any]

    def of_file(self, columns: ColumnPairs) -> PartChoice | None:
        """See `PartFilter.of_file`."""
        for column, stored_column in columns:
            if (
                column.name == self.first_key_column
                and stored_column is not None
                and stored_column.data_type == column.data_type
            ):
                return _KeyPartChoice((stored_column.name, stored_column.data_type), self.keys)
        return None


@dataclass(frozen=True, slots=True)
class _KeyPartChoice:
    """The choice of the parts of one file that may have a key. Implements `PartChoice`.

    It includes parts with unknown bounds.
    """

    column: tuple[str, DataType]
    keys: Sequence[Any]

    @property
    def columns(self) -> list[tuple[str, DataType]]:
        return [self.column]

    @property
    def judge(self) -> None:
        return None

    def may_match(self, parts: Sequence[PartStats]) -> list[bool]:
        return [self._may_be_in(stats) for _, (stats,) in parts]

    def _may_be_in(self, stats: ColumnStats) -> bool:
        if stats.null_count != 0 and self.keys and is_null(self.keys[0][0]):
            return True  # bounds do not cover nulls
        low, high = (
            bound.encode() if isinstance(bound, str) else bound
            for bound in (stats.minimum, stats.maximum)
        )
        if low is None or high is None:
            return True
        first_index = bisect_left(self.keys, (low,))
        return first_index < len(self.keys) and bool(self.keys[first_index][0] <= high)
