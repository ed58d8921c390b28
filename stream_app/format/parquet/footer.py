"""Replaces the descriptions that pyarrow writes for columns of a Parquet file.

A description has a column's physical type, and for example the unit of a timestamp. This module
only determines where each description in a footer begins and ends.

Source: Apache Parquet `parquet.thrift` (FileMetaData, SchemaElement).
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import BinaryIO

import pyarrow as pa

from stream_app.format.parquet.thrift_compact import (
    list_members,
    list_of_structs,
    raw_struct,
    struct_bytes,
)

_MAGIC = b"PAR1"
_TAIL = 8
"""The length of the footer in four bytes, and the magic."""
_FIRST_READ_SIZE = 64 << 10
"""The bytes of the first read, which has the whole footer of most files."""
_SCHEMA_FIELD = 2


def footer_of(end: bytes) -> bytes:
    """Return the footer from the last bytes of a file."""
    assert end[-4:] == _MAGIC, "the end of a Parquet file"
    length = int.from_bytes(end[-_TAIL:-4], "little")
    return end[len(end) - _TAIL - length : -_TAIL]


def read_end(source: pa.NativeFile) -> bytes:
    """Return the end of a file with at least the whole footer.

    A file that is not Parquet gives its last bytes.
    """
    size = source.size()
    end = _read_range(source, max(0, size - _FIRST_READ_SIZE), size)
    length = _TAIL + int.from_bytes(end[-_TAIL:-4], "little")
    if len(end) < length <= size:
        end = _read_range(source, size - length, size - len(end)) + end
    return end


def _read_range(source: pa.NativeFile, start: int, end: int) -> bytes:
    source.seek(start)
    data: bytes = source.read(end - start)
    return data


def column_descriptions(footer: bytes) -> list[bytes]:
    """Return the descriptions in a footer of flat columns, in order."""
    return list_members(raw_struct(footer)[_SCHEMA_FIELD])[1:]


def with_descriptions(footer: bytes, columns: Mapping[int, bytes]) -> bytes:
    """Return a footer of flat columns with descriptions replaced by column number."""
    fields = raw_struct(footer)
    elements = list_members(fields[_SCHEMA_FIELD])
    for index, element in columns.items():
        elements[index + 1] = element
    fields[_SCHEMA_FIELD] = list_of_structs(elements)
    return struct_bytes(fields)


class HeldBackFooter(io.RawIOBase):
    """A sink that passes on a file's bytes, but holds back the footer until `release`."""

    def __init__(self, sink: BinaryIO | pa.NativeFile) -> None:
        super().__init__()
        self._sink = sink
        self._held: bytearray | None = None

    def hold_back(self) -> None:
        """Begin to hold back bytes, which are the file's footer."""
        self._held = bytearray()

    def release(self, columns: Mapping[int, bytes]) -> None:
        """Pass on the footer with replaced descriptions of columns."""
        assert self._held is not None
        end, self._held = bytes(self._held), None
        if not end:
            return  # nothing was written because an earlier write failed
        footer = footer_of(end)
        new_footer = with_descriptions(footer, columns)
        self._sink.write(end[: len(end) - _TAIL - len(footer)])
        self._sink.write(new_footer + len(new_footer).to_bytes(4, "little") + _MAGIC)

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, data: bytes | pa.Buffer) -> int:
        """Pass on bytes, or hold them back."""
        if self._held is not None:
            self._held += memoryview(data)
        else:
            self._sink.write(data)
        return len(memoryview(data))

    def tell(self) -> int:
        """Return the writer's position in the file."""
        return self._sink.tell() + len(self._held or b"")
