"""The source table of each message, for any dialect, without decoding a row.

Implements `message_format.SourceReader.origins`. A dialect names the fields that it needs and tells
from them; they are parsed in columns, and message by message where that fails.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from stream_app.cdc.alike.documents import JsonNumber, load_document
from stream_app.cdc.alike.outcome import Index
from stream_app.cdc.columns.arrow_buffers import Bools, valid_of
from stream_app.cdc.columns.json_lines import looks_like_object, parse_objects
from stream_app.cdc.columns.nesting import deep_ones
from stream_app.cdc.record_images import UnreadableRecordError
from stream_app.cdc.source_tables import Origins, origins_of

_FEW = 32
"""So many messages are read one by one when they do not parse together."""


@dataclass(frozen=True, slots=True)
class Told:
    """What n messages tell of their tables.

    Attributes:
        names: string arrays [n] of database, schema and table.
        means_row: bool [n]; whether a message is about rows of its table.
    """

    names: tuple[pa.Array, pa.Array, pa.Array]
    means_row: Bools


@dataclass(frozen=True, slots=True)
class OriginFields:
    """How a dialect tells tables.

    Attributes:
        fields: of a message, that are read.
        tell: makes of their columns what the messages tell.
    """

    fields: pa.Schema
    tell: Callable[[Sequence[pa.Array]], Told]

    def origins(self, messages: pa.RecordBatch) -> Origins:
        """Of which source table each message tells; see `message_format.Format`."""
        values = messages.column("value")
        if values.type != pa.binary():
            values = values.cast(pa.binary())
        found = _Found(self, messages.num_rows)
        present: Index = np.flatnonzero(valid_of(values)).astype(np.int32)
        values = values.drop_null() if values.null_count else values
        readable = looks_like_object(values) & ~deep_ones(values)
        found.parse(values.filter(pa.array(readable)), present[readable])
        found.read(values.filter(pa.array(~readable)), present[~readable])
        return found.origins()


class _Found:
    """What is known of n messages so far."""

    def __init__(self, of: OriginFields, count: int) -> None:
        self._of = of
        self._count = count
        self._parts: list[tuple[Index, Told]] = []
        self._unreadable: dict[int, str] = {}

    def origins(self) -> Origins:
        places = np.full(self._count, -1, np.int64)
        at = 0
        for index, told in self._parts:
            places[index] = np.where(told.means_row, at + np.arange(len(index)), -1)
            at += len(index)
        wanted = pa.array(np.maximum(places, 0), mask=places < 0)
        names = []
        for position in range(3):
            parts = [told.names[position] for _, told in self._parts]
            joined = pa.concat_arrays([pa.array([], pa.string()), *parts])
            names.append(joined.take(wanted))
        for row in np.flatnonzero((places >= 0) & ~valid_of(names[2])).tolist():
            self._unreadable[row] = "is a change, and tells no table"  # a loop over bad ones
        return origins_of(names[0], names[1], names[2], self._unreadable)

    def parse(self, values: pa.Array, index: Index) -> None:
        """Take in messages, binary [m]; `index` has their positions."""
        if not len(values):
            return
        columns = parse_objects(values, self._of.fields)
        if columns is not None:
            self._parts.append((index, self._of.tell(columns)))
        elif len(values) <= _FEW:
            self.read(values, index)
        else:
            half = len(values) // 2
            self.parse(values.slice(0, half), index[:half])
            self.parse(values.slice(half), index[half:])

    def read(self, values: pa.Array, index: Index) -> None:
        """The same one by one."""
        for at, value in zip(index.tolist(), values.to_pylist(), strict=True):
            try:
                document = load_document(value)
                if document is None:
                    continue
                columns = [_field(document, field) for field in self._of.fields]
            except UnreadableRecordError as problem:
                self._unreadable[at] = str(problem)
            else:
                self._parts.append((np.array([at], np.int32), self._of.tell(columns)))


def _field(document: Any, field: pa.Field) -> pa.Array:
    """A field of one message as an array of one value."""
    if not isinstance(document, dict):
        raise UnreadableRecordError("has a JSON value that is no object")
    value = document.get(field.name)
    if pa.types.is_struct(field.type) and isinstance(value, dict):
        return pa.StructArray.from_arrays(
            [_field(value, each) for each in field.type], fields=list(field.type)
        )
    wanted = bool if pa.types.is_boolean(field.type) else str
    if value is None:
        return pa.nulls(1, field.type)
    if not isinstance(value, wanted) or isinstance(value, JsonNumber):
        raise UnreadableRecordError(f"has a {field.name!r} of a wrong kind")
    return pa.array([value], field.type)
