"""Converts a value of MongoDB's extended JSON to the plain JSON that Paimon's CDC stores.

An object such as ``{"$oid": "…"}`` becomes its text, ``{"$numberLong": "5"}`` becomes 5.

Source: MongoDB's "MongoDB Extended JSON (v2)"; Paimon `action/cdc/mongodb/BsonValueConvertor.java`.
"""

from __future__ import annotations

import base64
import binascii
import datetime
import decimal
import enum
import math
import re
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from stream_app.cdc.bad_reasons import UnreadableRecordError
from stream_app.cdc.json_message import JsonNumber, check_once, json_text

_NO_NUMBERS = frozenset({"NaN", "Infinity", "-Infinity"})
_REGEX = ("$regex", "$options")
_WHOLE = re.compile(r"[-+]?[0-9]{1,20}")
_WHOLE_MAX = 2**63 - 1
_UUID = 4
_OLD_UUID = 3
UNIX_START = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MILLISECOND = datetime.timedelta(milliseconds=1)
_PLAIN_MAX, _PLAIN_MIN = 7, -3
"""The powers of ten between which Java prints a double without an exponent."""


class MongoKind(enum.Enum):
    """The kind of a MongoDB value."""

    NULL = "null"
    TEXT = "text"
    NUMBER = "a number"
    BOOLEAN = "a truth value"
    MOMENT = "a moment"
    OBJECT_ID = "an ObjectId"
    BYTES = "bytes"
    NESTED = "a document or an array"
    OTHER = "of a kind that only a text can show"


def plain_value(value: Any) -> Any:
    """Return the plain JSON of a document's value, with all values in it.

    Raises:
        UnreadableRecordError: a value does not have the form of its kind, or a field occurs twice.
    """
    if isinstance(value, list):
        return [plain_value(item) for item in value]
    if not isinstance(value, dict):
        return value
    names = frozenset(value)
    check_once(value, names)
    if names in _OBJECTS:
        try:
            return _OBJECTS[names][1](value)
        except (ValueError, TypeError, ArithmeticError, KeyError, binascii.Error):
            raise _misfit_error(value) from None
    return {name: plain_value(item) for name, item in value.items()}


def _misfit_error(value: Any) -> UnreadableRecordError:
    return UnreadableRecordError(
        f"has the value {json_text(value)[:80]}, which does not fit its type"
    )


def _string(value: Any) -> str:
    if not isinstance(value, str) or isinstance(value, JsonNumber):
        raise TypeError
    return value


def _integer(value: Any) -> JsonNumber:
    """Return the 64-bit integer of a number or of its text."""
    text = value if isinstance(value, JsonNumber) else _string(value)
    if not _WHOLE.fullmatch(text) or not -_WHOLE_MAX - 1 <= int(text) <= _WHOLE_MAX:
        raise ValueError
    return JsonNumber(int(text))


def _plain_number(text: str) -> str:
    """Return the text; refuse one that only Python takes for a number, such as 1_0."""
    if not text.isascii() or "_" in text or text != text.strip():
        raise ValueError
    return text


def _double(value: Any) -> str:
    text = _string(value)
    if text in _NO_NUMBERS:
        return text
    double = float(_plain_number(text))
    if not math.isfinite(double):  # 1e400, or another name of infinity
        raise ValueError
    return JsonNumber(java_double(double))


def _decimal_text(value: Any) -> str:
    text = _string(value)
    parsed_decimal = decimal.Decimal(_plain_number(text))
    if parsed_decimal.is_finite():
        return JsonNumber(str(parsed_decimal))
    return "NaN" if parsed_decimal.is_nan() else "Infinity" if parsed_decimal > 0 else "-Infinity"


