"""Reads a VARIANT's bytes: a value's kind, its members or elements, and scalars as Python values.

It reads value by value, for texts, shredded files and paths.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal

from stream_app.variants import layout

Scalar = None | bool | int | float | Decimal | str | bytes


class MalformedVariantError(ValueError):
    """The bytes are not a valid VARIANT."""

    def __init__(self) -> None:
        super().__init__("bytes of a VARIANT are damaged")


@dataclass(frozen=True, slots=True)
class Variant:
    """A value inside of a VARIANT.

    Attributes:
        value: the bytes of the whole tree.
        metadata: the dictionary of names.
        position: where the value begins.
    """

    value: bytes
    metadata: bytes
    position: int = 0

    @property
    def basic_kind(self) -> int:
        """One of `layout.PRIMITIVE`, `SHORT_TEXT`, `OBJECT` and `ARRAY`."""
        return self._byte_at(self.position) & 3

    @property
    def kind(self) -> int:
        """The kind of a primitive, or the length of a short text."""
        return self._byte_at(self.position) >> 2

    @property
    def size(self) -> int:
        """The number of the value's bytes."""
        match self.basic_kind:
            case layout.SHORT_TEXT:
                return 1 + self.kind
            case layout.PRIMITIVE if self.kind in (layout.BINARY, layout.LONG_TEXT):
                return 5 + self._number_at(self.position + 1, 4)
            case layout.PRIMITIVE if self.kind in layout.SCALAR_SIZES:
                return 1 + layout.SCALAR_SIZES[self.kind]
            case layout.PRIMITIVE:
                raise MalformedVariantError
            case _:
                _, offsets, size, values = self._shape()
                count = (values - offsets) // size - 1
                return values - self.position + self._number_at(offsets + count * size, size)

    @property
    def content(self) -> bytes:
        """The bytes of this value alone."""
        if self.position + self.size > len(self.value):
            raise MalformedVariantError
        return self.value[self.position : self.position + self.size]

    def members(self) -> Iterator[tuple[str, Variant]]:
        """Yield the members of an object, by name."""
        ids, offsets, size, values = self._shape()
        count = (values - offsets) // size - 1
        id_size = (offsets - ids) // count if count else 1
        for index in range(count):
            name = self.name(self._number_at(ids + index * id_size, id_size))
            yield name, self._value_at(values + self._number_at(offsets + index * size, size))

    def elements(self) -> Iterator[Variant]:
        """Yield the elements of an array."""
        _, offsets, size, values = self._shape()
        for position in range(offsets, values - size, size):
            yield self._value_at(values + self._number_at(position, size))

    def name(self, name_number: int) -> str:
        """Return the dictionary's name with this number."""
        size = (self.metadata[0] >> 6) + 1 if self.metadata else 1
        count = _unsigned_at(self.metadata, 1, size)
        if name_number >= count:
            raise MalformedVariantError
        start, end = (
            _unsigned_at(self.metadata, 1 + (name_number + index) * size, size) for index in (1, 2)
        )
        names = 1 + (count + 2) * size
        if not start <= end <= len(self.metadata) - names:
            raise MalformedVariantError
        return _decode_text(self.metadata[names + start : names + end])

    def scalar(self) -> Scalar:
        """Return the value of a scalar; a date or time is its number, and a UUID its bytes."""
        content = self.content[1:]
        kind = self.kind
        if self.basic_kind == layout.SHORT_TEXT:
            return _decode_text(content)
        match kind:
            case layout.NULL:
                return None
            case layout.TRUE | layout.FALSE:
                return kind == layout.TRUE
            case layout.DOUBLE | layout.FLOAT:
                value: float = struct.unpack("<d" if kind == layout.DOUBLE else "<f", content)[0]
                return value
            case layout.LONG_TEXT:
                return _decode_text(content[4:])
            case layout.BINARY | layout.UUID:
                return content[4:] if kind == layout.BINARY else content
            case _:
                return _integer_or_decimal(kind, content)

    def _shape(self) -> tuple[int, int, int, int]:
        """Return the layout of a container.

        Returns:
            The positions of its ids and its offsets, an offset's size, and the values' position.
        """
        sizes = self.kind
        is_object = self.basic_kind == layout.OBJECT
        is_large = sizes >> (4 if is_object else 2) & 1
        ids = self.position + (5 if is_large else 2)
        count = self._number_at(self.position + 1, ids - self.position - 1)
        offset_size = (sizes & 3) + 1
        offsets = ids + (count * ((sizes >> 2 & 3) + 1) if is_object else 0)
        values = offsets + (count + 1) * offset_size
        if values > len(self.value):
            raise MalformedVariantError
        return ids, offsets, offset_size, values

    def _value_at(self, position: int) -> Variant:
        if position <= self.position:
            raise MalformedVariantError
        return Variant(self.value, self.metadata, position)

    def _byte_at(self, position: int) -> int:
        return _unsigned_at(self.value, position, 1)

    def _number_at(self, position: int, size: int) -> int:
        return _unsigned_at(self.value, position, size)


def _integer_or_decimal(kind: int, content: bytes) -> int | Decimal:
    if kind in layout.DECIMALS:
        unscaled_value = int.from_bytes(content[1:], "little", signed=True)
        digits = tuple(map(int, str(abs(unscaled_value))))
        return Decimal((int(unscaled_value < 0), digits, -content[0]))
    return int.from_bytes(content, "little", signed=True)


def _unsigned_at(data: bytes, position: int, size: int) -> int:
    if position + size > len(data):
        raise MalformedVariantError
    return int.from_bytes(data[position : position + size], "little")


def _decode_text(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise MalformedVariantError from None
