"""The schemas that a table has had."""

from __future__ import annotations

from dataclasses import dataclass

from stream_app.app.output.listing import time_text
from stream_app.model.schema.table_schema import TableSchema
from stream_app.table.file_store_table import FileStoreTable


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaRow:
    """One schema; columns as in a definition, keys with commas between."""

    schema: int
    time: str | None
    primary_keys: str
    partition_keys: str
    columns: str
    options: str
    comment: str | None


def schema_rows(table: FileStoreTable) -> list[SchemaRow]:
    """All schemas, oldest first."""
    return [_row(table.schemas.schema(number)) for number in table.schemas.ids()]


def columns_text(schema: TableSchema) -> str:
    """``id BIGINT NOT NULL, customer STRING``."""
    return ", ".join(f"{field.name} {field.data_type}" for field in schema.fields)


def _row(schema: TableSchema) -> SchemaRow:
    return SchemaRow(
        schema=schema.schema_id,
        time=time_text(schema.time_millis),
        primary_keys=", ".join(schema.primary_keys),
        partition_keys=", ".join(schema.partition_keys),
        columns=columns_text(schema),
        options=", ".join(f"{key}={value}" for key, value in sorted(schema.options.items())),
        comment=schema.comment,
    )
