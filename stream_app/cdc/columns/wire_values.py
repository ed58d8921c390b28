"""Converts single values to Python objects that fit their column's wire type.

It is the slow path beside the parser that reads whole columns. `column_cast` casts the results.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from stream_app.cdc.columns.base64_columns import decode_base64
from stream_app.cdc.columns.column_reading import ColumnReading, Encoding, Family, JsonKind
from stream_app.cdc.columns.decimal_columns import SCALE_MAX, decimal_text, exact_decimal


def wire_value(  # noqa: C901 - a line for each kind of column
    reading: ColumnReading, json_kind: JsonKind, text: str
) -> tuple[JsonKind, object]:
    """Convert one value of a single record for `cast_column`.

    Args:
        json_kind, text: the value's JSON kind, and its text: the characters of a string, or JSON.

    Returns:
        The kind for the cast, and the Python value that corresponds to its wire type.

    Raises:
        ValueError: the column cannot hold the value; the text gives the reason.
    """
    if reading.refusal:
        raise ValueError(reading.refusal)
    family = reading.family
    if family is Family.VARIANT or (
        family is Family.NESTED and json_kind not in (JsonKind.BOOLEAN, JsonKind.NUMBER)
    ):
        return JsonKind.STRING, text
    if json_kind is JsonKind.OBJECT and reading.wire_type(json_kind) is not None:
        return _struct_wire_value(reading, text)
    if family is Family.STRING or (family, json_kind) == (Family.FLOAT, JsonKind.STRING):
        if json_kind is JsonKind.STRING and reading.encoding is Encoding.BASE64:
            return json_kind, _plain_number(text, reading.scale)
        return JsonKind.STRING, "0" if json_kind is JsonKind.NUMBER and text == "-0" else text
    if family is Family.DECIMAL:
        return _decimal_wire_value(reading, json_kind, text)
    if reading.wire_type(json_kind) is None:
        raise ValueError(f"is a JSON {json_kind.name.lower()}")
    if json_kind is JsonKind.BOOLEAN:
        return json_kind, text == "true"
    if json_kind is JsonKind.NUMBER:
        # Text is cast to a FLOAT in one step; through Python's float it would be rounded twice.
        return (JsonKind.STRING, text) if family is Family.FLOAT else (json_kind, _int64(text))
    return json_kind, text


def group_cells_by_kind(
    reading: ColumnReading, cells: Sequence[tuple[JsonKind, str] | None]
) -> tuple[dict[JsonKind, list[object]], dict[int, str]]:
    """Group the wire values by kind, with None elsewhere, and return why cells have none."""
    wire_values: dict[JsonKind, list[object]] = {}
    problems: dict[int, str] = {}
    for row_index, cell in enumerate(cells):
        if cell is None or cell[0] is JsonKind.NULL:
            continue
        try:
            json_kind, value = wire_value(reading, *cell)
        except ValueError as problem:
            problems[row_index] = str(problem)
            continue
        if json_kind not in wire_values:  # no setdefault: it would make a list for each cell
            wire_values[json_kind] = [None] * len(cells)
        wire_values[json_kind][row_index] = value
    return wire_values, problems


def _decimal_wire_value(
    reading: ColumnReading, json_kind: JsonKind, text: str
) -> tuple[JsonKind, object]:
    if json_kind is JsonKind.STRING and reading.encoding is Encoding.BASE64:
        return json_kind, text
    if json_kind not in (JsonKind.NUMBER, JsonKind.STRING):
        raise ValueError(f"is a JSON {json_kind.name.lower()}")
    return JsonKind.NUMBER, exact_decimal(text, reading.arrow_type)


def _struct_wire_value(reading: ColumnReading, text: str) -> tuple[JsonKind, object]:
    parts = json.loads(text, object_pairs_hook=_struct_of_pairs)
    scale, value = parts.get("scale"), parts.get("value")
    if type(scale) is not int or abs(scale) > SCALE_MAX or not isinstance(value, str):
        raise ValueError("is not a decimal of the form {scale, value}")
    if reading.family in (Family.STRING, Family.FLOAT):
        return JsonKind.STRING, _plain_number(value, scale)
    return JsonKind.OBJECT, {"scale": scale, "value": value}


def _struct_of_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    for name in ("scale", "value"):
        if [key for key, _ in pairs].count(name) > 1:
            raise ValueError(f"has the field {name!r} twice")
    return dict(pairs)


def _plain_number(text: str, scale: int) -> str:
    values, _ = decode_base64(pa.array([text], pa.string()))
    if not values[0].is_valid:
        raise ValueError("is not the base64 of a number (decimal.handling.mode = precise)")
    return decimal_text(values[0].as_py(), scale)


def _int64(text: str) -> int:
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()):
        raise ValueError("is not a whole number")
    if len(digits) > 19 or not -(2**63) <= int(text) < 2**63:
        raise ValueError("is out of range")
    return int(text)
