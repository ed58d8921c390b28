"""Reads a data file's statistics from its manifest entry, for conditions on the current columns.

Source: Paimon `stats/SimpleStatsEvolution.java`, `operation/KeyValueFileStoreScan.java`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from stream_app.filestore.data.stats_filter import stats_by_name
from stream_app.format.binary_row import deserialize_row
from stream_app.format.column_stats import UNKNOWN_STATS, ColumnStats
from stream_app.model.files.data_file_meta import DataFileMeta, SimpleStats
from stream_app.model.schema.data_type import DataField, RowType, TypeRoot
from stream_app.model.schema.table_schema import TableSchema


@dataclass(frozen=True, slots=True)
class FileStats:
    """The statistics of a table's files.

    Attributes:
        columns: the requested columns of the current schema.
        schema_of: returns the schema with a given number.
    """

    columns: RowType
    schema_of: Callable[[int], TableSchema]

    def of_key_columns(self, file: DataFileMeta) -> dict[str, ColumnStats]:
        """Return statistics of the key columns, which include deletes and older versions."""
        schema = self.schema_of(file.schema_id)
        names = schema.trimmed_primary_keys
        key_stats = simple_stats(file.key_stats, schema.key_type)
        if names and key_stats[0].minimum is None:
            # The minimum and maximum key always exist, and are exact.
            types = schema.key_type.types
            low, high = (deserialize_row(key, types)[0] for key in (file.min_key, file.max_key))
            if low is not None:  # otherwise the column has nulls, which precede its values
                key_stats = [ColumnStats(low, high, 0), *key_stats[1:]]
        # A column that the file lacks is not a key column: another file may have its value.
        by_name = dict(zip(names, key_stats, strict=True))
        return self._stats_by_name(file, schema, by_name, missing_is_null=False)

    def of_all_columns(self, file: DataFileMeta) -> dict[str, ColumnStats]:
        """Return statistics of all columns, which include deletes and older versions."""
        schema = self.schema_of(file.schema_id)
        by_column = value_stats_by_name(file, schema)
        if file.write_cols is not None:
            # Another file may have the values of columns that such a file lacks.
            by_column = {
                name: stats for name, stats in by_column.items() if name in file.write_cols
            }
        values = self._stats_by_name(
            file, schema, by_column, missing_is_null=file.write_cols is None
        )
        return values | self.of_key_columns(file)

    def _stats_by_name(
        self,
        file: DataFileMeta,
        schema: TableSchema,
        by_column: dict[str, ColumnStats],
        *,
        missing_is_null: bool,
    ) -> dict[str, ColumnStats]:
        """Return column → statistics under the schema's names, for the columns that have any."""
        columns_by_id = {column.field_id: column for column in schema.fields}
        pairs: list[tuple[DataField, DataField | None]] = []
        column_stats: list[ColumnStats] = []
        for column in self.columns:
            stored_column = columns_by_id.get(column.field_id)
            if stored_column is None and missing_is_null:
                pairs.append((column, None))
            elif stored_column is not None and stored_column.name in by_column:
                stats = by_column[stored_column.name]
                # Java's bounds of CHAR in ORC have blanks that the values lack.
                if stored_column.data_type.root is TypeRoot.CHAR and file.file_name.endswith(
                    ".orc"
                ):
                    stats = ColumnStats(null_count=stats.null_count)
                pairs.append((column, stored_column))
                column_stats.append(stats)
        return stats_by_name(pairs, column_stats, file.row_count)


def value_stats_by_name(file: DataFileMeta, schema: TableSchema) -> dict[str, ColumnStats]:
    """Return the statistics in a file's entry, by the names of the file's schema.

    A file with only some columns has statistics of only these.
    """
    names = file.write_cols if file.value_stats_cols is None else file.value_stats_cols
    if names is None:
        names = tuple(schema.fields.names)
    elif not set(names) <= set(schema.fields.names):
        return {}  # one is a system column of the format, without a type in the table
    columns = schema.fields.project(names)
    return dict(zip(columns.names, simple_stats(file.value_stats, columns), strict=True))


def simple_stats(stats: SimpleStats, columns: RowType) -> list[ColumnStats]:
    """Return the statistics of columns, which are unknown if the writer recorded none.

    Raises:
        CorruptFileError: the statistics have another number of columns.
    """
    if not stats.null_counts:
        return [UNKNOWN_STATS] * len(columns)
    types = [data_type.as_nullable() for data_type in columns.types]
    minima = deserialize_row(stats.min_values, types)
    maxima = deserialize_row(stats.max_values, types)
    return [
        ColumnStats(minimum, maximum, null_count)
        for minimum, maximum, null_count in zip(minima, maxima, stats.null_counts, strict=True)
    ]
