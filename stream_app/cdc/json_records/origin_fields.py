"""Reads a few fields of each message, but no row: its source table and its change time.

Implements parts of `message_format.SourceExtractor`. A dialect names the fields that it needs. Many
messages are parsed in columns, and in halves if they do not parse together. The remaining messages
are read one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stream_app.arrow_buffers import Bools, Int32s, gathered_array, valid_of
from stream_app.cdc.bad_reasons import UnreadableRecordError
from stream_app.cdc.change_batch import present_values
from stream_app.cdc.columns.json_lines import looks_like_object, parse_by_halves
from stream_app.cdc.columns.nesting_limit import are_too_deep
from stream_app.cdc.columns.time_columns import cast_isolating
from stream_app.cdc.json_message import JsonNumber, load_document
from stream_app.cdc.source_tables import Origins, origins_of

_INT64 = range(-(2**63), 2**63)
_MILLIS = pa.timestamp("ms", "UTC")
_SECONDS = "2024-02-29 23:59:59"
_TIME_TEXT = r"^\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.](?P<fraction>\d+))?Z?$"
TimesOfFields = Callable[[Sequence[pa.Array]], pa.Array]
"""Columns of fields → milliseconds of UTC, int64; null if unknown."""


@dataclass(slots=True)
class FieldReader:
    """A reader of a few fields of n messages, with the results so far.

    Attributes:
        fields: the fields to read: texts, truth values, whole numbers, and structs of them.
        parts: indices of messages, and the columns of their fields.
        unassigned_reasons: index of a message → why it cannot be assigned to a table.
    """

    fields: pa.Schema
    parts: list[tuple[Int32s, list[pa.Array]]] = field(default_factory=list)
    unassigned_reasons: dict[int, str] = field(default_factory=dict)

    def read(self, values: pa.Array, message_indices: Int32s) -> None:
        """Read messages, binary [m]; `message_indices` have their indices."""
        is_candidate = looks_like_object(values) & ~are_too_deep(values)
        candidates = values.filter(pa.array(is_candidate))
        for part, part_indices, columns in parse_by_halves(
            candidates, message_indices[is_candidate], self.fields
        ):
            if columns is None:
                self._read_one_by_one(part, part_indices)
            else:
                self.parts.append((part_indices, columns))
        self._read_one_by_one(
            values.filter(pa.array(~is_candidate)), message_indices[~is_candidate]
        )

    def _read_one_by_one(self, values: pa.Array, message_indices: Int32s) -> None:
        for message_index, value in zip(message_indices.tolist(), values.to_pylist(), strict=True):
            try:
                document = load_document(value)
                if document is None:
                    continue
                columns = [_read_field(document, field) for field in self.fields]
            except UnreadableRecordError as problem:
                self.unassigned_reasons[message_index] = str(problem)
            else:
                self.parts.append((np.array([message_index], np.int32), columns))

    def times(self, count: int, times_of: TimesOfFields) -> pa.Array:
        """Return the time of each change at the source: timestamp in ms of UTC [count]."""
        parts = [(message_indices, times_of(columns)) for message_indices, columns in self.parts]
        return gathered_array(parts, count, pa.int64()).view(_MILLIS)


def read_fields(messages: pa.RecordBatch, fields: pa.Schema) -> FieldReader:
    """Return the fields of all messages except tombstones; only ``value`` is read."""
    reader = FieldReader(fields)
    reader.read(*present_values(messages))
    return reader


def _read_field(document: Any, field: pa.Field) -> pa.Array:
    """Read a field of one message into an array of one value."""
    if not isinstance(document, dict):
        raise UnreadableRecordError("has a JSON value that is not an object")
    value = document.get(field.name)
    if pa.types.is_struct(field.type) and isinstance(value, dict):
        arrays = [_read_field(value, child) for child in field.type]
        return pa.StructArray.from_arrays(arrays, fields=list(field.type))
    if value is None:
        return pa.nulls(1, field.type)
    is_number = isinstance(value, JsonNumber)
    if pa.types.is_integer(field.type):
        digits = value.removeprefix("-") if is_number else ""
        fits = digits.isdecimal() and len(digits) < 20 and int(value) in _INT64
        value = int(value) if fits else None
    elif is_number or not _has_type(value, field.type):
        value = None
    if value is None:
        raise UnreadableRecordError(f"has a {field.name!r} of a wrong kind")
    return pa.array([value], field.type)


def _has_type(value: object, data_type: pa.DataType) -> bool:
    if pa.types.is_struct(data_type):
        return False  # the caller reads an object field by field
    return isinstance(value, bool if pa.types.is_boolean(data_type) else str)


class NamedOrigins(NamedTuple):
    """The table that each of n messages names, strings [n]; and the mask of messages with a row.

    The mask includes each message that may be a row; the decoder of its table judges it.
    """

    databases: pa.Array
    tables: pa.Array
    has_row: Bools


@dataclass(frozen=True, slots=True)
class OriginRule:
    """The rule by which a dialect finds a message's table.

    Attributes:
        fields: the fields of a message that are read.
        read: converts the fields' columns to the messages' tables, and marks the messages with a
            row.
    """

    fields: pa.Schema
    read: Callable[[Sequence[pa.Array]], NamedOrigins]

    def origins(self, messages: pa.RecordBatch) -> Origins:
        """Return the source table of each message; see `message_format.SourceExtractor`."""
        return self.origins_of(read_fields(messages, self.fields), messages.num_rows)

    def origins_of(self, reader: FieldReader, count: int) -> Origins:
        """Return the origins of messages, from their fields."""
        database_parts, table_parts = [], []
        for message_indices, columns in reader.parts:
            databases, tables, has_row = self.read(columns)
            mask, row_indices = pa.array(has_row), message_indices[has_row]
            tables = tables.filter(mask)
            database_parts.append((row_indices, databases.filter(mask)))
            table_parts.append((row_indices, tables))
            for message_index in row_indices[~valid_of(tables)].tolist():  # a loop over bad ones
                reader.unassigned_reasons[message_index] = "does not name its table"
        names = [
            gathered_array(parts, count, pa.string()) for parts in (database_parts, table_parts)
        ]
        return origins_of(
            names[0], pa.nulls(count, pa.string()), names[1], reader.unassigned_reasons
        )


def change_times(fields: pa.Schema, times_of: TimesOfFields, messages: pa.RecordBatch) -> pa.Array:
    """Return the time of each change; see `message_format.SourceExtractor`."""
    return read_fields(messages, fields).times(messages.num_rows, times_of)


def parse_times_ms(texts: pa.Array) -> pa.Array:
    """Parse texts such as ``2024-10-27 12:39:03.210671Z`` to ms of UTC; null for other texts.

    Four texts::

        texts      ["1970-01-01 00:00:03.210671Z", "1970-01-01T00:01:00", "1970-01-01", null]
        seconds    [3,                             60,                    null,         null]
        digits     ["210",                         null,                  null,         null]
                   [3210,                          60000,                 null,         null]
    """
    parts = pc.extract_regex(texts, _TIME_TEXT)
    texts = pc.if_else(pc.is_valid(parts), texts, pa.scalar(None, pa.string()))
    second_texts = pc.utf8_slice_codeunits(pc.replace_substring(texts, "T", " "), 0, len(_SECONDS))
    seconds = cast_isolating(second_texts, pa.timestamp("s")).cast(pa.int64())
    digits = pc.utf8_slice_codeunits(pc.utf8_rpad(pc.struct_field(parts, "fraction"), 3, "0"), 0, 3)
    fraction_ms = pc.fill_null(cast_isolating(digits, pa.int64()), 0)
    return pc.add(pc.multiply(seconds, 1000), fraction_ms)
