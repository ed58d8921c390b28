"""Converts nested Arrow arrays to other types and buffers with the same values.

The field values of a null ROW have no meaning. Arrow's casts and its Parquet writer (26.0) refuse
nulls there if a field is NOT NULL, but its ORC writer needs nulls there.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc


def cast_with_members(values: pa.Array, data_type: pa.DataType) -> pa.Array:
    """Convert values to a type, whose members may be NOT NULL.

    Raises:
        pa.ArrowInvalid: a value does not fit.
    """
    if not pa.types.is_nested(data_type):
        return values.cast(data_type)
    nullable = values.cast(_with_nulls(data_type))
    return _without_hidden_nulls(nullable, pa.field("", data_type), _false_mask(nullable))


def without_hidden_nulls(rows: pa.Table) -> pa.Table:
    """Return the rows without nulls in NOT NULL members of null ROWs and VARIANTs.

    Raises:
        pa.ArrowInvalid: another NOT NULL member is null.
    """
    for index, column in enumerate(rows.columns):
        if pa.types.is_nested(column.type) and column.null_count:
            chunks = [cast_with_members(chunk, column.type) for chunk in column.chunks]
            new_column = pa.chunked_array(chunks, column.type)
            rows = rows.set_column(index, rows.schema.field(index), new_column)
    return rows


def with_hidden_nulls(values: pa.Array) -> pa.Array:
    """Return the values without an offset, and with null fields in null ROWs."""
    data_type, is_null = values.type, values.is_null()
    if pa.types.is_struct(data_type):
        columns = list(map(with_hidden_nulls, values.flatten()))
        return pa.StructArray.from_arrays(columns, fields=list(data_type), mask=is_null)
    if not pa.types.is_nested(data_type):
        return pa.concat_arrays([values, values.slice(0, 0)]) if values.offset else values
    members = map(with_hidden_nulls, _members(values))
    return _with_members(values, data_type, *members, null_mask=is_null)


def _without_hidden_nulls(
    values: pa.Array, field: pa.Field, is_hidden: pa.BooleanArray
) -> pa.Array:
    """Return the values without nulls in NOT NULL fields below a null ROW.

    Args:
        field: the wanted field, whose type may differ by NOT NULL only.
        is_hidden: bool [n]; whether a value is below a null ROW.
    """
    data_type = field.type
    is_null = values.is_null()
    null_mask = is_null if field.nullable else None
    if null_mask is None and pc.any(pc.and_not(is_null, is_hidden)).as_py():
        raise pa.ArrowInvalid(f"{field.name!r} is NOT NULL, and has a null")
    if pa.types.is_struct(data_type):
        is_below_null = pc.or_(is_hidden, is_null)
        columns = [
            _without_hidden_nulls(values.field(index), member_field, is_below_null)
            for index, member_field in enumerate(data_type)
        ]
        return pa.StructArray.from_arrays(columns, fields=list(data_type), mask=null_mask)
    if pa.types.is_nested(data_type):
        members = [
            _without_hidden_nulls(member, member_field, _false_mask(member))
            for member, member_field in zip(
                _members(values), _member_fields(data_type), strict=True
            )
        ]
        return _with_members(values, data_type, *members, null_mask=null_mask)
    if null_mask is None and values.null_count:
        buffers = [None, *values.buffers()[1:]]
        return pa.Array.from_buffers(data_type, len(values), buffers, 0, values.offset)
    return values


def _false_mask(values: pa.Array) -> pa.BooleanArray:
    return pa.repeat(pa.scalar(False), len(values))


def _members(values: pa.Array) -> list[pa.Array]:
    """Return the keys and values of a MAP, or the elements of an ARRAY."""
    return [values.keys, values.items] if pa.types.is_map(values.type) else [values.values]


def _member_fields(data_type: pa.DataType) -> list[pa.Field]:
    if pa.types.is_map(data_type):
        return [data_type.key_field, data_type.item_field]
    return [data_type.value_field]


def _with_members(
    values: pa.Array, data_type: pa.DataType, *members: pa.Array, null_mask: pa.BooleanArray | None
) -> pa.Array:
    """Return maps or arrays with the lengths of `values` and other members."""
    array_class = pa.MapArray if pa.types.is_map(data_type) else pa.ListArray
    offsets = pc.add(values.offsets, 0)  # a copy without an offset, which a mask requires
    return array_class.from_arrays(offsets, *members, type=data_type, mask=null_mask)


def _with_nulls(data_type: pa.DataType) -> pa.DataType:
    """Return the type with nullable members."""
    if pa.types.is_struct(data_type):
        return pa.struct([pa.field(field.name, _with_nulls(field.type)) for field in data_type])
    if pa.types.is_map(data_type):
        return pa.map_(_with_nulls(data_type.key_type), _with_nulls(data_type.item_type))
    if pa.types.is_list(data_type):
        return pa.list_(_with_nulls(data_type.value_type))
    return data_type
