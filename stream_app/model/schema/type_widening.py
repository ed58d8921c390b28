"""Decides which changes of a column's type keep all values and their order.

After such a change the statistics of older files stay valid, and a job may continue to write the
older type. `format.casting` reads values of other types.

Source: Paimon `schema/SchemaEvolutionUtil.java#devolveFilters`.
"""

from __future__ import annotations

from stream_app.model.schema.data_type import (
    BINARY_ROOTS,
    STRING_ROOTS,
    TIMESTAMP_ROOTS,
    DataType,
    TypeRoot,
)
from stream_app.model.schema.type_members import members

_INTEGER_DIGITS = {
    TypeRoot.TINYINT: 3,
    TypeRoot.SMALLINT: 5,
    TypeRoot.INT: 10,
    TypeRoot.BIGINT: 19,
}
"""The integers, each fitting into the next one, and the digits of their largest values."""
_EXACT_DIGITS = {TypeRoot.FLOAT: 7, TypeRoot.DOUBLE: 15}
"""Decimal digits of an integer that a floating point number holds exactly."""


def keeps_values(
    stored_type: DataType, target_type: DataType, *, compares_ids: bool = False
) -> bool:
    """Return whether each value of the stored type is a value of the target type.

    Args:
        compares_ids: whether to match fields of ROWs by id, and to allow dropped fields. Otherwise
            match them by name, and require all of them.
    """
    if stored_type.fits_into(target_type, compares_ids=compares_ids):
        return True
    if stored_type.is_nested:
        return stored_type.root is target_type.root and _keeps_members(
            stored_type, target_type, compares_ids=compares_ids
        )
    if stored_type.root in _INTEGER_DIGITS:
        return _holds_integer(_INTEGER_DIGITS[stored_type.root], target_type)
    if stored_type.root is TypeRoot.DECIMAL and target_type.root is TypeRoot.DECIMAL:
        has_more_digits = (
            target_type.precision - target_type.scale >= stored_type.precision - stored_type.scale
        )
        return has_more_digits and target_type.scale >= stored_type.scale
    for roots in (STRING_ROOTS, BINARY_ROOTS):
        if stored_type.root in roots:
            is_padded = target_type.root in (TypeRoot.CHAR, TypeRoot.BINARY)
            return (
                target_type.root in roots
                and target_type.length >= stored_type.length
                and not is_padded
            )
    if stored_type.root in TIMESTAMP_ROOTS:
        return (
            target_type.root is stored_type.root and target_type.precision >= stored_type.precision
        )
    return stored_type.root is TypeRoot.FLOAT and target_type.root is TypeRoot.DOUBLE


def _keeps_members(stored_type: DataType, target_type: DataType, *, compares_ids: bool) -> bool:
    target_members = {
        member.field_id if compares_ids else member.name: member for member in members(target_type)
    }
    names = {member.field_id if compares_ids else member.name for member in members(stored_type)}
    for member in members(stored_type):
        target_member = target_members.get(member.field_id if compares_ids else member.name)
        if target_member is None and not compares_ids:
            return False
        if target_member is not None and not (
            keeps_values(member.data_type, target_member.data_type, compares_ids=compares_ids)
            and (target_member.data_type.nullable or not member.data_type.nullable)
        ):
            return False
    return all(
        member.data_type.nullable for name, member in target_members.items() if name not in names
    )


def _holds_integer(digits: int, target_type: DataType) -> bool:
    if target_type.root in _INTEGER_DIGITS:
        return _INTEGER_DIGITS[target_type.root] >= digits
    if target_type.root is TypeRoot.DECIMAL:
        return target_type.precision - target_type.scale >= digits
    return _EXACT_DIGITS.get(target_type.root, 0) >= digits