def _date(value: Any) -> JsonNumber:
    """Convert a date to milliseconds since 1970."""
    if isinstance(value, dict):
        return _integer(value["$numberLong"])
    if isinstance(value, JsonNumber):
        return _integer(value)
    moment = datetime.datetime.fromisoformat(_string(value))
    if moment.tzinfo is None:
        raise ValueError
    return JsonNumber((moment - UNIX_START) // _MILLISECOND)


def _raw_binary(value: Mapping[str, Any]) -> tuple[bytes, int]:
    """Return the bytes of a ``$binary``, and the number of its subtype."""
    content = value["$binary"]
    data = content
    subtype = value.get("$type")
    if isinstance(content, dict):
        data, subtype = content["base64"], content["subType"]
    return base64.b64decode(_string(data), validate=True), int(_string(subtype), 16)


def _binary_of(value: Mapping[str, Any]) -> str:
    raw, subtype = _raw_binary(value)
    if subtype == _OLD_UUID:
        raise ValueError  # the order of its bytes depends on the program that made it
    if subtype == _UUID:
        return str(uuid.UUID(bytes=raw))
    return base64.b64encode(raw).decode()


def moment_ms(value: Mapping[str, Any]) -> int:
    """Return the moment of a ``$date`` or a ``$timestamp``, since 1970.

    Raises:
        UnreadableRecordError: the value does not have the form of its kind.
    """
    unit = 1 if "$date" in value else 1000
    return int(plain_value(value)) * unit


def raw_bytes(value: Mapping[str, Any]) -> bytes:
    """Return the bytes of a ``$binary``, a ``$uuid`` or an ``$oid``.

    Raises:
        UnreadableRecordError: the value does not have the form of its kind.
    """
    try:
        if "$oid" in value:
            return bytes.fromhex(_string(value["$oid"]))
        if "$uuid" in value:
            return uuid.UUID(_string(value["$uuid"])).bytes
        return _raw_binary(value)[0]
    except (ValueError, TypeError, KeyError, binascii.Error):
        raise _misfit_error(value) from None


def _pattern(pattern: Any, options: Any) -> str:
    escaped_pattern = _string(pattern).replace("/", r"\/") or "(?:)"
    return f"/{escaped_pattern}/{_string(options)}"


def _pattern_of(value: Mapping[str, Any]) -> str:
    regex = value["$regularExpression"]
    return _pattern(regex["pattern"], regex["options"])


def _db_pointer_text(value: Mapping[str, Any]) -> str:
    pointer = value["$dbPointer"]
    object_id, namespace = plain_value(pointer["$id"]), _string(pointer["$ref"])
    return f"BsonDbPointer{{namespace='{namespace}', id={_string(object_id)}}}"


def _code_with_scope(value: Mapping[str, Any]) -> Any:
    return {"$code": _string(value["$code"]), "$scope": plain_value(value["$scope"])}


def mongo_kind_of(value: Any) -> MongoKind:
    """Return the kind of a value of extended JSON."""
    match value:
        case None:
            return MongoKind.NULL
        case bool():
            return MongoKind.BOOLEAN
        case JsonNumber():
            return MongoKind.NUMBER
        case str():
            return MongoKind.TEXT
        case dict() if (names := frozenset(value)) in _OBJECTS:
            return _OBJECTS[names][0]
        case _:
            return MongoKind.NESTED


_OBJECTS: dict[frozenset[str], tuple[MongoKind, Callable[[Mapping[str, Any]], Any]]] = {
    frozenset(names): (kind, convert)
    for names, kind, convert in (
        (("$oid",), MongoKind.OBJECT_ID, lambda value: _string(value["$oid"])),
        (("$numberInt",), MongoKind.NUMBER, lambda value: _integer(value["$numberInt"])),
        (("$numberLong",), MongoKind.NUMBER, lambda value: _integer(value["$numberLong"])),
        (("$numberDouble",), MongoKind.NUMBER, lambda value: _double(value["$numberDouble"])),
        (
            ("$numberDecimal",),
            MongoKind.NUMBER,
            lambda value: _decimal_text(value["$numberDecimal"]),
        ),
        (("$date",), MongoKind.MOMENT, lambda value: _date(value["$date"])),
        (("$timestamp",), MongoKind.MOMENT, lambda value: _integer(value["$timestamp"]["t"])),
        (("$binary",), MongoKind.BYTES, _binary_of),
        (("$binary", "$type"), MongoKind.BYTES, _binary_of),
        (("$uuid",), MongoKind.BYTES, lambda value: str(uuid.UUID(_string(value["$uuid"])))),
        (("$regularExpression",), MongoKind.OTHER, _pattern_of),
        (_REGEX, MongoKind.OTHER, lambda value: _pattern(*map(value.get, _REGEX))),
        (("$symbol",), MongoKind.TEXT, lambda value: _string(value["$symbol"])),
        (("$code",), MongoKind.OTHER, lambda value: _string(value["$code"])),
        (("$code", "$scope"), MongoKind.OTHER, _code_with_scope),
        (("$dbPointer",), MongoKind.OTHER, _db_pointer_text),
        (("$undefined",), MongoKind.NULL, lambda _: None),
        (("$minKey",), MongoKind.OTHER, lambda _: "BsonMinKey"),
        (("$maxKey",), MongoKind.OTHER, lambda _: "BsonMaxKey"),
    )
}
"""The names in an object of each kind → the kind, and the function of its value. An object with
other names is a document."""


def java_double(value: float) -> str:
    """Return the text that Java's `Double.toString` returns for a finite number."""
    sign, digits, exponent = decimal.Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int)
    digit_text = "".join(map(str, digits))
    point = len(digit_text) + exponent
    minus = "-" if sign else ""
    if value == 0:
        return f"{minus}0.0"
    if not _PLAIN_MIN < point <= _PLAIN_MAX:
        return f"{minus}{digit_text[0]}.{digit_text[1:] or '0'}E{point - 1}"
    if point <= 0:
        return f"{minus}0.{'0' * -point}{digit_text}"
    return f"{minus}{digit_text[:point].ljust(point, '0')}.{digit_text[point:] or '0'}"
