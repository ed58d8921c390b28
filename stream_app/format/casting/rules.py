"""Converts a column's stored values to its current type, by one rule for each pair of types.

Callers convert files of an older schema, after ALTER TYPE, and a column's DEFAULT, which the schema
stores as text. Paimon also refuses the pairs without a rule.

Source: Paimon `casting/CastExecutors.java`, `schema/SchemaEvolutionUtil.java`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

import pyarrow as pa

from stream_app.format.arrow_schema import arrow_type
from stream_app.format.casting import from_text, numbers, times, times_from_text, to_text
from stream_app.format.casting.arrays import CastError
from stream_app.format.casting.nested_arrays import cast_with_members
from stream_app.model.schema.data_type import (
    BINARY_ROOTS,
    FLOAT_ROOTS,
    INTEGER_ROOTS,
    STRING,
    STRING_MAX,
    STRING_ROOTS,
    TIMESTAMP_ROOTS,
    DataType,
    TypeRoot,
)
from stream_app.model.schema.type_members import members

Cast = Callable[[pa.Array, DataType, DataType], pa.Array]
"""Values [n] of the stored type's Arrow type → values [n] of the target type's; nulls stay.

Args: values, the stored type, the target type. Raises `CastError` for a value without counterpart.
"""

_BOOLEAN = frozenset({TypeRoot.BOOLEAN})
_DECIMAL = frozenset({TypeRoot.DECIMAL})
_DATE = frozenset({TypeRoot.DATE})
_TIME = frozenset({TypeRoot.TIME})
_SECONDS = frozenset({TypeRoot.INT, TypeRoot.BIGINT})
_NUMBERS = INTEGER_ROOTS | FLOAT_ROOTS

_RULES: tuple[tuple[Collection[TypeRoot], Collection[TypeRoot], Cast], ...] = (
    (INTEGER_ROOTS, INTEGER_ROOTS, numbers.integer_to_integer),
    (INTEGER_ROOTS, FLOAT_ROOTS, numbers.integer_to_float),
    (FLOAT_ROOTS, INTEGER_ROOTS, numbers.float_to_integer),
    (FLOAT_ROOTS, FLOAT_ROOTS, numbers.float_to_float),
    (INTEGER_ROOTS, _DECIMAL, numbers.integer_to_decimal),
    (FLOAT_ROOTS, _DECIMAL, numbers.float_to_decimal),
    (_DECIMAL, _DECIMAL, numbers.decimal_to_decimal),
    (_DECIMAL, INTEGER_ROOTS, numbers.decimal_to_integer),
    (_DECIMAL, FLOAT_ROOTS, numbers.decimal_to_float),
    (_BOOLEAN, _NUMBERS | _DECIMAL, numbers.boolean_to_number),
    (INTEGER_ROOTS, _BOOLEAN, numbers.integer_to_boolean),
    (_NUMBERS | _DECIMAL | _BOOLEAN, STRING_ROOTS, to_text.number_to_text),
    (TIMESTAMP_ROOTS, STRING_ROOTS, to_text.timestamp_to_text),
    (_TIME, STRING_ROOTS, to_text.time_to_text),
    (_DATE, STRING_ROOTS, to_text.date_to_text),
    (STRING_ROOTS, STRING_ROOTS, to_text.text_to_text),
    (BINARY_ROOTS, STRING_ROOTS, to_text.bytes_to_text),
    (STRING_ROOTS, _BOOLEAN, from_text.text_to_boolean),
    (STRING_ROOTS, INTEGER_ROOTS, from_text.text_to_integer),
    (STRING_ROOTS, FLOAT_ROOTS, from_text.text_to_float),
    (STRING_ROOTS, _DECIMAL, from_text.text_to_decimal),
    (STRING_ROOTS, _DATE, times_from_text.text_to_date),
    (STRING_ROOTS, _TIME, times_from_text.text_to_time),
    (STRING_ROOTS, TIMESTAMP_ROOTS, times_from_text.text_to_timestamp),
    (STRING_ROOTS | BINARY_ROOTS, BINARY_ROOTS, from_text.to_bytes),
    (TIMESTAMP_ROOTS, TIMESTAMP_ROOTS, times.timestamp_to_timestamp),
    (TIMESTAMP_ROOTS, _DATE, times.timestamp_to_date),
    (TIMESTAMP_ROOTS, _TIME, times.timestamp_to_time),
    (TIMESTAMP_ROOTS, _SECONDS, times.timestamp_to_integer),
    (_SECONDS, TIMESTAMP_ROOTS, times.seconds_to_timestamp),
    (_DATE, TIMESTAMP_ROOTS, times.date_to_timestamp),
    (_TIME, TIMESTAMP_ROOTS, times.time_to_timestamp),
)
_BY_ROOTS = {
    (stored_type, target_type): cast
    for from_, to, cast in _RULES
    for stored_type in from_
    for target_type in to
}
_STRING_ONLY = TIMESTAMP_ROOTS | _TIME | _DATE
"""Of the types of text, Paimon casts these to STRING alone, not to VARCHAR(n)."""


def cast_rule(stored_type: DataType, target_type: DataType) -> Cast | None:
    """Return the rule for two types that differ in more than nullability; None without one."""
    if stored_type.root in _STRING_ONLY and target_type.root in STRING_ROOTS:
        is_string = target_type.root is TypeRoot.VARCHAR and target_type.length == STRING_MAX
        return _BY_ROOTS[stored_type.root, target_type.root] if is_string else None
    return _BY_ROOTS.get((stored_type.root, target_type.root))


def can_be_read_as(stored_type: DataType, target_type: DataType) -> bool:
    """Return whether files that hold a column of the stored type can be read as `target_type`."""
    if (
        stored_type.fits_into(target_type, compares_ids=True)
        or cast_rule(stored_type, target_type) is not None
    ):
        return True
    stored_types = {member.field_id: member.data_type for member in members(stored_type)}
    return (
        stored_type.is_nested
        and stored_type.root is target_type.root
        and stored_type.length == target_type.length
        and all(
            _can_be_member(stored_types.get(target_member.field_id), target_member.data_type)
            for target_member in members(target_type)
        )
    )


def can_become(stored_type: DataType, target_type: DataType) -> bool:
    """Return whether a column's type may change, so that each reader can still read its files.

    Paimon converts times to STRING, but not to STRING NOT NULL.
    """
    is_text_of_time = stored_type.root in _STRING_ONLY and target_type.root in STRING_ROOTS
    return can_be_read_as(stored_type, target_type) and (
        target_type.nullable or not is_text_of_time
    )


def _can_be_member(stored_type: DataType | None, target_type: DataType) -> bool:
    """Return whether a nested member can be read as another type, or replaced by null."""
    if stored_type is None:
        return target_type.nullable
    return can_be_read_as(stored_type, target_type) and (
        target_type.nullable or not stored_type.nullable
    )


def read_as(values: pa.Array, stored_type: DataType, target_type: DataType) -> pa.Array:
    """Convert values from one type to another; `can_be_read_as` lists the possible pairs.

    Raises:
        CastError: a value has no counterpart.
    """
    if stored_type.fits_into(target_type, compares_ids=True):
        # Nested nullability, which is part of Arrow's types, may differ.
        return (
            cast_with_members(values, arrow_type(target_type)) if target_type.is_nested else values
        )
    rule = cast_rule(stored_type, target_type)
    if rule is not None:
        return rule(values, stored_type, target_type)
    assert stored_type.is_nested, "the caller has asked can_be_read_as"
    return _cast_nested(values, stored_type, target_type)


def _cast_nested(values: pa.Array, stored_type: DataType, target_type: DataType) -> pa.Array:
    """Return nested values with another type's members, found by id; missing ones are null."""
    target_arrow_type = arrow_type(target_type)
    values = values.take(pa.array(range(len(values)), pa.int64()))  # an array without an offset
    if target_type.root is TypeRoot.ROW:
        member_values = values.flatten()
    elif target_type.root is TypeRoot.MAP:
        member_values = [values.items, values.keys]
    else:
        member_values = [values.values]
    stored_members = {
        member.field_id: (member.data_type, column)
        for member, column in zip(members(stored_type), member_values, strict=True)
    }
    length = len(values if target_type.root is TypeRoot.ROW else member_values[0])
    columns = []
    for target_member in members(target_type):
        if target_member.field_id in stored_members:
            data_type, column = stored_members[target_member.field_id]
            column = read_as(column, data_type, target_member.data_type)
            columns.append(cast_with_members(column, arrow_type(target_member.data_type)))
        else:
            columns.append(pa.nulls(length, arrow_type(target_member.data_type)))
    if target_type.root is TypeRoot.ROW:
        fields = list(target_arrow_type)
        rows = pa.StructArray.from_arrays(columns, fields=fields, mask=values.is_null())
        return cast_with_members(rows, target_arrow_type)  # else writers refuse null ROWs' values
    if target_type.root is TypeRoot.MAP:
        fields = [target_arrow_type.key_field, target_arrow_type.item_field]
        columns = [pa.StructArray.from_arrays(columns[::-1], fields=fields)]
    return pa.Array.from_buffers(
        target_arrow_type, len(values), values.buffers()[:2], values.null_count, children=columns
    )


def default_value(text: str, data_type: DataType) -> pa.Array:
    """Parse a column's default value into an array of one element.

    Raises:
        CastError: the text is not a value of the type.
    """
    if text.startswith("'") and text.endswith("'"):
        text = text[1:-1]
    if not can_be_read_as(STRING, data_type):
        raise CastError(f"{data_type} cannot have a default value")
    return read_as(pa.array([text]), STRING, data_type)
