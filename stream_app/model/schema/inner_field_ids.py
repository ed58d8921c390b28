"""Computes the ids of elements, keys and values in a column, which no schema file has.

Source: Paimon `table/SpecialFields.java`.
"""

from __future__ import annotations

_BASE, _DEPTH_LIMIT = 536_870_911, 1024
"""`STRUCTURED_TYPE_FIELD_ID_BASE` and its depths."""


def inner_field_id(field_id: int, depth: int) -> int:
    """The id of an element or a value, or of a key at a negative depth.

    Args:
        field_id: the id of the column, or of the field of a ROW in which it stands.
        depth: ARRAYs and MAPs around it.
    """
    offset = field_id * _DEPTH_LIMIT if depth > 0 else -field_id * _DEPTH_LIMIT
    return (_BASE + offset + depth + 2**31) % 2**32 - 2**31  # wraps, as in Java
