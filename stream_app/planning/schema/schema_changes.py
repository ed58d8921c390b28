"""Defines the changes between two schemas, and describes their differences.

Source: Paimon `schema/SchemaChange.java`.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass

from stream_app.model.schema.data_type import DataField, DataType
from stream_app.model.schema.table_schema import TableSchema


class MoveType(enum.Enum):
    """The kinds of positions for a column, by Paimon's names."""

    FIRST = "first"
    LAST = "last"
    BEFORE = "before"
    AFTER = "after"


@dataclass(frozen=True, slots=True)
class ColumnPosition:
    """A column's new place among the columns; with BEFORE and AFTER, beside its `neighbour`."""

    move_type: MoveType
    neighbour: str = ""


@dataclass(frozen=True, slots=True)
class SetOption:
    """A new value of an option."""

    key: str
    value: str


@dataclass(frozen=True, slots=True)
class UnsetOption:
    """The reset of an option to its default."""

    key: str


@dataclass(frozen=True, slots=True)
class SetTableComment:
    """The comment of the table; None: no comment."""

    comment: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AddColumn:
    """A new column, which is null in all existing rows."""

    name: str
    data_type: DataType
    comment: str | None = None
    position: ColumnPosition | None = None


@dataclass(frozen=True, slots=True)
class RenameColumn:
    """The new name of a column, whose values stay."""

    name: str
    new_name: str


@dataclass(frozen=True, slots=True)
class DropColumn:
    """The removal of a column. A later column of the same name does not get its values."""

    name: str


@dataclass(frozen=True, slots=True)
class ChangeType:
    """The new type of a column, whose nullability stays."""

    name: str
    data_type: DataType


@dataclass(frozen=True, slots=True)
class ChangeNullability:
    """The new nullability of a column."""

    name: str
    nullable: bool


@dataclass(frozen=True, slots=True)
class SetColumnComment:
    """The comment of a column; None: no comment."""

    name: str
    comment: str | None


@dataclass(frozen=True, slots=True)
class SetColumnDefault:
    """The default value of a column, as text; None: no default."""

    name: str
    value: str | None


@dataclass(frozen=True, slots=True)
class MoveColumn:
    """The new place of a column among the others."""

    name: str
    position: ColumnPosition


@dataclass(frozen=True, slots=True)
class DropPrimaryKey:
    """The removal of the primary key of an empty table."""


FieldChange = (
    AddColumn
    | RenameColumn
    | DropColumn
    | ChangeType
    | ChangeNullability
    | SetColumnComment
    | SetColumnDefault
    | MoveColumn
)
"""A change of a column, or inside of one: then its name is a path, as ``items.element.price``."""
SchemaChange = SetOption | UnsetOption | SetTableComment | FieldChange | DropPrimaryKey


def schema_differences(old_schema: TableSchema, new_schema: TableSchema) -> Iterator[str]:
    """Yield a line for each differing column, option and comment; ids identify columns."""
    old_columns = {column.field_id: column for column in old_schema.fields}
    new_columns = {column.field_id: column for column in new_schema.fields}
    for column in new_schema.fields:
        if column.field_id not in old_columns:
            yield f"column {column.name!r} {column.data_type} is added"
        else:
            yield from _column_differences(old_columns[column.field_id], column)
    for column in old_schema.fields:
        if column.field_id not in new_columns:
            yield f"column {column.name!r} {column.data_type} is dropped"
    if [name for name in old_columns if name in new_columns] != [
        name for name in new_columns if name in old_columns
    ]:
        yield f"the columns' order is {', '.join(new_schema.fields.names)}"
    if len(new_schema.primary_keys) < len(old_schema.primary_keys):
        yield "the primary key is dropped"
    if old_schema.comment != new_schema.comment:
        yield f"the table's comment is {_quoted(new_schema.comment)}"
    yield from _option_differences(old_schema, new_schema)


def _column_differences(old_field: DataField, new_field: DataField) -> Iterator[str]:
    if old_field.name != new_field.name:
        yield f"column {old_field.name!r} is renamed to {new_field.name!r}"
    if old_field.data_type != new_field.data_type:
        yield f"column {new_field.name!r} was {old_field.data_type} and is {new_field.data_type}"
    if old_field.description != new_field.description:
        yield f"the comment of column {new_field.name!r} is {_quoted(new_field.description)}"
    if old_field.default_value != new_field.default_value:
        yield f"the default of column {new_field.name!r} is {_quoted(new_field.default_value)}"


def _option_differences(old_schema: TableSchema, new_schema: TableSchema) -> Iterator[str]:
    for key in sorted(old_schema.options.keys() | new_schema.options.keys()):
        old_value, new_value = old_schema.options.get(key), new_schema.options.get(key)
        if old_value != new_value:
            yield f"option {key!r} was {_quoted(old_value)} and is {_quoted(new_value)}"


def _quoted(value: str | None) -> str:
    return "none" if value is None else repr(value)
