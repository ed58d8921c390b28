"""A column as a schema of Kafka Connect describes it, and as the source's table has it.

Debezium's envelopes and the schemas of a registry use it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from stream_app.cdc.source_types.connect import connect_type
from stream_app.cdc.source_types.remarks import column_remarks
from stream_app.model.source.mapping_options import MappingOption, MappingOptions
from stream_app.model.source.source_table import SourceColumn


@dataclass(frozen=True, slots=True)
class ConnectField:
    """A column as the schema describes it: literal type, semantic name, parameters.

    Attributes:
        optional: whether the column may be null.
        comment: the column's comment, if the connector has ``include.schema.comments``; else empty.
        has_default: whether the column has a DEFAULT that is not null.
    """

    literal: str
    semantic: str
    parameters: Mapping[str, str]
    optional: bool = True
    comment: str = ""
    has_default: bool = False


def source_column(
    name: str,
    field: ConnectField,
    options: MappingOptions,
    *,
    connector: str = "",
    loses_nulls: bool = False,
) -> SourceColumn:
    """Return a column of the source's table.

    Args:
        connector: the name of Debezium's connector; empty if unknown.
        loses_nulls: whether the converter may have replaced nulls by the column's DEFAULT.
    """
    stored_type = connect_type(field.literal, field.semantic, field.parameters, connector, options)
    is_nullable = field.optional or MappingOption.TO_NULLABLE in options
    return SourceColumn(
        name=name,
        data_type=stored_type.data_type if is_nullable else stored_type.data_type.not_null(),
        comment=field.comment or None,
        alternatives=stored_type.alternatives,
        has_default=field.has_default,
        remarks=column_remarks(
            stored_type,
            field.literal,
            field.semantic,
            field.parameters,
            may_lose_nulls=field.optional and field.has_default and loses_nulls,
        ),
    )


def connect_fields(schema: Any) -> Mapping[str, ConnectField]:
    """Return the columns of a Connect schema: those of `after`, or of the flat record."""
    for field in struct_fields(schema):
        if field.get("field") in ("after", "before") and field.get("type") == "struct":
            return connect_fields(field)
    return struct_columns(schema)


def struct_columns(schema: Any) -> Mapping[str, ConnectField]:
    """Return the fields of a struct, each as a column."""
    return {
        str(field.get("field")): ConnectField(
            str(field.get("type", "")),
            str(field.get("name", "")),
            _parameters(field),
            optional=field.get("optional") is not False,
            comment=str(field.get("doc") or ""),
            has_default=field.get("default") is not None,
        )
        for field in struct_fields(schema)
    }


def struct_fields(schema: Any) -> list[dict[str, Any]]:
    """Return the fields of a struct; empty for any other type."""
    fields = schema.get("fields") if isinstance(schema, dict) else None
    return (
        [field for field in fields if isinstance(field, dict)] if isinstance(fields, list) else []
    )


def _parameters(field: dict[str, Any]) -> Mapping[str, str]:
    parameters = field.get("parameters")
    return parameters if isinstance(parameters, dict) else {}
