"""Reads many Protobuf messages of one type together, by a cursor in each of n messages.

A field begins with its number, so each message names its next field. A step reads one field of
every message that has more. Messages of a type mostly have the same fields in the same order, so
the loops are over fields, never over messages.

A broken message never affects others (`avro_cursor`). The reader of single messages reads those
with more fields than `_STEPS_MAX`, and those with a value that the cursor cannot hold exactly.

Source: Protobuf's "Encoding".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stream_app.arrow_buffers import Bools, Int64s, bytes_of, offsets_of
from stream_app.cdc.wire.avro.avro_cursor import AvroValues, ValueCursor, from_zigzag
from stream_app.cdc.wire.protobuf.protobuf_fields import (
    WIRE_32,
    WIRE_64,
    WIRE_LENGTH,
    WIRE_VARINT,
    FieldKind,
    ProtobufField,
)
from stream_app.cdc.wire.wire_format import HEAD

_STEPS_MAX = 400
_NANOS_OF_SECOND = 10**9
_SECONDS_MAX = 9_000_000_000
"""The maximum seconds of a moment whose nanoseconds fit into 64 bits.

The reader of single messages refuses later moments.
"""
PATH_MAX = 8
"""The most indices of a message's type: a type within a type within a type, and so on."""
_UINT32 = np.uint64(2**32 - 1)
_FIXED_FORMATS = {
    FieldKind.FIXED32: "<u4",
    FieldKind.SFIXED32: "<i4",
    FieldKind.FLOAT: "<f4",
    FieldKind.FIXED64: "<u8",
    FieldKind.SFIXED64: "<i8",
    FieldKind.DOUBLE: "<f8",
}
_DTYPES = {"boolean": np.bool_, "float": np.float32, "double": np.float64}
_SECONDS = ProtobufField("seconds", 1, FieldKind.INT64, has_presence=False)
_NANOS_FIELD = ProtobufField("nanos", 2, FieldKind.INT32, has_presence=False)


def protobuf_cursor(messages: pa.Array) -> ProtobufCursor:
    """Return a cursor in messages of the wire format, binary [n], at the indices of their type."""
    offsets = offsets_of(messages).astype(np.int64)
    starts = np.minimum(offsets[:-1] + HEAD.size, offsets[1:])
    return ProtobufCursor(bytes_of(messages)[: offsets[-1]], starts, offsets[1:])


