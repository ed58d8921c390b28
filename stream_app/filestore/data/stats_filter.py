"""Decides by statistics of columns whether any row may pass a condition.

The same test serves partitions, manifests, data files and row groups. It converts the statistics to
a condition that all rows fulfil, and Arrow's simplification detects a contradiction to the filter.
If a column has no statistics, a row may pass.

Source: Paimon `predicate/PredicateBuilder.java` tests statistics node by node; `pyarrow.dataset`
prunes row groups and partitions in the same way.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import reduce
from operator import and_

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.fs

from stream_app.format.arrow_schema import arrow_scalar, arrow_schema
from stream_app.format.column_stats import UNKNOWN_STATS, ColumnStats
from stream_app.model.schema.data_type import FLOAT_ROOTS, DataField, DataType, RowType, TypeRoot
from stream_app.model.schema.type_widening import keeps_values

_FORMAT = ds.ParquetFileFormat()
_NO_FILES = pyarrow.fs.LocalFileSystem()
_TRUE = pc.scalar(True)

RowStats = tuple[int, Mapping[str, ColumnStats]]
"""A number of rows, and statistics of their columns by name."""


@dataclass(frozen=True, slots=True)
class StatsFilter:
    """A condition that is compared with statistics.

    Attributes:
        columns: the table's columns that the condition reads.
    """

    expression: pc.Expression
    columns: RowType

    def may_match(self, candidates: Iterable[RowStats]) -> list[bool]:
        """Return for each candidate whether a row may pass; false only if surely none does."""
        # Arrow prunes a dataset's fragments by their guarantees, without opening files.
        fragments = [
            _FORMAT.make_fragment(
                str(index), _NO_FILES, partition_expression=self._guarantee(stats)
            )
            for index, stats in enumerate(candidates)
        ]
        if not fragments:
            return []
        dataset = ds.FileSystemDataset(fragments, arrow_schema(self.columns), _FORMAT, _NO_FILES)
        passing_paths = {
            fragment.path for fragment in dataset.get_fragments(filter=self.expression)
        }
        return [fragment.path in passing_paths for fragment in fragments]

    def _guarantee(self, stats: RowStats) -> pc.Expression:
        row_count, stats_by_name = stats
        guarantees = [
            guarantee
            for column in self.columns
            if column.name in stats_by_name
            and (guarantee := _guarantee_of(column, stats_by_name[column.name], row_count))
            is not None
        ]
        return reduce(and_, guarantees, _TRUE)


def _guarantee_of(column: DataField, stats: ColumnStats, row_count: int) -> pc.Expression | None:
    """Return a condition that all rows fulfil; None if the statistics imply none."""
    field = pc.field(column.name)
    if stats.null_count is not None and stats.null_count >= row_count:
        return field.is_null()
    bounds = _bounds(field, stats, column.data_type)
    if not bounds:
        return field.is_valid() if stats.null_count == 0 else None
    if stats.null_count != 0:
        # Combine nulls with each bound separately, because Arrow derives nothing from both bounds
        # together.
        bounds = [bound | field.is_null() for bound in bounds]
    return reduce(and_, bounds)


def _bounds(field: pc.Expression, stats: ColumnStats, data_type: DataType) -> list[pc.Expression]:
    # Parquet's bounds leave out NaN.
    if stats.minimum is None or stats.maximum is None or data_type.root in FLOAT_ROOTS:
        return []
    try:
        low, high = (arrow_scalar(value, data_type) for value in (stats.minimum, stats.maximum))
    except (pa.ArrowInvalid, OverflowError):  # the bound is a time outside of Arrow's range
        return []
    if low == high:
        return [field == pc.scalar(low)]
    return [field >= pc.scalar(low), field <= pc.scalar(high)]


def stats_by_name(
    columns: Iterable[tuple[DataField, DataField | None]],
    column_stats: Sequence[ColumnStats],
    row_count: int,
) -> dict[str, ColumnStats]:
    """Return statistics of a file's columns by current name, with current types.

    Args:
        columns: each wanted column with its column in the file; None if the file lacks it.
        column_stats: the statistics of the file's columns, in order.
    """
    remaining_stats = iter(column_stats)
    return {
        column.name: ColumnStats(null_count=row_count)
        if stored_column is None
        else _with_current_type(next(remaining_stats), stored_column.data_type, column.data_type)
        for column, stored_column in columns
    }


def _with_current_type(
    stats: ColumnStats, stored_type: DataType, current_type: DataType
) -> ColumnStats:
    if not keeps_values(stored_type, current_type):
        return UNKNOWN_STATS
    if current_type.root is not TypeRoot.DECIMAL:
        return stats
    low, high = (
        Decimal(value) if isinstance(value, int) else value
        for value in (stats.minimum, stats.maximum)
    )
    return ColumnStats(low, high, stats.null_count)
