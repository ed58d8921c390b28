"""MongoDB's extended JSON → plain JSON with the values that Paimon's CDC stores.

An object such as ``{"$oid": "…"}`` becomes its text, ``{"$numberLong": "5"}`` becomes 5. The usual
kinds are replaced in the texts of many documents together. A text of JSON has such an object only
where it means one: within a string its quotes are escaped. Documents with other kinds are converted
one by one, as are those with documents within.

Source: MongoDB's "MongoDB Extended JSON (v2)"; Paimon `action/cdc/mongodb/BsonValueConvertor.java`.
"""

from __future__ import annotations

import base64
import binascii
import datetime
import decimal
import uuid
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stream_app.cdc.alike.documents import JsonNumber, check_once, json_text, load_document
from stream_app.cdc.columns.arrow_buffers import Bools, bytes_of, offsets_of, valid_of
from stream_app.cdc.debezium.bson.nested_arrays import arrays_as_texts
from stream_app.cdc.record_images import UnreadableRecordError

_KINDS = (
    ('"$oid"', r'\{\s*"\$oid"\s*:\s*("[0-9a-f]{24}")\s*\}'),
    ('"$numberLong"', r'\{\s*"\$numberLong"\s*:\s*"(-?(?:0|[1-9][0-9]*))"\s*\}'),
    ('"$numberInt"', r'\{\s*"\$numberInt"\s*:\s*"(-?(?:0|[1-9][0-9]*))"\s*\}'),
    # Behind the numbers: a date may have one.
    ('"$date"', r'\{\s*"\$date"\s*:\s*(-?[0-9]+)\s*\}'),
)
"""What a text of each kind contains, and what is replaced by its group."""
_FRACTION = r'([^\\]"\s*:\s*)(-?[0-9]+(?:[.][0-9]+(?:[eE][-+]?[0-9]+)?|[eE][-+]?[0-9]+))(\s*[,}])'
"""A field with such a number. Within a string a backslash stands before the quote."""
_NO_NUMBERS = frozenset({"NaN", "Infinity", "-Infinity"})
_UUID = 4
_OLD_UUID = 3
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MILLISECOND = datetime.timedelta(milliseconds=1)
_PLAIN_MAX, _PLAIN_MIN = 7, -3
"""Between these powers of ten Java writes a double without an exponent."""


def plain_documents(texts: pa.Array) -> tuple[pa.Array, Bools]:
    """Plain JSON of many texts, as `plain_document` gives it, and which of them cannot be read.

    Args:
        texts: strings [n] of extended JSON; null stays null.
    """
    told = texts
    for mark, pattern in _KINDS:
        if _has(texts, mark):
            texts = pc.replace_substring_regex(texts, pattern, r"\1")
    if _has_fractions(texts):
        texts = pc.replace_substring_regex(texts, _FRACTION, r'\1"\2"\3')
    odd = _with_brackets(texts)
    if not odd.any():
        return texts, odd
    flat, done = arrays_as_texts(texts.filter(pa.array(odd)))
    texts = pc.replace_with_mask(texts, pa.array(odd), flat)
    odd[odd] = ~done
    found: list[str | None] = []
    for text in told.filter(pa.array(odd)).to_pylist():  # a loop over documents with others within
        try:
            found.append(plain_document(text))
        except UnreadableRecordError:
            found.append(None)
    plain = pa.array(found, pa.string())
    unread = odd.copy()
    unread[odd] = ~valid_of(plain)
    return pc.replace_with_mask(texts, pa.array(odd), plain), unread


def _has_fractions(texts: pa.Array) -> bool:
    """Whether any of the texts may have a number with a fraction or an exponent."""
    data = bytes_of(texts)
    before, mark, behind = data[:-2], data[1:-1], data[2:]
    is_mark = (mark == ord(".")) | (mark | 32 == ord("e"))
    return bool((is_mark & (before - ord("0") < 10) & (behind != ord('"'))).any())


def _with_brackets(texts: pa.Array) -> Bools:
    """Which texts have more than one bracket that opens: bool [n]."""
    offsets, data = offsets_of(texts), bytes_of(texts)
    openings = np.flatnonzero(data[: offsets[-1]] | 32 == ord("{"))
    counts = np.diff(np.searchsorted(openings, offsets))
    found: Bools = (counts > 1) & valid_of(texts)
    return found


def _has(texts: pa.Array, mark: str) -> bool:
    """Whether any of the texts may have a mark; ten times faster than asking each."""
    data = texts.buffers()[2]
    return data is not None and data.to_pybytes().find(mark.encode()) >= 0


def plain_document(text: str) -> str:
    """Plain JSON of one text. What is nested in a field is a string of JSON.

    A number with a fraction is a string too: only so its digits stay as they are.

    Raises:
        UnreadableRecordError: it is no document of extended JSON.
    """
    found = _converted(load_document(text.encode()))
    if not isinstance(found, dict):
        raise UnreadableRecordError("is no document")
    return json_text({name: _flat(value) for name, value in found.items()})


def _flat(value: Any) -> Any:
    is_fraction = isinstance(value, JsonNumber) and not value.removeprefix("-").isdecimal()
    return json_text(value) if is_fraction or isinstance(value, dict | list) else value


