"""Splits values of Thrift's compact protocol into their bytes, and joins them again.

Parquet's footers, page indexes and page headers are such values. A value stays bytes until it is
read, so an unknown field survives a change of another field. Damaged bytes raise an IndexError or a
ValueError.

Source: Apache Thrift `thrift-compact-protocol.md`.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

I32, I64 = 5, 6
_STOP, _TRUE, _FALSE, _BYTE, _I16, _DOUBLE = 0, 1, 2, 3, 4, 7
_BINARY, _LIST, _SET, _STRUCT = 8, 9, 10, 12
_INTEGERS = (_I16, I32, I64)
_FIXED_SIZES = {_TRUE: 0, _FALSE: 0, _BYTE: 1, _DOUBLE: 8}
_DEPTH_MAX = 16
"""The maximum depth of nested structs; Parquet's own have six at most."""
_VARINT_BITS_MAX = 70
_LONG_LIST = 0x0F


class RawValue(NamedTuple):
    """A value that is not decoded.

    Attributes:
        type_code: the protocol's type code, which distinguishes true and false.
    """

    type_code: int
    data: bytes


RawStruct: TypeAlias = dict[int, RawValue]
"""The fields of a struct by their ids, in order."""


def raw_struct(data: bytes, byte_offset: int = 0) -> RawStruct:
    """Return the fields of the struct at a byte offset."""
    return raw_struct_and_end(data, byte_offset)[0]


def raw_struct_and_end(data: bytes, byte_offset: int) -> tuple[RawStruct, int]:
    """Return the fields of the struct at a byte offset, and the offset after it."""
    fields: RawStruct = {}
    field_id = 0
    while True:
        header = data[byte_offset]
        byte_offset += 1
        type_code = header & 0x0F
        if type_code == _STOP:
            return fields, byte_offset
        if header >> 4:
            field_id += header >> 4
        else:
            field_id, byte_offset = _zigzag(data, byte_offset)
        end = _end_of_value(data, byte_offset, type_code, 0)
        fields[field_id] = RawValue(type_code, data[byte_offset:end])
        byte_offset = end


def struct_bytes(fields: Mapping[int, RawValue]) -> bytes:
    """Encode a struct of fields with ascending ids."""
    parts: list[bytes] = []
    previous_id = 0
    for field_id, value in fields.items():
        assert 0 < field_id - previous_id <= 0x0F, "fields are in order and near each other"
        parts += (bytes([(field_id - previous_id) << 4 | value.type_code]), value.data)
        previous_id = field_id
    return b"".join((*parts, b"\0"))


def list_members(value: RawValue) -> list[bytes]:
    """Return the members of a list as bytes.

    Raises:
        ValueError: the value is not a list.
    """
    if value.type_code != _LIST:
        raise ValueError(f"type {value.type_code} is not a list")
    data = value.data
    count, type_code, byte_offset = _header_of_list(data, 0)
    bounds = [byte_offset]
    for _ in range(count):
        byte_offset = _end_of_value(data, byte_offset, _member_type(type_code), 0)
        bounds.append(byte_offset)
    return [data[start:end] for start, end in itertools.pairwise(bounds)]


def list_of_structs(structs: Sequence[bytes]) -> RawValue:
    """Encode a list of structs."""
    count = len(structs)
    head = (
        bytes([count << 4 | _STRUCT])
        if count < _LONG_LIST
        else bytes([_LONG_LIST << 4 | _STRUCT]) + _varint_bytes(count)
    )
    return RawValue(_LIST, b"".join((head, *structs)))


def decode_integer(value: RawValue) -> int:
    """Decode an integer.

    Raises:
        ValueError: the value is not an integer.
    """
    if value.type_code not in _INTEGERS:
        raise ValueError(f"type {value.type_code} is not an integer")
    return _zigzag(value.data, 0)[0]


def decode_integers(value: RawValue) -> list[int]:
    """Decode a list of integers."""
    return [_zigzag(member, 0)[0] for member in list_members(value)]


def decode_booleans(value: RawValue) -> list[bool]:
    """Decode a list of booleans."""
    return [member == b"\1" for member in list_members(value)]


def binaries(value: RawValue) -> list[bytes]:
    """Decode a list of texts or bytes."""
    return [member[_varint(member, 0)[1] :] for member in list_members(value)]


def integer_value(value: int) -> RawValue:
    """Encode a non-negative 64-bit integer."""
    return RawValue(I64, _varint_bytes(value << 1))


def _varint_bytes(value: int) -> bytes:
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    parts.append(value)
    return bytes(parts)


def _varint(data: bytes, byte_offset: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[byte_offset]
        byte_offset += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, byte_offset
        shift += 7
        if shift >= _VARINT_BITS_MAX:
            raise ValueError("an integer of more than 64 bits")


def _zigzag(data: bytes, byte_offset: int) -> tuple[int, int]:
    value, byte_offset = _varint(data, byte_offset)
    return (value >> 1) ^ -(value & 1), byte_offset


def _header_of_list(data: bytes, byte_offset: int) -> tuple[int, int, int]:
    """Return the number of members, their type code, and the byte offset of the first one."""
    header = data[byte_offset]
    byte_offset += 1
    count = header >> 4
    if count == _LONG_LIST:
        count, byte_offset = _varint(data, byte_offset)
    return count, header & 0x0F, byte_offset


def _member_type(type_code: int) -> int:
    # A boolean takes a byte only in a list.
    return _BYTE if type_code in (_TRUE, _FALSE) else type_code


def _end_of_value(data: bytes, byte_offset: int, type_code: int, depth: int) -> int:
    """Return the byte offset after a value."""
    if type_code in _INTEGERS:
        while data[byte_offset] > 0x7F:
            byte_offset += 1
        end = byte_offset + 1
    elif type_code == _BINARY:
        length, byte_offset = _varint(data, byte_offset)
        end = byte_offset + length
    elif type_code == _STRUCT:
        end = _end_of_struct(data, byte_offset, depth + 1)
    elif type_code in (_LIST, _SET):
        end = _end_of_list(data, byte_offset, depth)
    elif type_code in _FIXED_SIZES:
        end = byte_offset + _FIXED_SIZES[type_code]
    else:
        raise ValueError(f"a struct has a value of unknown type {type_code}")
    if end > len(data):
        raise IndexError("a value ends beyond the bytes")
    return end


def _end_of_list(data: bytes, byte_offset: int, depth: int) -> int:
    count, member_type, byte_offset = _header_of_list(data, byte_offset)
    if count > len(data):
        raise ValueError("a list of more members than bytes")
    for _ in range(count):
        byte_offset = _end_of_value(data, byte_offset, _member_type(member_type), depth)
    return byte_offset


def _end_of_struct(data: bytes, byte_offset: int, depth: int) -> int:
    """Return the byte offset after a struct."""
    if depth > _DEPTH_MAX:
        raise ValueError("structs are nested too deeply")
    while True:
        header = data[byte_offset]
        byte_offset += 1
        type_code = header & 0x0F
        if type_code == _STOP:
            return byte_offset
        if header < 0x10:
            while data[byte_offset] > 0x7F:
                byte_offset += 1
            byte_offset += 1
        # Most fields are integers, so they are skipped without a call.
        if type_code in (I32, I64):
            while data[byte_offset] > 0x7F:
                byte_offset += 1
            byte_offset += 1
        else:
            byte_offset = _end_of_value(data, byte_offset, type_code, depth)
