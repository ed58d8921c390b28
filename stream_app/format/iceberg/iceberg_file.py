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
    null_counts, lower_bounds, upper_bounds = (
        dict[int, int](),
        dict[int, bytes](),
        dict[int, bytes](),
    )
    if len(stats.null_counts) == len(columns):
        types = tuple(data_type.as_nullable() for data_type in columns.types)
        lows, highs = (deserialize_row(row, types) for row in (stats.min_values, stats.max_values))
        for column, nulls, low, high in zip(columns, stats.null_counts, lows, highs, strict=True):
            if nulls is not None:
                null_counts[column.field_id] = nulls
            if not has_single_value(column.data_type) or _is_unknown(low) or _is_unknown(high):
                continue
            lower_bounds[column.field_id] = single_value(low, column.data_type)
            upper_bounds[column.field_id] = single_value(high, column.data_type)
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
