"""Rows of system tables as Arrow, by columns that are written as Paimon writes types."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from stream_app.format.arrow_schema import arrow_schema
from stream_app.model.schema.data_type import parse_columns

Row = tuple[object, ...]


def columns(text: str, *nested: pa.Field) -> pa.Schema:
    """The columns of ``name TYPE [NOT NULL], …``, and nested ones behind them."""
    return pa.schema(
        [*(field.remove_metadata() for field in arrow_schema(parse_columns(text))), *nested]
    )


def table_of(schema: pa.Schema, rows: Iterable[Row]) -> pa.Table:
    """The rows, with times as milliseconds."""
    found = list(zip(*rows, strict=True)) or [()] * len(schema)
    return pa.Table.from_arrays(
        [pa.array(list(column), field.type) for column, field in zip(found, schema, strict=True)],
        schema=schema,
    )
