"""Judges MongoDB's values for columns other than STRING: some kinds have no meaning there.

Plain JSON has fewer kinds than BSON: a date, a long and a timestamp are numbers, and an ObjectId, a
code and bytes are texts. So a value is judged before its kind is lost. A value without a meaning in
its column makes the record bad.

1. `is_unusual_document` finds, many documents at once, those with other kinds of values than their
   columns expect. `plain_documents` rewrites all others together.
2. `typed_value` judges and converts one value of an unusual document.

Source: MongoDB's "MongoDB Extended JSON (v2)".
"""

from __future__ import annotations

import base64
import datetime
import enum
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stream_app.arrow_buffers import Bools, bools_of
from stream_app.cdc.bad_reasons import UnreadableRecordError
from stream_app.cdc.columns.column_reading import Encoding, Family, family_of
from stream_app.cdc.debezium.bson.extended_json import (
    UNIX_START,
    MongoKind,
    moment_ms,
    mongo_kind_of,
    plain_value,
    raw_bytes,
)
from stream_app.cdc.json_message import JsonNumber, json_text
from stream_app.model.schema.data_type import BINARY_ROOTS, LIST_ROOTS, DataType, TypeRoot

_SHOWN_LENGTH_MAX = 80
_ESCAPED_NAME = r'\\.[^"]*"\s*:'
"""A name with a backslash in it, or a text that looks like one."""
_KINDS_OF_NUMBERS = frozenset(
    {MongoKind.TEXT, MongoKind.NUMBER, MongoKind.BOOLEAN, MongoKind.MOMENT}
)
_ALLOWED_KINDS: Mapping[Family, frozenset[MongoKind]] = {
    Family.STRING: frozenset(MongoKind),
    Family.BOOLEAN: _KINDS_OF_NUMBERS - {MongoKind.MOMENT},
    Family.INTEGER: _KINDS_OF_NUMBERS,
    Family.FLOAT: _KINDS_OF_NUMBERS,
    Family.DECIMAL: _KINDS_OF_NUMBERS,
    Family.DATE: frozenset({MongoKind.TEXT, MongoKind.MOMENT}),
    Family.TIMESTAMP: frozenset({MongoKind.TEXT, MongoKind.MOMENT}),
    Family.TIME: frozenset({MongoKind.TEXT}),
    Family.BINARY: frozenset({MongoKind.BYTES, MongoKind.OBJECT_ID}),
    Family.NESTED: frozenset({MongoKind.TEXT, MongoKind.NESTED}),
    Family.VARIANT: frozenset(MongoKind),
}
_KINDS_IF_CHOSEN: Mapping[Family, MongoKind] = {
    **dict.fromkeys((Family.DATE, Family.TIME, Family.TIMESTAMP), MongoKind.NUMBER),
    Family.BINARY: MongoKind.TEXT,
}
"""The kinds that a column takes in addition if an option says what it counts or holds."""


class UsualValue(enum.StrEnum):
    """The form of a value that may be rewritten together with those of other documents."""

    NULL = "null"
    BOOLEAN = "boolean"
    TEXT = "text"
    NUMBER = "number"
    TIMESTAMP = "timestamp"
    LIST = "list"


_PATTERNS: Mapping[UsualValue, str] = {
    UsualValue.NULL: "null",
    UsualValue.BOOLEAN: "true|false",
    UsualValue.TEXT: '"',
    UsualValue.NUMBER: r'-?[0-9]|\{\s*"\$number(?:Int|Long)"',
    UsualValue.TIMESTAMP: r'\{\s*"\$date"\s*:\s*-?[0-9]',
    UsualValue.LIST: r'\[[^\[\]{"]*\]',
}
_KINDS: Mapping[UsualValue, MongoKind] = {
    UsualValue.NULL: MongoKind.NULL,
    UsualValue.BOOLEAN: MongoKind.BOOLEAN,
    UsualValue.TEXT: MongoKind.TEXT,
    UsualValue.NUMBER: MongoKind.NUMBER,
    UsualValue.TIMESTAMP: MongoKind.MOMENT,
    UsualValue.LIST: MongoKind.NESTED,
}
_NULL = frozenset({UsualValue.NULL})
_DOCUMENTS = frozenset({UsualValue.NULL, UsualValue.BOOLEAN, UsualValue.NUMBER, UsualValue.LIST})
"""The forms that are JSON as they are; a text would need further quotes around its own."""


@dataclass(frozen=True, slots=True)
class TypedColumn:
    """A column of another type than STRING.

    Attributes:
        encoding: how its plain values are read.
        is_chosen: whether an option gives the encoding.
    """

    name: str
    data_type: DataType
    encoding: Encoding
    is_chosen: bool = False

    def allows(self, mongo_kind: MongoKind) -> bool:
        """Return whether such a value has a meaning in the column."""
        family = family_of(self.data_type)
        is_chosen_kind = self.is_chosen and _KINDS_IF_CHOSEN.get(family) is mongo_kind
        return (
            mongo_kind is MongoKind.NULL or mongo_kind in _ALLOWED_KINDS[family] or is_chosen_kind
        )

    def usual_forms(self) -> frozenset[UsualValue] | None:
        """Return the forms of values that may be rewritten together; None if all may."""
        family = family_of(self.data_type)
        if family is Family.STRING:
            return None
        if family is Family.NESTED:
            return self._usual_nested_forms()
        if family is Family.VARIANT:
            return _DOCUMENTS
        allowed_forms = frozenset(
            form for form, mongo_kind in _KINDS.items() if self.allows(mongo_kind)
        )
        is_moment = family in (Family.DATE, Family.TIMESTAMP)
        if is_moment and self.encoding is not Encoding.EPOCH_MILLIS:
            return allowed_forms - {UsualValue.TIMESTAMP}
        return allowed_forms

    def _usual_nested_forms(self) -> frozenset[UsualValue] | None:
        scalars = self.data_type.scalars()
        if all(family_of(scalar) is Family.STRING for scalar in scalars):
            return None
        holds_bytes = any(scalar.root in BINARY_ROOTS for scalar in scalars)
        return _NULL if holds_bytes else _NULL | {UsualValue.LIST}


