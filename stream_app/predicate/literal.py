"""Converts a literal of a condition exactly to its column's type.

Numbers, dates and times lie on a grid: DECIMAL(12, 2) has hundredths, and TIMESTAMP(3) has
milliseconds. A literal between two points of its column's grid, or beyond its ends, is never
rounded: ``amount < 1.005`` means ``amount <= 1.00``, and ``amount = 1.005`` is never true. A
literal for a FLOAT or DOUBLE means the nearest value of the type.
"""

from __future__ import annotations

import datetime
import re
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

import numpy as np

from stream_app.format.arrow_schema import timestamp_unit
from stream_app.format.binary_row import scaled_decimal
from stream_app.model.schema.data_type import (
    BINARY_ROOTS,
    FLOAT_ROOTS,
    INTEGER_ROOTS,
    STRING_ROOTS,
    TIMESTAMP_ROOTS,
    DataField,
    DataType,
    TypeRoot,
)
from stream_app.predicate.predicate import Always, Compare, Predicate

_NANOS_OF_SECOND = 1_000_000_000
_NANOS_OF_DAY = 86_400 * _NANOS_OF_SECOND
_EPOCH = datetime.date(1970, 1, 1).toordinal()
_INTEGER_BITS = {
    TypeRoot.TINYINT: 8,
    TypeRoot.SMALLINT: 16,
    TypeRoot.INT: 32,
    TypeRoot.BIGINT: 64,
    TypeRoot.DATE: 32,
    TypeRoot.TIME: 32,
    TypeRoot.TIMESTAMP: 64,
    TypeRoot.TIMESTAMP_LTZ: 64,
}
_NANOS_OF_UNIT = {"ms": 1_000_000, "us": 1_000, "ns": 1}
_SPECIAL_FLOATS = {"nan": "nan", "infinity": "inf", "+infinity": "inf", "-infinity": "-inf"}
_EXPONENT_MAX = 400
"""The largest exponent of a number: beyond every DOUBLE, and small enough for an exact fraction."""
_DATE = r"(?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d)"
_TIME = r"(?P<hour>\d\d):(?P<minute>\d\d)(?::(?P<second>\d\d)(?:\.(?P<fraction>\d+))?)?"
_ZONE = r"(?P<zone>Z|z|[+-]\d\d:\d\d)?"


class LiteralKind(StrEnum):
    """The kind of a literal, by its spelling."""

    NUMBER = "NUMBER"
    TEXT = "TEXT"
    BOOLEAN = "BOOLEAN"
    BYTES = "BYTES"
    DATE = "DATE"
    TIME = "TIME"
    TIMESTAMP = "TIMESTAMP"


_PATTERNS = {
    LiteralKind.DATE: re.compile(_DATE),
    LiteralKind.TIME: re.compile(_TIME),
    LiteralKind.TIMESTAMP: re.compile(rf"{_DATE}(?:[ T]{_TIME}{_ZONE})?"),
}
_EXAMPLES = {
    LiteralKind.DATE: "2024-02-29",
    LiteralKind.TIME: "12:34:56.789",
    LiteralKind.TIMESTAMP: "2024-02-29 12:34:56.789",
}


@dataclass(frozen=True, slots=True)
class Literal:
    """A literal as spelled in the condition.

    Attributes:
        text: without quotes; bytes as hexadecimal digits.
    """

    kind: LiteralKind
    text: str


@dataclass(frozen=True, slots=True)
class FittedLiteral:
    """The place of a literal among the values of a column's type.

    Attributes:
        value: the column type's largest value that is not above the literal; None if all values are
            above it.
        is_exact: whether `value` equals the literal.
        is_beyond: whether the literal is above all values.
    """

    value: object
    is_exact: bool = True
    is_beyond: bool = False


def comparison(column: DataField, operator: str, literal: Literal) -> Predicate:
    """Return ``column operator literal`` with a value of the column's type.

    Raises:
        ValueError: the literal is of another kind than the column.
    """
    fitted_value = fitted_literal(literal, column.data_type)
    if fitted_value.is_exact:
        return Compare(column, operator, fitted_value.value)
    if operator in ("=", "<>"):
        return Always(column, operator == "<>")
    is_less = operator in ("<", "<=")
    if fitted_value.value is None or fitted_value.is_beyond:
        return Always(column, is_less == fitted_value.is_beyond)
    return Compare(column, "<=" if is_less else ">", fitted_value.value)


