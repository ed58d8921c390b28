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
    """Check indexes and numbers; the value's end and its texts are left to fastavro.

    Raises:
        ValueError: the bytes are not a value of the type.
    """
    try:
        _value_end(root, body, 0)
    except IndexError:
        raise ValueError("it ends too early") from None


def _value_end(avro_type: AvroType, body: bytes, position: int) -> int:
    """Return the position after a value; recurses into each level of the schema."""
    match avro_type.kind:
        case "int" | "long":
            return _long(body, position)[1]
        case "bytes" | "string":
            return _text_end(body, position)
        case "record":
            for _, field_type in avro_type.fields:
                position = _value_end(field_type, body, position)
            return position
        case "union":
            index, position = _index(body, position, len(avro_type.branches))
            return _value_end(avro_type.branches[index], body, position)
        case "enum":
            return _index(body, position, len(avro_type.attributes["symbols"]))[1]
        case "array" | "map":
            return _blocks_end(avro_type, body, position)
        case "fixed":
            return position + avro_type.size
        case kind:
            return position + _FIXED_SIZES[kind]


def _blocks_end(avro_type: AvroType, body: bytes, position: int) -> int:
    assert avro_type.items is not None
    while True:
        count, position = _long(body, position)
        if count == 0:
            return position
        if count < 0:  # the size of the block in bytes comes next
            _, position = _long(body, position)
        for _ in range(abs(count)):  # all items have bytes
            if avro_type.kind == "map":
                position = _text_end(body, position)
            position = _value_end(avro_type.items, body, position)
            if position > len(body):
                raise IndexError("the bytes end within a block")


def _text_end(body: bytes, position: int) -> int:
    length, position = _long(body, position)
    if length < 0:
        raise ValueError(f"a length is {length}")
    return position + length


def _index(body: bytes, position: int, count: int) -> tuple[int, int]:
    index, position = _long(body, position)
    if not 0 <= index < count:
        raise ValueError(f"{index} is the index of none of {count} branches or symbols")
    return index, position


def _long(body: bytes, position: int) -> tuple[int, int]:
    """Return a number of variable length, zigzag, and the position after it."""
    number = shift = 0
    while True:
        byte = body[position]
        position += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift >= 7 * _VARINT_BYTES_MAX:
            raise ValueError(f"a number has more than {_VARINT_BYTES_MAX} bytes")
    if number >> 64:
        raise ValueError("a number has more than 64 bits")
    return (number >> 1) ^ -(number & 1), position
