"""What differs between two versions of a schema, in words."""

from __future__ import annotations

from collections.abc import Iterator

from stream_app.model.schema.data_type import DataField
from stream_app.model.schema.table_schema import TableSchema


def schema_differences(old: TableSchema, new: TableSchema) -> Iterator[str]:
    """A line for each column, option and comment that differs; columns are known by their ids."""
    before = {column.field_id: column for column in old.fields}
    after = {column.field_id: column for column in new.fields}
    for column in new.fields:
        if column.field_id not in before:
            yield f"column {column.name!r} {column.data_type} is added"
        else:
            yield from _column_differences(before[column.field_id], column)
    for column in old.fields:
        if column.field_id not in after:
            yield f"column {column.name!r} {column.data_type} is dropped"
    if [name for name in before if name in after] != [name for name in after if name in before]:
        yield f"the columns' order is {', '.join(new.fields.names)}"
    if len(new.primary_keys) < len(old.primary_keys):
        yield "the primary key is dropped"
    if old.comment != new.comment:
        yield f"the table's comment is {_text(new.comment)}"
    yield from _option_differences(old, new)


def _column_differences(old: DataField, new: DataField) -> Iterator[str]:
    if old.name != new.name:
        yield f"column {old.name!r} is renamed to {new.name!r}"
    if old.data_type != new.data_type:
        yield f"column {new.name!r} was {old.data_type} and is {new.data_type}"
    if old.description != new.description:
        yield f"the comment of column {new.name!r} is {_text(new.description)}"
    if old.default_value != new.default_value:
        yield f"the default of column {new.name!r} is {_text(new.default_value)}"


def _option_differences(old: TableSchema, new: TableSchema) -> Iterator[str]:
    for key in sorted(old.options.keys() | new.options.keys()):
        was, value = old.options.get(key), new.options.get(key)
        if was != value:
            yield f"option {key!r} was {_text(was)} and is {_text(value)}"


def _text(value: str | None) -> str:
    return "none" if value is None else repr(value)