def fitted_literal(literal: Literal, data_type: DataType) -> FittedLiteral:
    """Convert the literal to the type: exact, rounded down to its grid, or beyond its range.

    Raises:
        ValueError: the type cannot hold the literal; the text says which literals it accepts.
    """
    root = data_type.root
    if root in STRING_ROOTS and literal.kind is LiteralKind.TEXT:
        return FittedLiteral(literal.text)
    if root in BINARY_ROOTS and literal.kind is LiteralKind.BYTES:
        return FittedLiteral(bytes.fromhex(literal.text))
    if root is TypeRoot.BOOLEAN and literal.kind is LiteralKind.BOOLEAN:
        return FittedLiteral(literal.text == "TRUE")
    if root in FLOAT_ROOTS:
        return FittedLiteral(_float(literal, data_type))
    if root in INTEGER_ROOTS and literal.kind is LiteralKind.NUMBER:
        return _on_grid(_exact_number(literal.text), _integer_max(data_type))
    if root is TypeRoot.DECIMAL and literal.kind is LiteralKind.NUMBER:
        scaled_value = _exact_number(literal.text) * 10**data_type.scale
        maximum = 10**data_type.precision - 1
        fitted_value = _on_grid(scaled_value, maximum, -maximum)
        if isinstance(fitted_value.value, int):
            value = scaled_decimal(fitted_value.value, data_type.scale)
            return FittedLiteral(value, fitted_value.is_exact, fitted_value.is_beyond)
        return fitted_value
    if root in (TypeRoot.DATE, TypeRoot.TIME) or root in TIMESTAMP_ROOTS:
        return _temporal(literal, data_type)
    raise _wrong_kind_error(data_type)


def literal_description(data_type: DataType) -> str:
    """Describe the literals of a type, for error messages."""
    root = data_type.root
    if root in STRING_ROOTS:
        return "a 'text'"
    if root in BINARY_ROOTS:
        return "bytes as X'00ff'"
    if root is TypeRoot.BOOLEAN:
        return "TRUE or FALSE"
    if data_type.is_nested:
        return "IS NULL or IS NOT NULL, the only tests"
    if root in TIMESTAMP_ROOTS or root.name in _EXAMPLES:
        kind = _kind_for(root)
        return f"{kind} '{_EXAMPLES[kind]}'"
    return "a number"


def _wrong_kind_error(data_type: DataType) -> ValueError:
    return ValueError(
        f"{literal_description(data_type)} for a column of type {data_type.as_nullable()}"
    )


def _exact_number(text: str) -> Fraction:
    exponent = re.search(r"[eE]([+-]?\d+)$", text)
    if exponent and abs(int(exponent[1])) > _EXPONENT_MAX:
        raise ValueError(f"a number with an exponent of at most {_EXPONENT_MAX}")
    return Fraction(text)


def _float(literal: Literal, data_type: DataType) -> float:
    if literal.kind is LiteralKind.NUMBER:
        text = literal.text
    elif literal.kind is LiteralKind.TEXT and literal.text.lower() in _SPECIAL_FLOATS:
        text = _SPECIAL_FLOATS[literal.text.lower()]
    else:
        raise ValueError(
            f"a number, 'NaN', 'Infinity' or '-Infinity' for a column of type "
            f"{data_type.as_nullable()}"
        )
    if data_type.root is TypeRoot.DOUBLE:
        return float(text)
    with np.errstate(over="ignore"):
        return float(np.float32(text))


def _integer_max(data_type: DataType) -> int:
    return int(2 ** (_INTEGER_BITS[data_type.root] - 1) - 1)


def _kind_for(root: TypeRoot) -> LiteralKind:
    """Return the kind of the literals of a type of dates or times."""
    return LiteralKind.TIMESTAMP if root in TIMESTAMP_ROOTS else LiteralKind(root.name)


