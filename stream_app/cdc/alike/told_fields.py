"""A few fields of each message, without its row: what messages tell of their source.

Many messages are parsed in columns, by halves where they do not parse together. What cannot be
parsed so is read message by message.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from stream_app.cdc.alike.documents import JsonNumber, load_document
from stream_app.cdc.alike.outcome import Index
from stream_app.cdc.columns.arrow_buffers import valid_of
from stream_app.cdc.columns.json_lines import looks_like_object, parse_by_halves
from stream_app.cdc.columns.nesting import deep_ones
from stream_app.cdc.record_images import UnreadableRecordError

_INT64 = range(-(2**63), 2**63)
_MILLIS = pa.timestamp("ms", "UTC")


@dataclass(slots=True)
class ToldFields:
    """The fields of some of n messages.

    Attributes:
        fields: that are read: texts, truth values, whole numbers, and structs of them.
        parts: positions of messages, and the columns of their fields.
        unreadable: position of a message → what is wrong with it.
    """

    fields: pa.Schema
    parts: list[tuple[Index, list[pa.Array]]] = field(default_factory=list)
    unreadable: dict[int, str] = field(default_factory=dict)

    def take(self, values: pa.Array, index: Index) -> None:
        """Read messages, binary [m]; `index` has their positions."""
        readable = looks_like_object(values) & ~deep_ones(values)
        plain = values.filter(pa.array(readable))
        for some, places, columns in parse_by_halves(plain, index[readable], self.fields):
            if columns is None:
                self._read(some, places)
            else:
                self.parts.append((places, columns))
        self._read(values.filter(pa.array(~readable)), index[~readable])

    def _read(self, values: pa.Array, index: Index) -> None:
        """The same one by one."""
        for at, value in zip(index.tolist(), values.to_pylist(), strict=True):
            try:
                document = load_document(value)
                if document is None:
                    continue
                columns = [_field(document, each) for each in self.fields]
            except UnreadableRecordError as problem:
                self.unreadable[at] = str(problem)
            else:
                self.parts.append((np.array([at], np.int32), columns))


def told_fields(messages: pa.RecordBatch, fields: pa.Schema) -> ToldFields:
    """The fields of all messages that are no tombstones.

    Args:
        messages: columns of `MESSAGE_SCHEMA`; only ``value`` is read.
    """
    values = messages.column("value")
    if values.type != pa.binary():
        values = values.cast(pa.binary())
    found = ToldFields(fields)
    found.take(values.drop_null(), np.flatnonzero(valid_of(values)).astype(np.int32))
    return found


def times_told(
    found: ToldFields, count: int, millis_of: Callable[[Sequence[pa.Array]], pa.Array]
) -> pa.Array:
    """Times that messages tell: timestamp in ms of UTC [n]; null: not told.

    Args:
        millis_of: columns of the fields → int64 in ms.
    """
    millis, known = np.zeros(count, np.int64), np.zeros(count, np.bool_)
    for index, columns in found.parts:
        told = millis_of(columns)
        known[index] = valid_of(told)
        millis[index] = told.fill_null(0).to_numpy()
    return pa.array(millis, mask=~known).view(_MILLIS)


def _field(document: Any, wanted: pa.Field) -> pa.Array:
    """A field of one message as an array of one value."""
    if not isinstance(document, dict):
        raise UnreadableRecordError("has a JSON value that is no object")
    value = document.get(wanted.name)
    if pa.types.is_struct(wanted.type) and isinstance(value, dict):
        return pa.StructArray.from_arrays(
            [_field(value, each) for each in wanted.type], fields=list(wanted.type)
        )
    if value is None:
        return pa.nulls(1, wanted.type)
    is_number = isinstance(value, JsonNumber)
    if pa.types.is_integer(wanted.type):
        digits = value.removeprefix("-") if is_number else ""
        fits = digits.isdecimal() and len(digits) < 20 and int(value) in _INT64
        value = int(value) if fits else None
    elif is_number or not _is_of(value, wanted.type):
        value = None
    if value is None:
        raise UnreadableRecordError(f"has a {wanted.name!r} of a wrong kind")
    return pa.array([value], wanted.type)


def _is_of(value: object, wanted: pa.DataType) -> bool:
    if pa.types.is_struct(wanted):
        return False  # an object has been taken apart
    return isinstance(value, bool if pa.types.is_boolean(wanted) else str)
