"""Reads many Avro values of one schema together, by a cursor in each of n messages.

Avro's bytes have neither names nor lengths of records, so a field begins where the one before it
ends. The cursor reads field after field, and each of all messages at once. So its loops are over
fields, never over messages.

A broken message never affects others. Its position stays at the end of the buffer, where no message
ends.

Source: Apache Avro's specification, "Binary encoding".
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stream_app.arrow_buffers import Bools, Bytes, Int64s, own_bytes, slices_of
from stream_app.cdc.wire.avro.avro_types import AvroType
from stream_app.cdc.wire.wire_format import HEAD

_PADDING = 16
_VARINT_BYTES_MAX = 10
_ITEMS_MAX = 256
"""The maximum items of a block; the reader of single messages reads messages with longer ones."""
_STEPS_MAX = 20_000
"""The most steps over items of arrays and maps; the reader of single messages reads the rest. A
step for one message costs as much as one for thousands."""


@dataclass(slots=True)
class AvroValues:
    """The values of one type in those messages that have one.

    Attributes:
        avro_type: the type of the values, never a union; None for values of several types, which
            are not read.
        indices: int64 [m]; those of the messages, ascending.
        numeric_values: the values of numbers, truth values or enums: [m].
        starts, lengths: int64 [m]; the places of bytes and texts in the cursor's buffer.
        fields: the fields of a record, by name.
    """

    avro_type: AvroType | None
    indices: Int64s
    numeric_values: npt.NDArray[np.generic] | None = None
    starts: Int64s | None = None
    lengths: Int64s | None = None
    fields: dict[str, AvroValues] = field(default_factory=dict)


def from_zigzag(encoded_values: npt.NDArray[np.uint64]) -> Int64s:
    """Return signed numbers from their zigzag encoding: int64 [n].

    The encoding folds the sign into the lowest bit.
    """
    lowest = np.uint64(1)
    return ((encoded_values >> lowest) ^ (~(encoded_values & lowest) + lowest)).view(np.int64)


def cursor_over(messages: pa.Array, root: AvroType) -> tuple[ValueCursor, AvroValues]:
    """Return a cursor over messages of one schema, and their values.

    The messages are in the wire format: binary [n].
    """
    data, offsets = own_bytes(messages)
    cursor = ValueCursor(data, offsets[:-1] + HEAD.size, offsets[1:])
    return cursor, cursor.read(root, np.arange(len(messages)))


class ValueCursor:
    """A cursor over the values of n messages, from the positions where they begin.

    Attributes:
        positions: int64 [n]; where the next value of each message begins.
    """

    def __init__(
        self, data: Bytes, starts: Int64s, ends: Int64s, *, is_padded: bool = False
    ) -> None:
        """Begin at the starts.

        Args:
            data: the bytes of all messages.
            starts, ends: int64 [n]; the bounds of each message in the data.
            is_padded: whether the data is that of another cursor.
        """
        self._data = data if is_padded else np.concatenate([data, np.zeros(_PADDING, np.uint8)])
        self._ends = ends
        self._broken_position = len(self._data) - _PADDING + 1
        """The position of broken messages; no message ends there."""
        self.positions = starts.copy()
        self._step_count = 0

    def is_broken(self) -> Bools:
        """Return the mask of messages whose last value does not end where they end: bool [n]."""
        is_broken: Bools = self.positions != self._ends
        return is_broken

    def read(self, avro_type: AvroType, indices: Int64s) -> AvroValues:
        """Read a value in each of these messages."""
        match avro_type.kind:
            case "null":
                return AvroValues(avro_type, indices)
            case "record":
                fields = {
                    name: self.read(field_type, indices) for name, field_type in avro_type.fields
                }
                return AvroValues(avro_type, indices, fields=fields)
            case "union":
                return self._read_union(avro_type, indices)
            case "array" | "map":
                self._skip_blocks(avro_type, indices)
                return AvroValues(None, indices)
            case _:
                return self._read_scalar(avro_type, indices)

    def _read_scalar(self, avro_type: AvroType, indices: Int64s) -> AvroValues:
        match avro_type.kind:
            case "boolean":
                return AvroValues(avro_type, indices, self._read_bytes(indices, 1)[:, 0] != 0)
            case "int" | "long" | "enum":
                return AvroValues(avro_type, indices, self._read_longs(indices))
            case "float" | "double":
                size, dtype = (4, "<f4") if avro_type.kind == "float" else (8, "<f8")
                raw = np.ascontiguousarray(self._read_bytes(indices, size))
                return AvroValues(avro_type, indices, raw.view(dtype)[:, 0])
            case "bytes" | "string":
                starts, lengths = self._read_spans(indices, self._read_longs(indices))
                return AvroValues(avro_type, indices, starts=starts, lengths=lengths)
            case _:
                sizes = np.full(len(indices), avro_type.size, np.int64)
                starts, lengths = self._read_spans(indices, sizes)
                return AvroValues(avro_type, indices, starts=starts, lengths=lengths)

    def _read_union(self, avro_type: AvroType, indices: Int64s) -> AvroValues:
        branch_indices = self._read_longs(indices)
        is_branch = (branch_indices >= 0) & (branch_indices < len(avro_type.branches))
        self._mark_broken(indices[~is_branch])
        values = []
        for branch_index, branch in enumerate(avro_type.branches):
            branch_rows = indices[branch_indices == branch_index]
            if branch.kind != "null" and len(branch_rows):
                values.append(self.read(branch, branch_rows))
        if len(values) == 1:
            return values[0]
        unread_indices = np.concatenate([np.empty(0, np.int64), *(part.indices for part in values)])
        return AvroValues(None, np.sort(unread_indices))

    def _read_spans(self, indices: Int64s, lengths: Int64s) -> tuple[Int64s, Int64s]:
        """Move the cursor over values of these lengths; return their starts and lengths."""
        is_wrong = (lengths < 0) | (lengths > self._broken_position)
        lengths = np.where(is_wrong, 0, lengths)
        starts = self.positions[indices]
        self.positions[indices] = np.minimum(starts + lengths, self._broken_position)
        self._mark_broken(indices[is_wrong])
        return starts, lengths

    def _read_bytes(self, indices: Int64s, size: int) -> Bytes:
        """Read the next bytes of each message: uint8 [m, size]."""
        positions = self.positions[indices]
        self.positions[indices] = np.minimum(positions + size, self._broken_position)
        next_bytes: Bytes = self._data[positions[:, None] + np.arange(size)]
        return next_bytes

    def _read_longs(self, indices: Int64s) -> Int64s:
        """Read numbers of variable length, zigzag: int64 [m]."""
        return from_zigzag(self._read_varints(indices))

    def _read_varints(self, indices: Int64s) -> npt.NDArray[np.uint64]:
        """Read numbers of variable length, least significant seven bits first: uint64 [m]."""
        positions = self.positions[indices]
        first_bytes = self._data[positions]
        positions = positions + 1
        values = (first_bytes & 0x7F).astype(np.uint64)
        unfinished_indices = np.flatnonzero(first_bytes >= 0x80)
        for byte_number in range(1, _VARINT_BYTES_MAX):
            if not len(unfinished_indices):
                break
            next_byte = self._data[np.minimum(positions[unfinished_indices], self._broken_position)]
            values[unfinished_indices] |= (next_byte & 0x7F).astype(np.uint64) << np.uint64(
                7 * byte_number
            )
            positions[unfinished_indices] += 1
            is_last = byte_number == _VARINT_BYTES_MAX - 1
            unfinished_indices = (
                unfinished_indices[next_byte > 1]
                if is_last
                else unfinished_indices[next_byte >= 0x80]
            )
        self.positions[indices] = np.minimum(positions, self._broken_position)
        self._mark_broken(indices[unfinished_indices])  # more than 64 bits
        return values

    def _skip_blocks(self, avro_type: AvroType, indices: Int64s) -> None:
        """Skip an array or a map: blocks of items, of which the last is empty."""
        assert avro_type.items is not None
        for _ in range(_ITEMS_MAX):  # as often as the longest has blocks
            if not len(indices):
                return
            counts = self._read_longs(indices)
            sized_rows = indices[counts < 0]
            if len(sized_rows):
                self._read_longs(sized_rows)
            remaining_counts = np.abs(counts)
            self._mark_broken(indices[remaining_counts > _ITEMS_MAX])
            has_items = (remaining_counts > 0) & (self.positions[indices] < self._broken_position)
            indices, remaining_counts = indices[has_items], remaining_counts[has_items]
            items = indices
            while len(items):  # as often as the longest block has items
                self._step_count += 1
                if self._step_count > _STEPS_MAX:
                    self._mark_broken(indices)
                    return
                if avro_type.kind == "map":
                    self._read_spans(items, self._read_longs(items))
                self.read(avro_type.items, items)
                remaining_counts = remaining_counts - 1
                items = items[remaining_counts > 0]
                remaining_counts = remaining_counts[remaining_counts > 0]
        self._mark_broken(indices)

    def _mark_broken(self, indices: Int64s) -> None:
        self.positions[indices] = self._broken_position

    def binary(self, values: AvroValues, is_intact: Bools) -> pa.Array:
        """Return the bytes of values in intact messages: binary [m].

        Args:
            is_intact: bool [n]; false for each broken message.
        """
        assert values.starts is not None
        assert values.lengths is not None
        mask = is_intact[values.indices]
        starts = values.starts[mask]
        return slices_of(self._data, starts, starts + values.lengths[mask])
