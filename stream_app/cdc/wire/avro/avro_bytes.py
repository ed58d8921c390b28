"""Checks the bytes of one Avro value, which fastavro reads too leniently.

fastavro takes an index of -1 for the last branch or symbol, and drops the bits of a number beyond
64. So a broken message would become a wrong row.

Source: Apache Avro's specification, "Binary encoding".
"""

from __future__ import annotations

from stream_app.cdc.wire.avro.avro_types import AvroType

_VARINT_BYTES_MAX = 10
_FIXED_SIZES = {"null": 0, "boolean": 1, "float": 4, "double": 8}


def check_avro(root: AvroType, body: bytes) -> None:
    """Check indices and numbers; the value's end and its texts are left to fastavro.

    Raises:
        ValueError: the bytes are not a value of the type.
    """
    try:
        _value_end(root, body, 0)
    except IndexError:
        raise ValueError("it ends too early") from None


def _value_end(avro_type: AvroType, body: bytes, byte_offset: int) -> int:
    """Return the byte offset after a value; recurses into each level of the schema."""
    match avro_type.kind:
        case "int" | "long":
            return _long(body, byte_offset)[1]
        case "bytes" | "string":
            return _text_end(body, byte_offset)
        case "record":
            for _, field_type in avro_type.fields:
                byte_offset = _value_end(field_type, body, byte_offset)
            return byte_offset
        case "union":
            index, byte_offset = _index(body, byte_offset, len(avro_type.branches))
            return _value_end(avro_type.branches[index], body, byte_offset)
        case "enum":
            return _index(body, byte_offset, len(avro_type.attributes["symbols"]))[1]
        case "array" | "map":
            return _blocks_end(avro_type, body, byte_offset)
        case "fixed":
            return byte_offset + avro_type.size
        case kind:
            return byte_offset + _FIXED_SIZES[kind]


def _blocks_end(avro_type: AvroType, body: bytes, byte_offset: int) -> int:
    assert avro_type.items is not None
    while True:
        count, byte_offset = _long(body, byte_offset)
        if count == 0:
            return byte_offset
        if count < 0:  # the size of the block in bytes comes next
            _, byte_offset = _long(body, byte_offset)
        for _ in range(abs(count)):  # all items have bytes
            if avro_type.kind == "map":
                byte_offset = _text_end(body, byte_offset)
            byte_offset = _value_end(avro_type.items, body, byte_offset)
            if byte_offset > len(body):
                raise IndexError("the bytes end within a block")


def _text_end(body: bytes, byte_offset: int) -> int:
    length, byte_offset = _long(body, byte_offset)
    if length < 0:
        raise ValueError(f"a length is {length}")
    return byte_offset + length


def _index(body: bytes, byte_offset: int, count: int) -> tuple[int, int]:
    index, byte_offset = _long(body, byte_offset)
    if not 0 <= index < count:
        raise ValueError(f"{index} is the index of none of {count} branches or symbols")
    return index, byte_offset


def _long(body: bytes, byte_offset: int) -> tuple[int, int]:
    """Return a number of variable length, zigzag, and the byte offset after it."""
    value = shift = 0
    while True:
        byte = body[byte_offset]
        byte_offset += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift >= 7 * _VARINT_BYTES_MAX:
            raise ValueError(f"a number has more than {_VARINT_BYTES_MAX} bytes")
    if value >> 64:
        raise ValueError("a number has more than 64 bits")
    return (value >> 1) ^ -(value & 1), byte_offset
