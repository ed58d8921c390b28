"""Decodes one JSON value for one column in the plain way, one at a time and without Arrow.

The judge of the decoder's tests, so it shares no code with it. Values come in a form that has no
limits of its own: days, milliseconds of the day, nanoseconds since 1970, unscaled numbers.

Source: docs/setup/cdc.md, "Types"; Debezium's semantic types.
"""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import math
import re
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from enum import Enum
from fractions import Fraction
from typing import Any

from tests.support.messages.reference_json import Number, Pairs, compact_json, repeats

DAY = 86_400


class Fate(Enum):
    BAD = "a bad record"


BAD = Fate.BAD
Meanings = tuple[Any, ...]
"""What may come of a value; more than one where the page leaves it open."""


@dataclass(frozen=True)
class Column:
    """A column's type, and what a value of it holds.

    Attributes:
        root: the type's name without its arguments; STRING and BYTES for all of their kind.
        encoding: as ``column.NAME.encoding`` says it.
        told: the message's schema says so; else the options do.
        value_scale: fractional digits of base64 numbers.
        semantic: the schema's name of the type, without its package.
    """

    root: str
    precision: int = 0
    scale: int = 0
    encoding: str = "number"
    value_scale: int = 0
    semantic: str = ""


def meanings(column: Column, value: Any) -> Meanings:
    """Return what a parsed value may become in the column."""
    if value is None:
        return (None,)
    meanings = _MEANINGS[column.root](column, value)
    # A text where the schema speaks of a count, or of a time that is not one of the column's.
    misfits = type(value) is str and column.root in ("DATE", "TIME", "TIMESTAMP")
    return (*meanings, BAD) if misfits and column.semantic else meanings


def _boolean(_: Column, value: Any) -> Meanings:
    if isinstance(value, bool):
        return (value,)
    forms: dict[Any, bool] = {"true": True, "false": False}
    if isinstance(value, Number):
        forms = {"0": False, "-0": False, "1": True}
    return (forms.get(value, BAD) if isinstance(value, str) else BAD,)


_BITS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}


def _integer(column: Column, value: Any) -> Meanings:
    if isinstance(value, bool):
        return (int(value),)
    if isinstance(value, Pairs):
        meanings = _scaled(replace(column, precision=19, scale=0), value)
        half = 2 ** (_BITS[column.root] - 1)
        return (
            BAD,
            *(meaning for meaning in meanings if meaning is not BAD and -half <= meaning < half),
        )
    if not isinstance(value, str):
        return (BAD,)
    number: Any = BAD
    if column.encoding == "base64" and not isinstance(value, Number):
        number = _two_complement(value, column.value_scale)
    elif re.fullmatch(r"-?[0-9]+", value):
        number = Fraction(Decimal(value))
    half = 2 ** (_BITS[column.root] - 1)
    if number is BAD or number.denominator != 1 or not -half <= number < half:
        return (BAD,)
    return (int(number),)


_DECIMAL = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
_WORDS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def _float(column: Column, value: Any) -> Meanings:
    if isinstance(value, Pairs):
        [scaled_value, *_] = _scaled(replace(column, precision=2000, scale=1000), value)
        exact = Number(f"{scaled_value}E-1000")
        return (BAD,) if scaled_value is BAD else (BAD, *_float(column, exact))
    if not isinstance(value, str):
        return (BAD,)
    if not isinstance(value, Number) and value in _WORDS:
        return (_WORDS[value],)
    if not _DECIMAL.fullmatch(value):
        return (BAD,)
    bits, low, top = (24, -149, 104) if column.root == "FLOAT" else (53, -1074, 971)
    sign = -1.0 if value.startswith("-") else 1.0
    try:
        number = Decimal(value).copy_abs()
    except InvalidOperation:  # an exponent of twenty digits
        return (BAD, 0.0, -0.0)
    if not number or number.adjusted() < -400:
        return (math.copysign(0.0, sign),)
    if number.adjusted() > 400:
        return (BAD,)
    size = Fraction(number)
    exponent = max(size.numerator.bit_length() - size.denominator.bit_length() - bits - 1, low)
    while round(size / Fraction(2) ** exponent) >= 2**bits:
        exponent += 1  # half to even, as IEEE 754 rounds
    steps = round(size / Fraction(2) ** exponent)
    return (BAD if exponent > top else sign * math.ldexp(steps, exponent),)


def _decimal(column: Column, value: Any) -> Meanings:
    if isinstance(value, Pairs):
        return _scaled(column, value)
    if not isinstance(value, str):
        return (BAD,)
    if column.encoding == "base64" and not isinstance(value, Number):
        return (_unscaled(column, _two_complement(value, column.value_scale)),)
    if not _DECIMAL.fullmatch(value):
        return (BAD,)
    try:
        number = Decimal(value)
    except InvalidOperation:
        return (BAD, 0) if not value.lower().split("e")[0].strip("+-0.") else (BAD,)
    if number and not -1100 < number.adjusted() < 100:
        return (BAD,)
    return (_unscaled(column, Fraction(number) if number else Fraction(0)),)


