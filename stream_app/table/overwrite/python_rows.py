"""Converts rows of a Python program to a table's columns, types and lengths.

Each value is stored exactly, or all rows are refused.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from stream_app.errors import UsageError
from stream_app.format.arrow_schema import arrow_schema
from stream_app.model.near_names import unknown_name
from stream_app.model.schema.data_type import DataField, TypeRoot
from stream_app.table.file_store_table import FileStoreTable
from stream_app.variants.json_texts import variant_texts
from stream_app.variants.variant_reader import MalformedVariantError

_CHARACTERS = (TypeRoot.CHAR, TypeRoot.VARCHAR)
_BINARY_ROOTS = (TypeRoot.BINARY, TypeRoot.VARBINARY)


def rows_of_table(
    table: FileStoreTable, rows: pa.Table, constants: Mapping[str, str]
) -> pa.RecordBatch:
    """Return the rows with the table's columns, in its order.

    Args:
        constants: column → value as text, for columns that the rows may lack.

    Raises:
        UsageError: a column is unknown or missing, or a value does not fit its type.
    """
    names = table.schema.fields.names
    for name in rows.column_names:
        if name not in names:
            raise UsageError(
                unknown_name("column", name, names),
                where=table.location,
                fix="omit the column, or add it to the table",
            )
    schema = arrow_schema(table.schema.fields)
    columns = [
        _field_column(table, field, rows, schema.field(field.name).type, constants)
        for field in table.schema.fields
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _field_column(
    table: FileStoreTable,
    field: DataField,
    rows: pa.Table,
    arrow_type: pa.DataType,
    constants: Mapping[str, str],
) -> pa.Array:
    """Return the field's column in its type: from the rows, a constant, or nulls."""
    try:
        if field.name in rows.column_names:
            values = rows.column(field.name)
        elif field.name in constants:
            values = pa.chunked_array([pa.repeat(constants[field.name], rows.num_rows)])
        else:
            values = pa.chunked_array([pa.nulls(rows.num_rows, arrow_type)])
        column = values.cast(arrow_type).combine_chunks()
        if _infinity_count(column) > _infinity_count(values):
            raise _misfit_error(table, field, "a number is out of the range of FLOAT")
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise _misfit_error(table, field, str(error)) from error
    if column.null_count and not field.data_type.nullable:
        raise _misfit_error(table, field, f"{column.null_count} values are missing")
    _check_lengths(table, field, column)
    return column


def _check_lengths(table: FileStoreTable, field: DataField, column: pa.Array) -> None:
    """Check that no value of the column is longer than its type allows."""
    root = field.data_type.root
    if root in _CHARACTERS:
        max_length = pc.max(pc.utf8_length(column)).as_py()
    elif root in _BINARY_ROOTS:
        max_length = pc.max(pc.binary_length(column)).as_py()
    elif root is TypeRoot.VECTOR:
        _check_vectors(table, field, column)
        return
    elif root is TypeRoot.VARIANT:
        _check_variants(table, field, column)
        return
    else:
        return
    if max_length is not None and max_length > field.data_type.length:
        raise _misfit_error(table, field, f"a value has a length of {max_length}")


def _check_vectors(table: FileStoreTable, field: DataField, column: pa.Array) -> None:
    bounds = pc.min_max(pc.list_value_length(column))
    for length in (bounds["min"].as_py(), bounds["max"].as_py()):
        if length not in (None, field.data_type.length):
            raise _misfit_error(table, field, f"a value has {length} elements")
    if column.flatten().null_count:
        raise _misfit_error(table, field, "an element of a vector is null")


def _check_variants(table: FileStoreTable, field: DataField, column: pa.Array) -> None:
    try:
        variant_texts(column)
    except MalformedVariantError as error:
        raise _misfit_error(table, field, str(error)) from error


def _infinity_count(values: pa.Array | pa.ChunkedArray) -> int:
    """Return the number of infinite values of a column, or of its lists."""
    arrow_type = values.type
    if pa.types.is_list(arrow_type) or pa.types.is_fixed_size_list(arrow_type):
        values = pc.list_flatten(values)
    return int(pc.sum(pc.is_inf(values)).as_py() or 0) if pa.types.is_floating(values.type) else 0


def _misfit_error(table: FileStoreTable, field: DataField, problem: str) -> UsageError:
    return UsageError(
        f"rows do not fit column {field.name!r} of type {field.data_type}: {problem}",
        where=table.location,
        fix="convert the values first, or widen the column",
    )
