"""Encodes Thrift structs by the ids of their fields, without declarations.

A struct that is read, changed and written keeps all fields. So a table keeps a newer metastore's
fields that this client does not know.

Source: Apache Thrift, `doc/specs/thrift-binary-protocol.md`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any


class ThriftType(IntEnum):
    """The kinds of values, with the numbers that they have on the wire."""

    STOP = 0
    BOOL = 2
    BYTE = 3
    DOUBLE = 4
    I16 = 6
    I32 = 8
    I64 = 10
    STRING = 11
    STRUCT = 12
    MAP = 13
    SET = 14
    LIST = 15


@dataclass(frozen=True, slots=True)
class ThriftValue:
    """A value of one kind.

    Attributes:
        content: a number or bytes; a `Struct`; a `ThriftList` for a list or a set; a `ThriftMap`
            for a map.
    """

    kind: int
    content: Any


@dataclass(frozen=True, slots=True)
class ThriftList:
    """The content of a list or a set."""

    kind: int
    contents: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class ThriftMap:
    """The content of a map."""

    key_kind: int
    value_kind: int
    contents: tuple[tuple[Any, Any], ...]


@dataclass(frozen=True, slots=True)
class Struct:
    """A struct's fields by id; a missing field reads as empty or zero."""

    fields: Mapping[int, ThriftValue] = field(default_factory=dict)

    def with_fields(self, fields: Mapping[int, ThriftValue]) -> Struct:
        """Return the struct with new values for some fields."""
        return Struct({**self.fields, **fields})

    def text(self, field_id: int) -> str:
        """Return a field of kind STRING."""
        return _text_of_bytes(self._content(field_id, b""))

    def integer(self, field_id: int) -> int:
        """Return a field of an integer kind."""
        return int(self._content(field_id, 0))

    def struct(self, field_id: int) -> Struct:
        """Return a field of kind STRUCT."""
        content = self._content(field_id, Struct())
        assert isinstance(content, Struct)
        return content

    def texts(self, field_id: int) -> list[str]:
        """Return a field that is a list of strings."""
        return [_text_of_bytes(content) for content in self._items(field_id)]

    def structs(self, field_id: int) -> list[Struct]:
        """Return a field that is a list of structs."""
        return list(self._items(field_id))

    def text_map(self, field_id: int) -> dict[str, str]:
        """Return a field that is a map of strings."""
        pairs = self._content(field_id, _NO_PAIRS)
        return {_text_of_bytes(key): _text_of_bytes(value) for key, value in pairs.contents}

    def _items(self, field_id: int) -> tuple[Any, ...]:
        items = self._content(field_id, _NO_ITEMS)
        assert isinstance(items, ThriftList)
        return items.contents

    def _content(self, field_id: int, default: Any) -> Any:
        value = self.fields.get(field_id)
        return default if value is None else value.content


_NO_ITEMS = ThriftList(ThriftType.STRING, ())
_NO_PAIRS = ThriftMap(ThriftType.STRING, ThriftType.STRING, ())


def _text_of_bytes(content: bytes) -> str:
    return content.decode(errors="replace")


def text(value: str) -> ThriftValue:
    """Return a string."""
    return ThriftValue(ThriftType.STRING, value.encode())


def flag(value: bool) -> ThriftValue:
    """Return a boolean."""
    return ThriftValue(ThriftType.BOOL, value)


def i16(value: int) -> ThriftValue:
    """Return an integer of 16 bits."""
    return ThriftValue(ThriftType.I16, value)


def i32(value: int) -> ThriftValue:
    """Return an integer of 32 bits, or a member of an enum."""
    return ThriftValue(ThriftType.I32, value)


def i64(value: int) -> ThriftValue:
    """Return an integer of 64 bits."""
    return ThriftValue(ThriftType.I64, value)


def inner_struct(struct: Struct) -> ThriftValue:
    """Return a struct as a field."""
    return ThriftValue(ThriftType.STRUCT, struct)