class ProtobufCursor(ValueCursor):
    """A cursor over the fields of n messages, from the positions where they begin."""

    def read_paths(self) -> Int64s:
        """Read the indices of each message's type: int64 [n, PATH_MAX], -1 behind the last."""
        all_indices = np.arange(len(self.positions))
        indices = all_indices[self.positions < self._ends]
        paths: Int64s = np.full((len(self.positions), PATH_MAX), -1, np.int64)
        remaining_counts = self._read_longs(indices)
        is_wrong = (remaining_counts < 0) | (remaining_counts > PATH_MAX)
        self._mark_broken(indices[is_wrong])
        paths[indices[remaining_counts == 0], 0] = 0
        remaining_counts = np.where(is_wrong, 0, remaining_counts)
        for step in range(PATH_MAX):
            indices = indices[remaining_counts > 0]
            remaining_counts = remaining_counts[remaining_counts > 0] - 1
            if not len(indices):
                break
            paths[indices, step] = self._read_longs(indices)
        return paths

    def read_fields(self, fields: Sequence[ProtobufField]) -> Mapping[str, AvroValues]:
        """Read all messages to their ends, and return the values of these fields, by name."""
        values_by_field_number = {
            field.field_number: _FieldValues(field, self.positions) for field in fields
        }
        indices = np.flatnonzero(self.positions < self._ends)
        for _ in range(_STEPS_MAX):
            if not len(indices):
                break
            tags = self._read_varints(indices)
            for tag in np.unique(tags).tolist():  # mostly one
                self._read_field(int(tag), indices[tags == tag], values_by_field_number)
            indices = indices[self.positions[indices] < self._ends[indices]]
        self._mark_broken(indices)
        self._leave_choices(values_by_field_number.values())
        return {
            field_values.field.name: field_values.values()
            for field_values in values_by_field_number.values()
        }

    def _leave_choices(self, fields: Iterable[_FieldValues]) -> None:
        """Leave messages to Google's parser if they need a default.

        The same applies to messages with several members of a oneof.
        """
        members_of_choice: dict[str, Bools] = {}
        for field_values in fields:
            if field_values.field.has_default:
                self._mark_broken(np.flatnonzero(~field_values.is_present))
            if choice := field_values.field.choice:
                other_members = members_of_choice.get(
                    choice, np.zeros(len(self.positions), np.bool_)
                )
                self._mark_broken(np.flatnonzero(other_members & field_values.is_present))
                members_of_choice[choice] = other_members | field_values.is_present

    def _read_field(
        self, tag: int, indices: Int64s, values_by_field_number: Mapping[int, _FieldValues]
    ) -> None:
        field_number, wire_type = tag >> 3, tag & 7
        field_values = values_by_field_number.get(field_number)
        if field_number == 0 or wire_type not in (WIRE_VARINT, WIRE_64, WIRE_LENGTH, WIRE_32):
            self._mark_broken(indices)
        elif field_values is not None and field_values.field.kind is FieldKind.OTHER:
            field_values.is_present[indices] = True
            self._skip(wire_type, indices)
        elif field_values is None:
            self._skip(wire_type, indices)
        elif field_values.field.kind.wire_type != wire_type:
            self._mark_broken(indices)
        elif wire_type == WIRE_LENGTH:
            self._read_bytes_field(field_values, indices)
        else:
            self._read_number_field(field_values, indices)

    def _skip(self, wire_type: int, indices: Int64s) -> None:
        if wire_type == WIRE_VARINT:
            self._read_varints(indices)
        elif wire_type == WIRE_LENGTH:
            self._read_lengths(indices)
        else:
            self._read_bytes(indices, 8 if wire_type == WIRE_64 else 4)

    def _read_lengths(self, indices: Int64s) -> tuple[Int64s, Int64s]:
        """Read the starts and lengths of values, and move the cursor to their ends."""
        starts, lengths = self._read_spans(indices, self._read_varints(indices).view(np.int64))
        self._mark_broken(indices[self.positions[indices] > self._ends[indices]])
        return starts, lengths

    def _read_number_field(self, field_values: _FieldValues, indices: Int64s) -> None:
        field_kind = field_values.field.kind
        if field_kind.wire_type == WIRE_VARINT:
            values = _varint_values(field_kind, self._read_varints(indices))
        else:
            size = 8 if field_kind.wire_type == WIRE_64 else 4
            data = np.ascontiguousarray(self._read_bytes(indices, size))
            values = data.view(_FIXED_FORMATS[field_kind])[:, 0]
        if field_kind in (FieldKind.UINT64, FieldKind.FIXED64):
            # A signed number of 64 bits cannot hold these.
            self._mark_broken(indices[values.view(np.int64) < 0])
        field_values.put(indices, values)

    def _read_bytes_field(self, field_values: _FieldValues, indices: Int64s) -> None:
        """Read values with a length: texts, bytes, wrappers, and timestamps as nanoseconds."""
        starts, lengths = self._read_lengths(indices)
        if field_values.field.kind in (FieldKind.STRING, FieldKind.BYTES):
            field_values.put_bytes(indices, starts, lengths)
            return
        # Google's parser merges several parts of one message.
        self._mark_broken(indices[field_values.is_present[indices]])
        wrapped_field = field_values.field.inner
        inner_fields = [_SECONDS, _NANOS_FIELD] if wrapped_field is None else [wrapped_field]
        inner_cursor = self._cursor_within(
            starts, np.minimum(starts + lengths, self._ends[indices])
        )
        values = inner_cursor.read_fields(inner_fields)
        self._mark_broken(indices[inner_cursor.is_broken()])
        if wrapped_field is not None:
            field_values.put_inner(indices, values[wrapped_field.name])
            return
        seconds, nanos = (
            np.asarray(values[field.name].numeric_values, np.int64)
            for field in (_SECONDS, _NANOS_FIELD)
        )
        is_too_far = (np.abs(seconds) > _SECONDS_MAX) | (nanos < 0) | (nanos >= _NANOS_OF_SECOND)
        self._mark_broken(indices[is_too_far])
        field_values.put(indices, np.where(is_too_far, 0, seconds) * _NANOS_OF_SECOND + nanos)

    def _cursor_within(self, starts: Int64s, ends: Int64s) -> ProtobufCursor:
        """Return a cursor over parts of the messages; it shares their bytes."""
        return ProtobufCursor(self._data, starts, ends, is_padded=True)