def is_unusual_document(texts: pa.Array, typed_columns: Mapping[str, TypedColumn]) -> Bools:
    """Return the mask of documents with a value that its column does not accept: bool [n].

    Args:
        texts: strings [n] of extended JSON; null is never unusual.
    """
    is_unusual: Bools = np.zeros(len(texts), np.bool_)
    patterns = {
        name: "|".join(_PATTERNS[form] for form in sorted(usual_forms))
        for name, column in typed_columns.items()
        if (usual_forms := column.usual_forms()) is not None
    }
    if not patterns:
        return is_unusual
    for name, pattern in patterns.items():
        quoted_name = json.dumps(name, ensure_ascii=False)
        value = rf"[{{,]\s*{re.escape(quoted_name)}\s*:\s*(?:{pattern})"
        fits = bools_of(pc.match_substring_regex(texts, value))
        is_unusual |= bools_of(pc.match_substring(texts, quoted_name)) & ~fits
    return is_unusual | bools_of(pc.match_substring_regex(texts, _ESCAPED_NAME))


def typed_value(value: Any, column: TypedColumn) -> Any:
    """Return plain JSON of one value for its column.

    Raises:
        UnreadableRecordError: the value has no meaning in the column, or does not have the form of
            its kind.
    """
    mongo_kind = mongo_kind_of(value)
    if not column.allows(mongo_kind):
        raise _misfit(value, column, f"is {mongo_kind.value}, {_fix(column, mongo_kind)}")
    match family_of(column.data_type):
        case Family.BINARY if mongo_kind in (MongoKind.BYTES, MongoKind.OBJECT_ID):
            return _bytes(value, column)
        case Family.DATE | Family.TIMESTAMP if mongo_kind is MongoKind.MOMENT:
            return _moment(value, column)
        case Family.NESTED if mongo_kind is MongoKind.NESTED:
            return _convert_nested(value, column)
        case Family.VARIANT if mongo_kind is not MongoKind.NULL:
            return json_text(plain_value(value))
        case _:
            return plain_value(value)


def _fix(column: TypedColumn, mongo_kind: MongoKind) -> str:
    has_option = _KINDS_IF_CHOSEN.get(family_of(column.data_type)) is mongo_kind
    if has_option and column.name:
        return f"and its meaning there is not known (set column.{column.name}.encoding)"
    return "which has no meaning in the column"


def _misfit(value: Any, column: TypedColumn, reason: str) -> UnreadableRecordError:
    text = json_text(value)
    text = text if len(text) <= _SHOWN_LENGTH_MAX else text[:_SHOWN_LENGTH_MAX] + "…"
    return ColumnValueError(f"column {column.name!r} ({column.data_type}): {text} {reason}")


class ColumnValueError(UnreadableRecordError):
    """A value without a meaning in its column; the reason names both."""


def _moment(value: Any, column: TypedColumn) -> Any:
    """Return milliseconds if the column reads them, otherwise ISO 8601 text."""
    count = moment_ms(value)
    if column.encoding is Encoding.EPOCH_MILLIS:
        return JsonNumber(count)
    try:
        moment = UNIX_START + datetime.timedelta(milliseconds=count)
    except OverflowError:
        raise _misfit(value, column, "is outside what the column can hold") from None
    if column.data_type.root is not TypeRoot.DATE:
        return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    if moment.time() != datetime.time():
        raise _misfit(value, column, "has a time of day, which the column cannot hold")
    return moment.date().isoformat()


def _bytes(value: Any, column: TypedColumn) -> str:
    raw = raw_bytes(value)
    match column.encoding:
        case Encoding.BASE64:
            return base64.b64encode(raw).decode()
        case Encoding.HEX:
            return raw.hex()
        case encoding:
            raise _misfit(value, column, f"is bytes, and the column is read as {encoding.value}")


def _convert_nested(value: Any, column: TypedColumn) -> Any:
    """Convert a nested value as `column_reading` expects: times to ISO text, bytes to base64."""
    data_type = column.data_type
    if isinstance(value, list):
        element_type = data_type.element if data_type.root in LIST_ROOTS else None
        return [_inner(item, element_type, column.name) for item in value]
    fields = {field.name: field.data_type for field in data_type.fields}
    value_type = data_type.element if data_type.root is TypeRoot.MAP else None
    return {
        name: _inner(inner_value, fields.get(name, value_type), column.name)
        for name, inner_value in value.items()
    }


def _inner(value: Any, data_type: DataType | None, name: str) -> Any:
    if data_type is None:
        return plain_value(value)
    is_bytes = family_of(data_type) is Family.BINARY
    encoding = Encoding.BASE64 if is_bytes else Encoding.ISO
    return typed_value(value, TypedColumn(name, data_type, encoding))