def _scaled(column: Column, value: Pairs) -> Meanings:
    """Return the number of ``{"scale":2,"value":"…"}``."""
    parts = dict(value)
    scale, digits = parts.get("scale"), parts.get("value")
    if not (isinstance(scale, Number) and re.fullmatch(r"-?[0-9]+", scale)):
        return (BAD,)
    if not isinstance(digits, str) or isinstance(digits, Number):
        return (BAD,)
    if len(scale) > 5 or abs(int(scale)) > 1000:
        return (BAD, 0)
    decimal = _unscaled(column, _two_complement(digits, int(scale)))
    return (decimal, BAD) if repeats(value) else (decimal,)


def _unscaled(column: Column, number: Any) -> Any:
    if number is BAD:
        return BAD
    units = number * 10**column.scale
    fits = units.denominator == 1 and abs(units) < 10**column.precision
    return int(units) if fits else BAD


def _two_complement(text: str, scale: int) -> Any:
    raw = _base64(text)
    if raw is BAD or not raw:
        return BAD
    return Fraction(int.from_bytes(raw, "big", signed=True)) / Fraction(10) ** scale


def _base64(text: str, extra: str = "+/") -> Any:
    if not re.fullmatch(rf"[A-Za-z0-9{extra}]*={{0,2}}", text) or len(text) % 4:
        return BAD
    try:
        return base64.b64decode(text, extra.encode())
    except binascii.Error:
        return BAD


def _string(column: Column, value: Any) -> Meanings:
    if column.semantic == "Decimal" and type(value) is str:
        return _number_texts(_two_complement(value, column.value_scale), column.value_scale)
    if column.semantic == "Decimal" and isinstance(value, Pairs):  # not what the schema says
        other = _string(replace(column, semantic="VariableScaleDecimal"), value)
        return (BAD, compact_json(value), *other)
    if column.semantic == "VariableScaleDecimal" and isinstance(value, Pairs):
        parts = dict(value)
        scale, digits = parts.get("scale"), parts.get("value")
        whole = isinstance(scale, Number) and re.fullmatch(r"-?[0-9]{1,3}", scale)
        if not whole or type(digits) is not str or repeats(value):
            return (BAD,)
        return _number_texts(_two_complement(digits, int(str(scale))), int(str(scale)))
    if isinstance(value, Number):
        return ("-0", "0") if value == "-0" else (str(value),)
    if isinstance(value, str):
        return (value,)
    text = compact_json(value)
    return (text, BAD) if repeats(value) else (text,)


def _number_texts(number: Any, scale: int) -> Meanings:
    """Return a number's text: with each of its fractional digits, plainly or with an exponent."""
    if number is BAD:
        return (BAD,)
    units = int(number * Fraction(10) ** scale)
    if abs(units) >= 2**512:
        return (BAD,)
    exact = Decimal((int(units < 0), tuple(map(int, str(abs(units)))), -scale))
    return (str(exact), f"{exact:f}")


def _binary(column: Column, value: Any) -> Meanings:
    if not isinstance(value, str) or isinstance(value, Number):
        return (BAD,)
    match column.encoding:
        case "text":
            return (value.encode(),)
        case "hex":
            pairs = re.fullmatch(r"([0-9a-fA-F]{2})*", value)
            return (bytes.fromhex(value) if pairs else BAD,)
        case "base64-url-safe":
            return (_base64(value, "-_"),)
    return (_base64(value),)


_UNITS = {"epoch-seconds": 0, "epoch-millis": 3, "epoch-micros": 6, "epoch-nanos": 9}
_WHOLE = re.compile(r"-?[0-9]+")
_DATE = r"(?P<y>\d{4})-(?P<mo>\d\d)-(?P<d>\d\d)"
_CLOCK = r"(?P<h>\d\d):(?P<mi>\d\d)(:(?P<s>\d\d)(\.(?P<f>\d{1,9}))?)?"
_ZONE = r"(?P<z>Z|[+-]\d\d(:?\d\d)?)"


def _date(column: Column, value: Any) -> Meanings:
    if isinstance(value, Number) and _WHOLE.fullmatch(value):
        if column.semantic in ("Time", "MicroTime", "NanoTime", "MicroDuration"):
            return (BAD,)
        if column.semantic == "Year":
            return (BAD, _day(int(value), 1, 1) if len(value) < 5 else BAD)
        if len(value) > 25:
            return (BAD,)
        days = int(value)
        if column.encoding in _UNITS:
            days //= DAY * 10 ** _UNITS[column.encoding]
        day = days if _day(0, 1, 1) <= days <= _day(9999, 12, 31) else BAD
        loses = abs(int(value)) >= 2**63 or column.encoding == "iso"
        loses = loses or (column.encoding in _UNITS and bool(column.semantic))
        return (day, BAD) if loses else (day,)
    if type(value) is str and (match := re.fullmatch(rf"{_DATE}Z?", value, re.ASCII)):
        return (_day(int(match["y"]), int(match["mo"]), int(match["d"])),)
    return (BAD,)