def text_list(values: Iterable[str]) -> ThriftValue:
    """Return a list of strings."""
    return ThriftValue(
        ThriftType.LIST, ThriftList(ThriftType.STRING, tuple(value.encode() for value in values))
    )


def struct_list(values: Iterable[Struct]) -> ThriftValue:
    """Return a list of structs."""
    return ThriftValue(ThriftType.LIST, ThriftList(ThriftType.STRUCT, tuple(values)))


def text_map(values: Mapping[str, str]) -> ThriftValue:
    """Return a map of strings."""
    pairs = tuple((key.encode(), value.encode()) for key, value in values.items())
    return ThriftValue(ThriftType.MAP, ThriftMap(ThriftType.STRING, ThriftType.STRING, pairs))


_SCALARS = {
    ThriftType.BOOL: "Bool",
    ThriftType.BYTE: "Byte",
    ThriftType.DOUBLE: "Double",
    ThriftType.I16: "I16",
    ThriftType.I32: "I32",
    ThriftType.I64: "I64",
    ThriftType.STRING: "Binary",
}
"""Type of a scalar → the end of the names of a protocol's methods that read and write it."""


def read_struct(protocol: Any) -> Struct:
    """Read a struct by a protocol of the library `thrift`."""
    fields = {}
    protocol.readStructBegin()
    while True:
        _, kind, field_id = protocol.readFieldBegin()
        if kind == ThriftType.STOP:
            break
        fields[field_id] = ThriftValue(kind, _read_value(protocol, kind))
        protocol.readFieldEnd()
    protocol.readStructEnd()
    return Struct(fields)


def _read_value(protocol: Any, kind: int) -> Any:
    if kind == ThriftType.STRUCT:
        return read_struct(protocol)
    if kind == ThriftType.MAP:
        key_kind, value_kind, size = protocol.readMapBegin()
        pairs = tuple(
            (_read_value(protocol, key_kind), _read_value(protocol, value_kind))
            for _ in range(size)
        )
        protocol.readMapEnd()
        return ThriftMap(key_kind, value_kind, pairs)
    if kind in (ThriftType.LIST, ThriftType.SET):
        name = "List" if kind == ThriftType.LIST else "Set"
        item_kind, size = getattr(protocol, f"read{name}Begin")()
        items = tuple(_read_value(protocol, item_kind) for _ in range(size))
        getattr(protocol, f"read{name}End")()
        return ThriftList(item_kind, items)
    return getattr(protocol, f"read{_SCALARS[ThriftType(kind)]}")()


def write_struct(protocol: Any, struct: Struct) -> None:
    """Write a struct by a protocol of the library `thrift`."""
    protocol.writeStructBegin("")
    for field_id, value in struct.fields.items():
        protocol.writeFieldBegin("", value.kind, int(field_id))
        _write_value(protocol, value.kind, value.content)
        protocol.writeFieldEnd()
    protocol.writeFieldStop()
    protocol.writeStructEnd()


def _write_value(protocol: Any, kind: int, content: Any) -> None:
    if kind == ThriftType.STRUCT:
        write_struct(protocol, content)
    elif kind == ThriftType.MAP:
        protocol.writeMapBegin(content.key_kind, content.value_kind, len(content.contents))
        for key, value in content.contents:
            _write_value(protocol, content.key_kind, key)
            _write_value(protocol, content.value_kind, value)
        protocol.writeMapEnd()
    elif kind in (ThriftType.LIST, ThriftType.SET):
        name = "List" if kind == ThriftType.LIST else "Set"
        getattr(protocol, f"write{name}Begin")(content.kind, len(content.contents))
        for item in content.contents:
            _write_value(protocol, content.kind, item)
        getattr(protocol, f"write{name}End")()
    else:
        getattr(protocol, f"write{_SCALARS[ThriftType(kind)]}")(content)
