"""Parses one JSON message: keeps the text of numbers, checks repeated fields and depth.

The slow paths of all formats use it. Its decision that a message is not JSON is final.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import orjson

from stream_app.cdc.bad_reasons import UnreadableRecordError
from stream_app.cdc.columns.column_reading import JsonKind
from stream_app.cdc.columns.nesting_limit import NESTING_MAX, nests_too_deeply
from stream_app.cdc.rows.record_images import Cell, Image

_json_text = json.JSONEncoder(ensure_ascii=False).encode
"""Encodes a value as JSON; `json.dumps` would make an encoder for each text."""


class JsonNumber(str):
    """The text of a JSON number."""

    __slots__ = ()


class _RepeatingObject(dict[str, Any]):
    """A JSON object with repeated fields: its pairs in order, and the names of these fields."""

    pairs: Sequence[tuple[str, Any]] = ()
    repeated_names: frozenset[str] = frozenset()


def load_document(value: bytes) -> Any:
    """Return the document of a message.

    Raises:
        UnreadableRecordError: the message is not JSON.
    """
    try:
        text = value.decode()
    except UnicodeDecodeError as problem:
        raise UnreadableRecordError(
            f"is not UTF-8: {problem.reason} at byte {problem.start}"
        ) from None
    if not text.strip():
        raise UnreadableRecordError("is empty")
    if nests_too_deeply(value):
        raise UnreadableRecordError(f"is nested too deeply: more than {NESTING_MAX} levels")
    try:
        document = _DECODER.decode(text)
        if "\\u" in text:
            json_text(document).encode()  # a lone surrogate is not a character
    except json.JSONDecodeError as problem:
        raise UnreadableRecordError(
            f"is not JSON: {problem.msg} at character {problem.pos}"
        ) from None
    except UnicodeEncodeError:
        raise UnreadableRecordError("is not JSON: half of a surrogate pair") from None
    return document


def quick_document(value: bytes) -> Any:
    """Return the document of a message for callers that only need its names and kinds of values.

    If a field is repeated, the last one counts. Numbers may be rounded. The result is None if the
    message is not JSON.
    """
    try:
        return orjson.loads(value)
    except orjson.JSONDecodeError:  # also of 1e400, which no double holds
        pass
    try:
        document = json.loads(value.decode(), parse_int=float, parse_constant=refuse_constant)
        _json_text(document).encode()  # a lone surrogate is not a character
    except (ValueError, RecursionError, UnreadableRecordError):
        return None
    return document


def _object_of(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(document := dict(pairs)) == len(pairs):
        return document
    repeating_object = _RepeatingObject(document)
    repeating_object.pairs = pairs
    repeating_object.repeated_names = frozenset(
        name for name, count in Counter(name for name, _ in pairs).items() if count > 1
    )
    return repeating_object


def with_values(document: dict[str, Any], convert: Callable[[str, Any], Any]) -> dict[str, Any]:
    """Return the object with each value converted; repeated fields stay repeated.

    Args:
        convert: returns the new value for a field's name and value.
    """
    pairs = document.pairs if isinstance(document, _RepeatingObject) else document.items()
    return _object_of([(name, convert(name, value)) for name, value in pairs])


def refuse_constant(name: str) -> Any:
    """Refuse ``NaN`` and ``Infinity``, which Python's JSON parser takes for numbers.

    Raises:
        UnreadableRecordError: always.
    """
    raise UnreadableRecordError(f"is not JSON: a bare {name} is not a value")


_DECODER = json.JSONDecoder(
    object_pairs_hook=_object_of,
    parse_float=JsonNumber,
    parse_int=JsonNumber,
    parse_constant=refuse_constant,
)


def check_once(document: dict[str, Any], names: frozenset[str]) -> None:
    """Refuse an object that has one of these fields twice.

    Raises:
        UnreadableRecordError: the object has one of them twice.
    """
    if isinstance(document, _RepeatingObject) and (
        repeated_fields := document.repeated_names & names
    ):
        raise UnreadableRecordError(f"has the field {min(repeated_fields)!r} twice")


def text_of(document: dict[str, Any], name: str) -> str | None:
    """Return a text field of the envelope, or None if it is null or missing.

    Raises:
        UnreadableRecordError: the field has another type.
    """
    value = document.get(name)
    if value is None or (isinstance(value, str) and not isinstance(value, JsonNumber)):
        return value
    raise UnreadableRecordError(f"has a {name!r} that is a JSON {cell_of(value)[0].name.lower()}")


def image_of(value: Any, name: str, columns: frozenset[str]) -> Image | None:
    """Return the cells of a table's columns in an object; None for null.

    Args:
        name: name of the object's field, for the error.

    Raises:
        UnreadableRecordError: the value is not an object, or has a column twice.
    """
    if value is None:
        return None
    if not isinstance(value, dict):
        raise UnreadableRecordError(
            f"has a {name!r} that is a JSON {cell_of(value)[0].name.lower()}"
        )
    check_once(value, columns)
    return {column: cell_of(value[column]) for column in columns & value.keys()}


def cell_of(value: Any) -> Cell:
    """Return the kind of a value and its text."""
    match value:
        case None:
            return JsonKind.NULL, ""
        case bool():
            return JsonKind.BOOLEAN, "true" if value else "false"
        case JsonNumber():
            return JsonKind.NUMBER, str(value)
        case str():
            return JsonKind.STRING, value
        case list():
            return JsonKind.ARRAY, json_text(value)
        case _:
            return JsonKind.OBJECT, json_text(value)


def json_text(value: Any) -> str:
    """Return compact JSON with every number, and every field of an object, exactly as written."""
    parts: list[str] = []
    _write(value, parts.append)
    return "".join(parts)


def _write(value: Any, put: Callable[[str], None]) -> None:
    """Write a value; `NESTING_MAX` limits the recursion."""
    if isinstance(value, JsonNumber):
        put(value)
    elif isinstance(value, dict):
        pairs = value.pairs if isinstance(value, _RepeatingObject) else value.items()
        separator = "{"
        for name, item in pairs:
            put(f"{separator}{_json_text(name)}:")
            _write(item, put)
            separator = ","
        put("}" if pairs else "{}")
    elif isinstance(value, list):
        separator = "["
        for item in value:
            put(separator)
            _write(item, put)
            separator = ","
        put("]" if value else "[]")
    else:
        put(_json_text(value))
