"""Encodes scalars of VARIANTs; the bytes are valid anywhere in a value."""

from __future__ import annotations

import struct
from decimal import Decimal

from stream_app.variants import layout


def _primitive(kind: int, content: bytes = b"") -> bytes:
    return bytes((kind << 2,)) + content


NULL = _primitive(layout.NULL)


def boolean(value: bool) -> bytes:
    """Encode a boolean."""
    return _primitive(layout.TRUE if value else layout.FALSE)


def integer(value: int) -> bytes:
    """Encode an integer of at most 64 bits, in as few bytes as possible."""
    for kind, size in layout.INTEGER_SIZES.items():
        if -(1 << 8 * size - 1) <= value < 1 << 8 * size - 1:
            return _primitive(kind, value.to_bytes(size, "little", signed=True))
    raise OverflowError(f"{value} has more than 64 bits")


def decimal(value: Decimal) -> bytes | None:
    """Encode a decimal with its scale, or return None if it has too many digits."""
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int), "the caller has seen that it is a number"
    unscaled_value = int("".join(map(str, digits)))
    scale = -exponent
    precision = len(str(unscaled_value))
    for kind, (size, digits_max) in layout.DECIMALS.items():
        if scale <= digits_max and precision <= digits_max:
            signed_value = -unscaled_value if sign else unscaled_value
            return _primitive(
                kind, bytes((scale,)) + signed_value.to_bytes(size, "little", signed=True)
            )
    return None


def float64(value: float) -> bytes:
    """Encode a 64-bit float."""
    return _primitive(layout.DOUBLE, struct.pack("<d", value))


def float32(value: float) -> bytes:
    """Encode a 32-bit float."""
    return _primitive(layout.FLOAT, struct.pack("<f", value))


def text(value: str) -> bytes:
    """Encode a text."""
    content = value.encode()
    if len(content) <= layout.SHORT_TEXT_MAX:
        return bytes((len(content) << 2 | layout.SHORT_TEXT,)) + content
    return _primitive(layout.LONG_TEXT, len(content).to_bytes(4, "little") + content)


def binary(value: bytes) -> bytes:
    """Encode bytes."""
    return _primitive(layout.BINARY, len(value).to_bytes(4, "little") + value)


def date(days: int) -> bytes:
    """Encode a date, given as days since 1970."""
    return _primitive(layout.DATE, days.to_bytes(4, "little", signed=True))


def timestamp(micros: int, *, has_zone: bool) -> bytes:
    """Encode a timestamp, given as microseconds since 1970, in UTC or without a zone."""
    kind = layout.TIMESTAMP if has_zone else layout.TIMESTAMP_NTZ
    return _primitive(kind, micros.to_bytes(8, "little", signed=True))