def _converted(value: Any) -> Any:
    """A value of a document; calls itself at each level."""
    if isinstance(value, list):
        return [_converted(each) for each in value]
    if not isinstance(value, dict):
        return value
    names = frozenset(value)
    check_once(value, names)
    if names in _OBJECTS:
        try:
            return _OBJECTS[names](value)
        except (ValueError, TypeError, ArithmeticError, KeyError, binascii.Error):
            raise UnreadableRecordError(
                f"has the value {json_text(value)[:80]}, which is none of its kind"
            ) from None
    return {name: _converted(each) for name, each in value.items()}


def _text(value: Any) -> str:
    if not isinstance(value, str) or isinstance(value, JsonNumber):
        raise TypeError
    return value


def _number(value: Any) -> int:
    return int(value if isinstance(value, JsonNumber) else _text(value))


def _whole(value: Any) -> JsonNumber:
    return JsonNumber(_number(value))


def _double(value: Any) -> str:
    text = _text(value)
    return text if text in _NO_NUMBERS else JsonNumber(java_double(float(text)))


def _decimal(value: Any) -> str:
    text = _text(value)
    found = decimal.Decimal(text)
    if found.is_finite():
        return JsonNumber(str(found))
    return "NaN" if found.is_nan() else "Infinity" if found > 0 else "-Infinity"


def _date(value: Any) -> JsonNumber:
    """Milliseconds since 1970."""
    if isinstance(value, dict):
        return _whole(value["$numberLong"])
    if isinstance(value, JsonNumber):
        return _whole(value)
    moment = datetime.datetime.fromisoformat(_text(value))
    if moment.tzinfo is None:
        raise ValueError
    return JsonNumber((moment - _EPOCH) // _MILLISECOND)


def _binary(data: Any, kind: Any) -> str:
    raw = base64.b64decode(_text(data), validate=True)
    number = int(_text(kind), 16)
    if number == _OLD_UUID:
        raise ValueError  # the order of its bytes depends on the program that made it
    if number == _UUID:
        return str(uuid.UUID(bytes=raw))
    return base64.b64encode(raw).decode()


def _binary_of(value: Mapping[str, Any]) -> str:
    inner = value["$binary"]
    if isinstance(inner, dict):
        return _binary(inner["base64"], inner["subType"])
    return _binary(inner, value["$type"])


def _pattern(pattern: Any, options: Any) -> str:
    escaped = _text(pattern).replace("/", r"\/") or "(?:)"
    return f"/{escaped}/{_text(options)}"


def _pattern_of(value: Mapping[str, Any]) -> str:
    inner = value["$regularExpression"]
    return _pattern(inner["pattern"], inner["options"])


def _pointer(value: Mapping[str, Any]) -> str:
    inner = value["$dbPointer"]
    place = _converted(inner["$id"])
    return f"BsonDbPointer{{namespace='{_text(inner['$ref'])}', id={_text(place)}}}"


def _scoped(value: Mapping[str, Any]) -> Any:
    return {"$code": _text(value["$code"]), "$scope": _converted(value["$scope"])}


_OBJECTS: dict[frozenset[str], Callable[[Mapping[str, Any]], Any]] = {
    frozenset({"$oid"}): lambda value: _text(value["$oid"]),
    frozenset({"$numberInt"}): lambda value: _whole(value["$numberInt"]),
    frozenset({"$numberLong"}): lambda value: _whole(value["$numberLong"]),
    frozenset({"$numberDouble"}): lambda value: _double(value["$numberDouble"]),
    frozenset({"$numberDecimal"}): lambda value: _decimal(value["$numberDecimal"]),
    frozenset({"$date"}): lambda value: _date(value["$date"]),
    frozenset({"$timestamp"}): lambda value: _whole(value["$timestamp"]["t"]),
    frozenset({"$binary"}): _binary_of,
    frozenset({"$binary", "$type"}): _binary_of,
    frozenset({"$uuid"}): lambda value: str(uuid.UUID(_text(value["$uuid"]))),
    frozenset({"$regularExpression"}): _pattern_of,
    frozenset({"$regex", "$options"}): lambda value: _pattern(value["$regex"], value["$options"]),
    frozenset({"$symbol"}): lambda value: _text(value["$symbol"]),
    frozenset({"$code"}): lambda value: _text(value["$code"]),
    frozenset({"$code", "$scope"}): _scoped,
    frozenset({"$dbPointer"}): _pointer,
    frozenset({"$undefined"}): lambda _: None,
    frozenset({"$minKey"}): lambda _: "BsonMinKey",
    frozenset({"$maxKey"}): lambda _: "BsonMaxKey",
}
"""Names of an object of each kind → its value."""


def java_double(value: float) -> str:
    """The text that Java's `Double.toString` gives to a finite number."""
    sign, digits, exponent = decimal.Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int)
    shown = "".join(map(str, digits))
    point = len(shown) + exponent
    minus = "-" if sign else ""
    if value == 0:
        return f"{minus}0.0"
    if not _PLAIN_MIN < point <= _PLAIN_MAX:
        return f"{minus}{shown[0]}.{shown[1:] or '0'}E{point - 1}"
    if point <= 0:
        return f"{minus}0.{'0' * -point}{shown}"
    return f"{minus}{shown[:point].ljust(point, '0')}.{shown[point:] or '0'}"