def _day(year: int, month: int, day: int) -> Any:
    """Return the days since 1970, or BAD if there is no such day."""
    cycles = 0 if year else 1  # Python has no year 0, and the calendar repeats every 400 years
    try:
        ordinal = dt.date(year + 400 * cycles, month, day).toordinal()
    except ValueError:
        return BAD
    return ordinal - 146_097 * cycles - dt.date(1970, 1, 1).toordinal()


def _clock(match: re.Match[str]) -> Any:
    """Return nanoseconds from midnight UTC, of a day before or after where the zone says so."""
    hour, minute, second = (int(match[name] or 0) for name in ("h", "mi", "s"))
    if hour > 23 or minute > 59 or second > 59:
        return BAD
    zone = match["z"] or "Z"
    shift = 0
    if zone != "Z":
        digits = (zone[1:].replace(":", "") + "00")[:4]
        if int(digits[:2]) > 23 or int(digits[2:]) > 59:
            return BAD
        shift = (int(digits[:2]) * 60 + int(digits[2:])) * (-60 if zone[0] == "-" else 60)
    nanos = int(((match["f"] or "") + "0" * 9)[:9])
    return (hour * 3600 + minute * 60 + second - shift) * 10**9 + nanos


def _time(column: Column, value: Any) -> Meanings:
    if isinstance(value, Number):
        if column.encoding not in _UNITS or not _WHOLE.fullmatch(value) or len(value) > 25:
            return (BAD,)
        if column.semantic in ("MicroDuration", "Year"):
            return (BAD,)
        nanos = int(value) * 10 ** (9 - _UNITS[column.encoding])
        is_time = 0 <= nanos < DAY * 10**9
        time_value = _cut(nanos, min(column.precision, 3)) // 10**6 if is_time else BAD
        of_time = not column.semantic or "Time" in column.semantic.replace("Timestamp", "")
        if not of_time and "Timestamp" in column.semantic:
            return (BAD, _cut(nanos % (DAY * 10**9), min(column.precision, 3)) // 10**6)
        return (time_value,)
    if type(value) is not str:
        return (BAD,)
    clock = re.fullmatch(rf"{_CLOCK}{_ZONE}?", value, re.ASCII)
    if not clock or (nanos := _clock(clock)) is BAD:
        return (BAD,)
    return (_cut(nanos % (DAY * 10**9), min(column.precision, 3)) // 10**6,)


def _timestamp(column: Column, value: Any) -> Meanings:
    if isinstance(value, Number):
        return _counted(column, value)
    if type(value) is not str:
        return (BAD,)
    if re.fullmatch(rf"{_DATE}[T ]\d\d{_ZONE}?", value, re.ASCII):  # ISO 8601 allows the hour alone
        meant = _timestamp(column, re.sub(r"([T ]\d\d)", r"\1:00", value))
        return (BAD, *meant)
    if value.endswith("Z") and len(value) == 11:
        return (BAD, *_timestamp(column, value[:-1]))
    text = re.fullmatch(rf"{_DATE}([T ]{_CLOCK}{_ZONE}?)?", value, re.ASCII)
    if not text:
        return (BAD,)
    day = _day(int(text["y"]), int(text["mo"]), int(text["d"]))
    nanos = 0 if text["h"] is None else _clock(text)
    is_valid = day is not BAD and nanos is not BAD
    return _instant(column, day * DAY * 10**9 + nanos) if is_valid else (BAD,)


def _counted(column: Column, value: Number) -> Meanings:
    if not _WHOLE.fullmatch(value) or len(value) > 25:
        return (BAD,)
    if column.encoding == "epoch-days" and column.semantic == "Date":
        return _instant(column, int(value) * DAY * 10**9)
    if column.encoding not in _UNITS or column.semantic in ("MicroDuration", "Year"):
        return (BAD,)
    instants = _instant(column, int(value) * 10 ** (9 - _UNITS[column.encoding]))
    of_day = column.semantic in ("Time", "MicroTime", "NanoTime")
    return (BAD, *instants) if of_day or abs(int(value)) >= 2**63 else instants


def _instant(column: Column, nanos: int) -> Meanings:
    """Return nanoseconds since 1970, cut to the column's precision."""
    if not _day(0, 1, 1) <= nanos // (DAY * 10**9) <= _day(9999, 12, 31):
        return (BAD,)
    if column.precision > 6 and not -(2**63) < nanos < 2**63:
        return (BAD,)
    instant = _cut(nanos, column.precision)
    at_the_end = column.precision > 6 and abs(nanos) > 2**63 - 10**9
    return (instant, BAD) if at_the_end else (instant,)


def _cut(nanos: int, precision: int) -> int:
    step = int(10 ** (9 - precision))
    return nanos // step * step


_MEANINGS = {
    "BOOLEAN": _boolean,
    **dict.fromkeys(_BITS, _integer),
    "FLOAT": _float,
    "DOUBLE": _float,
    "DECIMAL": _decimal,
    "STRING": _string,
    "BYTES": _binary,
    "DATE": _date,
    "TIME": _time,
    "TIMESTAMP": _timestamp,
}
