"""Checks the bytes of one Avro value, which fastavro reads too leniently.

fastavro takes an index of -1 for the last branch or symbol, and drops the bits of a number beyond
64. So a broken message would become a wrong row.

Source: Apache Avro's specification, "Binary encoding".
"""

from __future__ import annotations

from stream_app.cdc.wire.avro_types import AvroType

_VARINT_BYTES_MAX = 10
_FIXED_SIZES = {"null": 0, "boolean": 1, "float": 4, "double": 8}


def check_avro(root: AvroType, body: bytes) -> None:
    """Check indexes and numbers; the value's end and its texts are left to fastavro.

    Raises:
        ValueError: the bytes are no value of the type.
    """
    try:
        _value(root, body, 0)
    except IndexError:
        raise ValueError("it ends too early") from None


def _value(of: AvroType, body: bytes, at: int) -> int:
    """The place behind a value; recurses into each level of the schema."""
    match of.kind:
        case "int" | "long":
            return _long(body, at)[1]
        case "bytes" | "string":
            return _text(body, at)
        case "record":
            for _, declared in of.fields:
                at = _value(declared, body, at)
            return at
        case "union":
            index, at = _index(body, at, len(of.branches))
            return _value(of.branches[index], body, at)
        case "enum":
            return _index(body, at, len(of.attributes["symbols"]))[1]
        case "array" | "map":
            return _blocks(of, body, at)
        case "fixed":
            return at + of.size
        case kind:
            return at + _FIXED_SIZES[kind]


def _blocks(of: AvroType, body: bytes, at: int) -> int:
    assert of.items is not None
    while True:
        count, at = _long(body, at)
        if count == 0:
            return at
        if count < 0:  # the size of the block in bytes comes next
            _, at = _long(body, at)
        for _ in range(abs(count)):  # all items have bytes
            if of.kind == "map":
                at = _text(body, at)
            at = _value(of.items, body, at)
            if at > len(body):
                raise IndexError("the bytes end within a block")


def _text(body: bytes, at: int) -> int:
    length, at = _long(body, at)
    if length < 0:
        raise ValueError(f"a length is {length}")
    return at + length


def _index(body: bytes, at: int, count: int) -> tuple[int, int]:
    index, at = _long(body, at)
    if not 0 <= index < count:
        raise ValueError(f"{index} is the index of none of {count} branches or symbols")
    return index, at


def _long(body: bytes, at: int) -> tuple[int, int]:
    """A number of variable length, zigzag, and the place behind it."""
    number = shift = 0
    while True:
        byte = body[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift >= 7 * _VARINT_BYTES_MAX:
            raise ValueError(f"a number has more than {_VARINT_BYTES_MAX} bytes")
    if number >> 64:
        raise ValueError("a number has more than 64 bits")
    return (number >> 1) ^ -(number & 1), at
