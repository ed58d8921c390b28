"""Reassembles VARIANTs whose members are in typed columns of a file.

A value is in ``typed_value`` if it has that column's type, and otherwise in ``value``. An object
may be in both, with further members in ``value``. A member that is in neither is missing. Paimon
writes such files with ``variant.shreddingSchema`` or ``variant.inferShreddingSchema``.

Source: Parquet's `VariantShredding.md`; Paimon `data/variant/ShreddingUtils.java`.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from stream_app.variants import layout, scalars
from stream_app.variants.containers import DuplicateNameError, NameNumbers, array_of, object_of
from stream_app.variants.variant_reader import MalformedVariantError, Variant


def whole_variants(column: pa.Array) -> pa.Array:
    """Return the values of a file's shredded column as `VARIANT_TYPE`.

    Raises:
        MalformedVariantError: the parts of a value contradict each other.
        pa.ArrowNotImplementedError: a typed column has a type that VARIANT lacks.
    """
    arrow_type = column.type
    rows = _with_numbers(column).to_pylist()
    values: list[bytes | None] = []
    metadata: list[bytes | None] = []
    for row in rows:
        if row is None:
            values.append(None)
            metadata.append(None)
            continue
        names = NameNumbers()
        try:
            values.append(_reassemble(row, arrow_type, row[layout.METADATA] or b"", names))
        except (DuplicateNameError, RecursionError):
            raise MalformedVariantError from None
        metadata.append(names.metadata())
    members = [
        pa.array([b"" if content is None else content for content in contents], pa.binary())
        for contents in (values, metadata)
    ]
    return pa.StructArray.from_arrays(
        members, fields=list(layout.VARIANT_TYPE), mask=column.is_null()
    )


def _with_numbers(column: pa.Array) -> pa.Array:
    """Convert dates and times of the column to numbers, because Python's types are less exact."""
    return column.cast(_numbers_type(column.type))


def _numbers_type(data_type: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(data_type):
        return pa.struct([pa.field(field.name, _numbers_type(field.type)) for field in data_type])
    if pa.types.is_list(data_type):
        return pa.list_(_numbers_type(data_type.value_type))
    if pa.types.is_date32(data_type):
        return pa.int32()
    return pa.int64() if pa.types.is_timestamp(data_type) else data_type


def _reassemble(
    row: dict[str, Any], data_type: pa.DataType, metadata: bytes, names: NameNumbers
) -> bytes:
    """Reassemble one value of a column of this type; `names` numbers its members' names."""
    typed_value, residual = row.get(layout.TYPED_VALUE), row.get(layout.VALUE)
    if typed_value is None:
        if residual is None:
            raise MalformedVariantError
        return _renumber(Variant(residual, metadata), names)
    typed_type = data_type.field(layout.TYPED_VALUE).type
    if pa.types.is_struct(typed_type):
        members = _typed_members(typed_value, typed_type, metadata, names)
        if residual is not None:
            members += _renumber_members(Variant(residual, metadata), names)
        return object_of(members, names)
    if residual is not None:
        raise MalformedVariantError
    if pa.types.is_list(typed_type):
        inner = typed_type.value_type
        return array_of([_reassemble(element, inner, metadata, names) for element in typed_value])
    return _scalar(typed_value, typed_type)


def _typed_members(
    typed_members: dict[str, Any], data_type: pa.DataType, metadata: bytes, names: NameNumbers
) -> list[tuple[str, bytes]]:
    members = []
    for field in data_type:
        parts = typed_members[field.name]
        if parts is None:
            raise MalformedVariantError
        if any(parts.get(part) is not None for part in (layout.VALUE, layout.TYPED_VALUE)):
            names.number(field.name)
            members.append((field.name, _reassemble(parts, field.type, metadata, names)))
    return members


def _renumber(variant: Variant, names: NameNumbers) -> bytes:
    """Return the same value with its members' names numbered by another dictionary."""
    match variant.basic_kind:
        case layout.OBJECT:
            return object_of(_renumber_members(variant, names), names)
        case layout.ARRAY:
            return array_of([_renumber(element, names) for element in variant.elements()])
        case _:
            return variant.content


def _renumber_members(variant: Variant, names: NameNumbers) -> list[tuple[str, bytes]]:
    if variant.basic_kind != layout.OBJECT:
        raise MalformedVariantError
    members = []
    for name, value in variant.members():
        names.number(name)
        members.append((name, _renumber(value, names)))
    return members


def _scalar(value: Any, data_type: pa.DataType) -> bytes:  # noqa: C901, PLR0911 - a line for each type
    """Return the bytes of a value from a typed column of a shredded file."""
    if pa.types.is_boolean(data_type):
        return scalars.boolean(value)
    if pa.types.is_integer(data_type):
        return scalars.integer(value)
    if pa.types.is_decimal(data_type):
        return scalars.decimal(value) or b""
    if pa.types.is_float64(data_type):
        return scalars.float64(value)
    if pa.types.is_float32(data_type):
        return scalars.float32(value)
    if pa.types.is_string(data_type):
        return scalars.text(value)
    if pa.types.is_binary(data_type):
        return scalars.binary(value)
    if pa.types.is_date32(data_type):
        return scalars.date(value)
    if pa.types.is_timestamp(data_type) and data_type.unit == "us":
        return scalars.timestamp(value, has_zone=data_type.tz is not None)
    raise pa.ArrowNotImplementedError(f"no VARIANT has a value of the type {data_type}")
