"""Replaces the descriptions that pyarrow gave to columns of a Parquet file.

A description says what a column's bytes mean: its physical type, and whether they are a timestamp
of some unit. Nothing is interpreted here but where each description of a footer begins and ends.

Source: Apache Parquet `parquet.thrift` (FileMetaData, SchemaElement), Thrift's compact protocol.
"""

from __future__ import annotations

import io
import itertools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import BinaryIO

import pyarrow as pa

_MAGIC = b"PAR1"
_TAIL = 8
"""The length of the footer in four bytes, and the magic."""
_STOP, _TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = 0, 1, 2, 3, 7, 8, 9, 10, 12
_INTEGERS = (4, 5, 6)
_SCHEMA_FIELD = 2
_FIXED_SIZES = {_TRUE: 0, _FALSE: 0, _BYTE: 1, _DOUBLE: 8}


@dataclass(frozen=True, slots=True)
class SchemaElements:
    """A footer, cut at its descriptions.

    Attributes:
        parts: the root's, then each column's in order.
    """

    before: bytes
    parts: tuple[bytes, ...]
    after: bytes

    def with_columns(self, columns: Mapping[int, bytes]) -> SchemaElements:
        """The elements with other descriptions of these columns; the keys are columns' places."""
        parts = list(self.parts)
        for place, part in columns.items():
            parts[place + 1] = part
        return replace(self, parts=tuple(parts))

    def to_bytes(self) -> bytes:
        """The footer."""
        return b"".join((self.before, *self.parts, self.after))


def footer_of(end: bytes) -> bytes:
    """The footer in the last bytes of a file."""
    assert end[-4:] == _MAGIC, "the end of a Parquet file"
    length = int.from_bytes(end[-_TAIL:-4], "little")
    return end[len(end) - _TAIL - length : -_TAIL]


def schema_elements(footer: bytes) -> SchemaElements:
    """Cut a footer of flat columns at its descriptions."""
    reader = _Compact(footer)
    field_id, kind = reader.field(0)
    while field_id != _SCHEMA_FIELD:
        reader.skip(kind)
        field_id, kind = reader.field(field_id)
    count, _ = reader.list_header()
    bounds = [reader.place]
    for _ in range(count):
        reader.skip(_STRUCT)
        bounds.append(reader.place)
    parts = tuple(footer[start:stop] for start, stop in itertools.pairwise(bounds))
    return SchemaElements(footer[: bounds[0]], parts, footer[bounds[-1] :])


class HeldBackFooter(io.RawIOBase):
    """Passes a file's bytes on, but holds back its footer until that has been changed."""

    def __init__(self, sink: BinaryIO | pa.NativeFile) -> None:
        super().__init__()
        self._sink = sink
        self._held: bytearray | None = None

    def hold_back(self) -> None:
        """Hold back all later bytes, which are the file's footer."""
        self._held = bytearray()

    def release(self, columns: Mapping[int, bytes]) -> None:
        """Pass the footer on, with other descriptions of columns."""
        assert self._held is not None
        end, self._held = bytes(self._held), None
        if not end:
            return  # nothing was written, because writing has failed before
        footer = footer_of(end)
        changed = schema_elements(footer).with_columns(columns).to_bytes()
        self._sink.write(end[: len(end) - _TAIL - len(footer)])
        self._sink.write(changed + len(changed).to_bytes(4, "little") + _MAGIC)

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, data: bytes | pa.Buffer) -> int:
        """Pass bytes on, or hold them back."""
        if self._held is not None:
            self._held += memoryview(data)
        else:
            self._sink.write(data)
        return len(memoryview(data))

    def tell(self) -> int:
        """The writer's position in the file."""
        return self._sink.tell() + len(self._held or b"")


class _Compact:
    """Skips values of Thrift's compact protocol."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.place = 0

    def varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._data[self.place]
            self.place += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def field(self, last_id: int) -> tuple[int, int]:
        """Number and kind of the next field of a struct."""
        header = self._data[self.place]
        self.place += 1
        delta, kind = header >> 4, header & 0x0F
        if delta or kind == _STOP:
            return last_id + delta, kind
        zigzag = self.varint()
        return (zigzag >> 1) ^ -(zigzag & 1), kind

    def list_header(self) -> tuple[int, int]:
        """The number of a list's members, and their kind."""
        header = self._data[self.place]
        self.place += 1
        count = header >> 4
        return (self.varint() if count == 0x0F else count), header & 0x0F

    def skip(self, kind: int) -> None:
        """Skip one value."""
        if kind in _FIXED_SIZES:
            self.place += _FIXED_SIZES[kind]
        elif kind in _INTEGERS:
            self.varint()
        elif kind == _BINARY:
            length = self.varint()
            self.place += length
        elif kind in (_LIST, _SET):
            count, member = self.list_header()
            for _ in range(count):
                # A boolean alone in a list takes a byte.
                self.skip(_BYTE if member in (_TRUE, _FALSE) else member)
        else:
            assert kind == _STRUCT, f"kind {kind} in a footer"
            self._skip_struct()

    def _skip_struct(self) -> None:
        field_id, kind = self.field(0)
        while kind != _STOP:
            self.skip(kind)
            field_id, kind = self.field(field_id)