def _on_grid(value: Fraction, maximum: int, minimum: int | None = None) -> FittedLiteral:
    """Return a number among the integers up to a maximum; from `-maximum - 1` on by default."""
    floor = value.__floor__()
    if floor < (-maximum - 1 if minimum is None else minimum):
        return FittedLiteral(None, is_exact=False)
    if floor > maximum:
        return FittedLiteral(maximum, is_exact=False, is_beyond=True)
    return FittedLiteral(floor, is_exact=floor == value)


def _temporal(literal: Literal, data_type: DataType) -> FittedLiteral:
    """Return a literal as a count of the column's units, and whether the units can express it."""
    root = data_type.root
    has_zone = root is TypeRoot.TIMESTAMP_LTZ
    expected_kind = _kind_for(root)
    # A DATE means the midnight at its start; plain text is read as the column's type.
    kind = expected_kind if literal.kind is LiteralKind.TEXT else literal.kind
    if kind not in _PATTERNS or (kind is LiteralKind.TIME) != (expected_kind is LiteralKind.TIME):
        raise _wrong_kind_error(data_type)
    text_match = _PATTERNS[kind].fullmatch(literal.text)
    if not text_match:
        raise ValueError(f"a {kind} such as '{_EXAMPLES[kind]}'")
    nanos = _nanos(text_match, kind, has_zone=has_zone)
    match expected_kind:
        case LiteralKind.DATE:
            step = _NANOS_OF_DAY
        case LiteralKind.TIME:
            step = _NANOS_OF_UNIT["ms"]
        case _:
            step = _NANOS_OF_UNIT[timestamp_unit(data_type.precision)]
    fitted_value = _on_grid(nanos / step, _integer_max(data_type))
    if expected_kind is LiteralKind.TIMESTAMP and isinstance(fitted_value.value, int):
        return FittedLiteral(
            fitted_value.value * step, fitted_value.is_exact, fitted_value.is_beyond
        )
    return fitted_value


def _nanos(match: re.Match[str], kind: LiteralKind, *, has_zone: bool) -> Fraction:
    """Return nanoseconds since 1970 or since midnight, exact to the last digit of the text."""
    parts = match.groupdict()
    nanos = Fraction(0)
    if kind is not LiteralKind.TIME:
        try:
            day = datetime.date(int(parts["year"]), int(parts["month"]), int(parts["day"]))
        except ValueError:
            raise ValueError(f"a day that exists, not {match[0]!r}") from None
        nanos += (day.toordinal() - _EPOCH) * _NANOS_OF_DAY
    hour, minute, second = (int(parts.get(name) or 0) for name in ("hour", "minute", "second"))
    if hour > 23 or minute > 59 or second > 59:
        raise ValueError(f"a time of day that exists, not {match[0]!r}")
    nanos += (hour * 3600 + minute * 60 + second) * _NANOS_OF_SECOND
    digits = parts.get("fraction") or "0"
    nanos += Fraction(int(digits) * _NANOS_OF_SECOND, 10 ** len(digits))
    return nanos - _zone_nanos(parts.get("zone"), has_zone=has_zone)


def _zone_nanos(zone: str | None, *, has_zone: bool) -> int:
    """Return a zone's offset from UTC; `has_zone` is whether the column's type has a zone."""
    if zone is None:
        return 0  # a TIMESTAMP_LTZ without a zone is in UTC
    if not has_zone:
        raise ValueError("a TIMESTAMP without a time zone for a column that has none")
    if zone in "Zz":
        return 0
    minutes = int(zone[1:3]) * 60 + int(zone[4:])
    return (-minutes if zone[0] == "-" else minutes) * 60 * _NANOS_OF_SECOND


def like_pattern(text: str) -> str:
    """Return RE2's regular expression for a LIKE pattern."""
    parts = []
    for piece in re.finditer(r"\\?(.)", text, re.DOTALL):
        # A backslash makes % and _ literal, so both characters together are not a wildcard.
        wildcard = {"%": ".*", "_": "."}.get(piece[0])
        parts.append(wildcard or re.sub(r"([\\.+*?()|\[\]{}^$])", r"\\\1", piece[1]))
    return r"(?s)\A" + "".join(parts) + r"\z"
