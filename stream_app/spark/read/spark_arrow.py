"""Converts Arrow columns to those that Spark accepts from a source in Python.

Spark's reader of Arrow knows one unit of time. Types are those of Paimon's own Spark connector. A
TIME is an INT of milliseconds, a TIMESTAMP is TIMESTAMP_NTZ, and one with local time zone is
TIMESTAMP. Both timestamps are floored to microseconds.

Source: Paimon `SparkTypeUtils.java`, `data/Timestamp.java#toMicros`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType


def spark_schema(schema: pa.Schema, comments: Mapping[str, str] | None = None) -> StructType:
    """Return the columns as a schema of Spark.

    Args:
        comments: the comments of columns, by name.
    """
    as_spark = pa.schema([field.with_type(_spark_type(field.type)) for field in schema])
    columns = from_arrow_schema(as_spark, prefer_timestamp_ntz=True)
    for field in columns:
        if comment := (comments or {}).get(field.name):
            field.metadata = {"comment": comment}
    return columns


def spark_batch(batch: pa.RecordBatch, columns: list[str]) -> pa.RecordBatch:
    """Return the named columns, in the order of the names, in the form that Spark accepts."""
    selected_batch = batch.select(columns)
    return pa.RecordBatch.from_arrays(
        [_spark_column(column) for column in selected_batch.columns], columns
    )


def _spark_column(column: pa.Array) -> pa.Array:
    target_type = _spark_type(column.type)
    if target_type == column.type:
        return column
    if pa.types.is_timestamp(column.type) and column.type.unit == "ns":
        # A cast would round towards 1970.
        column = pc.floor_temporal(column, unit="microsecond")
    return column.cast(target_type)


def _spark_type(arrow_type: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(arrow_type):
        return pa.timestamp("us", arrow_type.tz)
    if pa.types.is_time(arrow_type):
        return pa.int32()
    if pa.types.is_duration(arrow_type):
        return pa.duration("us")
    if pa.types.is_list(arrow_type):
        return pa.list_(_with_spark_type(arrow_type.value_field))
    if pa.types.is_map(arrow_type):
        return pa.map_(arrow_type.key_type, _with_spark_type(arrow_type.item_field))
    if pa.types.is_struct(arrow_type):
        return pa.struct([_with_spark_type(field) for field in arrow_type])
    return arrow_type


def _with_spark_type(field: Any) -> Any:
    return field.with_type(_spark_type(field.type))
