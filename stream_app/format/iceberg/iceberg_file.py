"""Describes Paimon's data file as an Iceberg data file with bounds.

Source: Paimon `iceberg/manifest/IcebergDataFileMeta.java#create`.
"""

from __future__ import annotations

import math

from stream_app.format.binary_row import deserialize_row
from stream_app.format.iceberg.single_values import has_single_value, single_value
from stream_app.model.files.manifest_entry import ManifestEntry
from stream_app.model.iceberg_metadata import IcebergFile
from stream_app.model.schema.table_schema import TableSchema


def iceberg_file(
    entry: ManifestEntry, path: str, schema: TableSchema, first_row_id: int | None
) -> IcebergFile:
    """Return the Iceberg data file of a manifest entry.

    Args:
        schema: the schema of the file, which defines the types of the bounds.
    """
    file, stats = entry.file, entry.file.value_stats
    names = schema.fields.names if file.value_stats_cols is None else file.value_stats_cols
    columns = schema.fields.project(names)
    null_counts: dict[int, int] = {}
    lower_bounds: dict[int, bytes] = {}
    upper_bounds: dict[int, bytes] = {}
    if len(stats.null_counts) == len(columns):
        types = tuple(data_type.as_nullable() for data_type in columns.types)
        minima = deserialize_row(stats.min_values, types)
        maxima = deserialize_row(stats.max_values, types)
        for column, null_count, *bounds in zip(
            columns, stats.null_counts, minima, maxima, strict=True
        ):
            if null_count is not None:
                null_counts[column.field_id] = null_count
            if has_single_value(column.data_type) and not any(map(_is_unknown, bounds)):
                minimum, maximum = (single_value(bound, column.data_type) for bound in bounds)
                lower_bounds[column.field_id] = minimum
                upper_bounds[column.field_id] = maximum
    return IcebergFile(
        path=path,
        size=file.file_size,
        partition=deserialize_row(entry.partition, schema.partition_type.types),
        row_count=file.row_count,
        null_counts=null_counts,
        lower_bounds=lower_bounds,
        upper_bounds=upper_bounds,
        first_row_id=first_row_id,
    )


def _is_unknown(bound: object) -> bool:
    return bound is None or (isinstance(bound, float) and math.isnan(bound))
