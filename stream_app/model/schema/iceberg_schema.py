"""Converts a table's schema to Iceberg's, and reports what Iceberg cannot represent.

Source: Iceberg's table specification, "Schemas"; Paimon `iceberg/metadata/IcebergDataField.java`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from stream_app.model.options.core_options import CoreOptions
from stream_app.model.options.file_options import (
    DELETION_VECTORS_BITMAP64,
    FILE_FORMAT,
    FILE_FORMAT_PER_LEVEL,
)
from stream_app.model.options.iceberg_options import (
    DISABLED,
    METADATA_ICEBERG_FORMAT_VERSION,
    METADATA_ICEBERG_STORAGE,
)
from stream_app.model.schema.data_type import (
    TIMESTAMP_ROOTS,
    DataField,
    DataType,
    RowType,
    TypeRoot,
)
from stream_app.model.schema.type_members import inner_field_id

_NAMES = {
    TypeRoot.BOOLEAN: "boolean",
    TypeRoot.TINYINT: "int",
    TypeRoot.SMALLINT: "int",
    TypeRoot.INT: "int",
    TypeRoot.BIGINT: "long",
    TypeRoot.FLOAT: "float",
    TypeRoot.DOUBLE: "double",
    TypeRoot.DATE: "date",
    TypeRoot.CHAR: "string",
    TypeRoot.VARCHAR: "string",
    TypeRoot.BINARY: "binary",
    TypeRoot.VARBINARY: "binary",
    TypeRoot.TIMESTAMP: "timestamp",
    TypeRoot.TIMESTAMP_LTZ: "timestamptz",
}
_WIDER = (("int", "long"), ("float", "double"))
_VECTORS_VERSION = _NANOS_VERSION = 3
MICROS_PRECISION_MAX = 6
"""The maximum precision of timestamps that Parquet and Iceberg store in microseconds.

They store finer ones in nanoseconds.
"""


def iceberg_schema(
    schema_id: int, columns: RowType, primary_keys: Collection[str]
) -> dict[str, Any]:
    """Return a schema as Iceberg's JSON, in which the primary key identifies a row."""
    return {
        "type": "struct",
        "schema-id": schema_id,
        "identifier-field-ids": _identifier_field_ids(columns, primary_keys),
        "fields": [_iceberg_field(column) for column in columns],
    }


def _identifier_field_ids(columns: RowType, primary_keys: Collection[str]) -> list[int]:
    """Return the key columns; none if one is nullable, which Iceberg's identifiers cannot be."""
    keys = [column for column in columns if column.name in primary_keys]
    if any(column.data_type.nullable for column in keys):
        return []
    return [column.field_id for column in keys]


def _iceberg_field(column: DataField) -> dict[str, Any]:
    doc = {} if column.description is None else {"doc": column.description}
    return {
        "id": column.field_id,
        "name": column.name,
        "required": not column.data_type.nullable,
        "type": iceberg_type(column.data_type, column.field_id),
        **doc,
    }


def iceberg_type(data_type: DataType, field_id: int, depth: int = 0) -> str | dict[str, Any]:
    """Return a type as Iceberg's JSON.

    Args:
        field_id: the id of the column, or of the enclosing ROW's field.
        depth: the number of ARRAYs and MAPs that enclose the type.
    """
    match data_type.root:
        case TypeRoot.DECIMAL:
            return f"decimal({data_type.precision}, {data_type.scale})"
        case TypeRoot.ARRAY | TypeRoot.VECTOR:
            return {"type": "list", **_inner("element", data_type.element, field_id, depth + 1)}
        case TypeRoot.MAP:
            key = _inner("key", data_type.key, field_id, -depth - 1)
            del key["key-required"]
            return {
                "type": "map",
                **key,
                **_inner("value", data_type.element, field_id, depth + 1),
            }
        case TypeRoot.ROW:
            return {
                "type": "struct",
                "fields": [_iceberg_field(member) for member in data_type.fields],
            }
        case root:
            nanos = "_ns" if _has_nanos(data_type) else ""
            return _NAMES[root] + nanos


def _inner(name: str, data_type: DataType | None, field_id: int, depth: int) -> dict[str, Any]:
    assert data_type is not None
    return {
        f"{name}-id": inner_field_id(field_id, depth),
        name: iceberg_type(data_type, field_id, abs(depth)),
        f"{name}-required": not data_type.nullable,
    }


def iceberg_problems(
    columns: RowType, primary_keys: Collection[str], options: Mapping[str, str]
) -> Iterator[str]:
    """Yield texts about parts of a table that Iceberg's readers would see wrongly."""
    core = CoreOptions(options)
    if core[METADATA_ICEBERG_STORAGE] == DISABLED:
        return
    version = core[METADATA_ICEBERG_FORMAT_VERSION]
    knows_vectors = version >= _VECTORS_VERSION and core[DELETION_VECTORS_BITMAP64]
    if core.merges_by_vectors and not primary_keys and not knows_vectors:
        yield (
            "Iceberg's readers would see deleted rows: set "
            f"{METADATA_ICEBERG_FORMAT_VERSION.key} = {_VECTORS_VERSION} and "
            f"{DELETION_VECTORS_BITMAP64.key} = true"
        )
    formats = {core[FILE_FORMAT], *core[FILE_FORMAT_PER_LEVEL].values()} - {FILE_FORMAT.default}
    if formats:
        yield f"Iceberg's readers get Parquet files alone, and not {', '.join(sorted(formats))}"
    for column in columns:
        if column.data_type.root is TypeRoot.VARIANT:
            yield (
                f"column {column.name!r} is VARIANT, which Paimon's files do not mark as one: "
                "leave the column out, store it as STRING, or set "
                f"{METADATA_ICEBERG_STORAGE.key} = {DISABLED}"
            )
        for scalar in column.data_type.scalars():
            if scalar.root is TypeRoot.TIME:
                yield (
                    f"column {column.name!r} is {scalar}: Iceberg's readers expect microseconds, "
                    "Paimon's files have milliseconds; leave the column out, store it as INT or "
                    f"STRING, or set {METADATA_ICEBERG_STORAGE.key} = {DISABLED}"
                )
            elif version < _NANOS_VERSION and _has_nanos(scalar):
                yield (
                    f"column {column.name!r} is {scalar}: set "
                    f"{METADATA_ICEBERG_FORMAT_VERSION.key} = {_NANOS_VERSION}, which has "
                    f"nanoseconds, or store {MICROS_PRECISION_MAX} digits"
                )


def iceberg_change_problem(
    old_type: DataType, new_type: DataType, options: Mapping[str, str]
) -> str | None:
    """Return why Iceberg's readers could not read older files after a type change; else None."""
    if CoreOptions(options)[METADATA_ICEBERG_STORAGE] == DISABLED:
        return None
    names = iceberg_type(old_type, 0), iceberg_type(new_type, 0)
    if names[0] == names[1] or names in _WIDER or _is_wider_decimal(old_type, new_type):
        return None
    return f"Iceberg's readers do not read {names[0]} as {names[1]}"


def _is_wider_decimal(old_type: DataType, new_type: DataType) -> bool:
    are_decimals = old_type.root is new_type.root is TypeRoot.DECIMAL
    return (
        are_decimals
        and old_type.scale == new_type.scale
        and old_type.precision <= new_type.precision
    )


def _has_nanos(data_type: DataType) -> bool:
    return data_type.root in TIMESTAMP_ROOTS and data_type.precision > MICROS_PRECISION_MAX
