"""Lists a nested type's members: fields of a ROW, elements of an ARRAY, values and keys of a MAP.

So reads by ids, widening and changes treat all nested types like a ROW. The members have the names
that paths into columns use. Schema files do not have the ids of elements, keys and values.

Source: Paimon `schema/SchemaChange.java`, `table/SpecialFields.java`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from stream_app.model.schema.data_type import DataField, DataType, TypeRoot

_ELEMENT, _KEY = -1, -2
"""Ids of members without a field: below those of fields."""
_BASE, _DEPTH_LIMIT = 536_870_911, 1024
"""`STRUCTURED_TYPE_FIELD_ID_BASE` and its depths."""


def members(data_type: DataType) -> tuple[DataField, ...]:
    """Return the members of a type, a MAP's value before its key; empty for scalar types."""
    if data_type.element is None:
        return data_type.fields
    is_map = data_type.key is not None
    element = _member(_ELEMENT, "value" if is_map else "element", data_type.element)
    return (element,) if data_type.key is None else (element, _member(_KEY, "key", data_type.key))


def changeable_members(data_type: DataType) -> tuple[DataField, ...]:
    """Return the members except keys; none for a VECTOR."""
    if data_type.root is TypeRoot.VECTOR:
        return ()
    return members(data_type)[:1] if data_type.root is TypeRoot.MAP else members(data_type)


def with_members(data_type: DataType, changed_members: Sequence[DataField]) -> DataType:
    """Return the type with changed members; keys stay."""
    if data_type.root is TypeRoot.ROW:
        return replace(data_type, fields=tuple(changed_members))
    return replace(data_type, element=changed_members[0].data_type)


def inner_field_id(field_id: int, depth: int) -> int:
    """Return the id of an element or a value, or, at a negative depth, of a key.

    Args:
        field_id: the id of the column, or of the enclosing ROW's field.
        depth: the number of enclosing ARRAYs and MAPs.
    """
    offset = field_id * _DEPTH_LIMIT if depth > 0 else -field_id * _DEPTH_LIMIT
    return (_BASE + offset + depth + 2**31) % 2**32 - 2**31  # wraps around, as in Java


def _member(field_id: int, name: str, data_type: DataType) -> DataField:
    return DataField(field_id=field_id, name=name, data_type=data_type)