def _varint_values(field_kind: FieldKind, raw: npt.NDArray[np.uint64]) -> npt.NDArray[Any]:
    match field_kind:
        case FieldKind.BOOL:
            truth_values: Bools = raw != 0
            return truth_values
        case FieldKind.SINT64 | FieldKind.SINT32:
            return from_zigzag(raw & _UINT32 if field_kind is FieldKind.SINT32 else raw)
        case FieldKind.INT32 | FieldKind.ENUM:
            return raw.astype(np.uint32).view(np.int32).astype(np.int64)
        case FieldKind.UINT32:
            return raw.astype(np.uint32).astype(np.int64)
        case _:
            signed_values: Int64s = raw.view(np.int64)
            return signed_values


class _FieldValues:
    """The values of a field in n messages so far; the last one of a message counts.

    Attributes:
        is_present: bool [n]; whether each message has the field.
    """

    def __init__(self, field: ProtobufField, starts: Int64s) -> None:
        count = len(starts)
        self.field = field
        self.is_present: Bools = np.zeros(count, np.bool_)
        value_field = field.inner or field
        self._value_field = value_field
        self._numeric_values: npt.NDArray[Any] = np.zeros(
            count, _DTYPES.get(value_field.kind.avro, np.int64)
        )
        self._starts, self._lengths = starts.copy(), np.zeros(count, np.int64)

    def put(self, indices: Int64s, values: npt.NDArray[np.generic]) -> None:
        """Take numbers, truth values or an enum's numbers."""
        self.is_present[indices] = True
        self._numeric_values[indices] = values

    def put_bytes(self, indices: Int64s, starts: Int64s, lengths: Int64s) -> None:
        """Take texts or bytes."""
        self.is_present[indices] = True
        self._starts[indices] = starts
        self._lengths[indices] = lengths

    def put_inner(self, indices: Int64s, values: AvroValues) -> None:
        """Take the values within wrappers, one of each."""
        self.is_present[indices] = True
        if values.numeric_values is not None:
            self._numeric_values[indices] = values.numeric_values
        if values.starts is not None and values.lengths is not None:
            self._starts[indices], self._lengths[indices] = values.starts, values.lengths

    def values(self) -> AvroValues:
        """Return the values of those messages that have one."""
        if self.field.kind is FieldKind.OTHER:
            # A message without the field may have an empty list.
            return AvroValues(None, np.arange(len(self.is_present)))
        indices = (
            np.flatnonzero(self.is_present)
            if self.field.has_presence
            else np.arange(len(self.is_present))
        )
        avro_type = self._value_field.avro_type
        if avro_type.kind in ("string", "bytes"):
            return AvroValues(
                avro_type, indices, None, self._starts[indices], self._lengths[indices]
            )
        numeric_values = self._numeric_values[indices]
        if self._value_field.kind is FieldKind.ENUM:
            symbols = np.array([*self._value_field.symbols], np.int64)
            order = np.argsort(symbols)
            symbol_indices = np.minimum(
                np.searchsorted(symbols[order], numeric_values), len(symbols) - 1
            )
            numeric_values = np.where(
                symbols[order][symbol_indices] == numeric_values, order[symbol_indices], -1
            )
        return AvroValues(avro_type, indices, numeric_values)
