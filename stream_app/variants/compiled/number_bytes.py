"""Writes numbers of JSON as VARIANTs: integers, decimals, and space for doubles.

Parsing a double exactly is intricate, and doubles are rare. So this code reserves their bytes, and
lists them in `DoubleBuffers`; the caller fills them.
"""

from __future__ import annotations

from typing import NamedTuple

from stream_app.machine_code.compiler import (
    byte_at,
    compiled,
    number_at,
    put_byte,
    put_int32,
    put_number,
)
from stream_app.machine_code.json_bytes import MINUS, POINT, SMALL, SMALL_E, ZERO
from stream_app.variants.layout import DECIMAL4, DECIMAL8, DECIMAL16, DOUBLE, INT1, INT2, INT4, INT8

_SHORT_DIGITS, _MIDDLE_DIGITS, _LONG_DIGITS = 9, 18, 38
_LIMB = 0xFFFFFFFF
_HALF = 1 << 31


class DoubleBuffers(NamedTuple):
    """The addresses of int64 buffers: where each double goes, where its text is, and its row.

    Attributes:
        double_count: a buffer with one row: the number of doubles.
    """

    positions: int
    starts: int
    sizes: int
    rows: int
    double_count: int


@compiled
def put_number_text(
    position: int, size: int, cursor: int, row_index: int, doubles: DoubleBuffers
) -> int:
    """Write a number in front of the cursor; return where its bytes begin."""
    digits, scale, has_exponent = _measure(position, size)
    if not has_exponent and scale <= _LONG_DIGITS and digits <= _LONG_DIGITS:
        if digits <= _MIDDLE_DIGITS:
            integer = _digits_as_int64(position, size)
            if scale < 0:
                return _put_integer(integer, cursor)
            return _put_decimal(integer, digits, scale, cursor)
        low, high = _digits_as_int128(position, size)
        if scale < 0 and high == low >> 63:
            return _put_integer(low, cursor)
        put_number(cursor - 16, 0, low)
        put_number(cursor - 16, 1, high)
        return _put_head(DECIMAL16, max(scale, 0), cursor - 16)
    count = number_at(doubles.double_count)
    put_number(doubles.positions, count, cursor - 8)
    put_number(doubles.starts, count, position)
    put_number(doubles.sizes, count, size)
    put_number(doubles.rows, count, row_index)
    put_number(doubles.double_count, 0, count + 1)
    put_byte(cursor - 9, 0, DOUBLE << 2)
    return cursor - 9


@compiled
def _measure(position: int, size: int) -> tuple[int, int, bool]:
    """Return the counts of significant and of fractional digits, and whether there is an exponent.

    Without a point the fraction has -1 digits.
    """
    digits, scale = 0, -1
    for byte_position in range(position, position + size):
        byte = byte_at(byte_position)
        if byte == POINT:
            scale = 0
        elif byte == MINUS:
            continue
        elif byte | SMALL == SMALL_E:
            return digits, scale, True
        else:
            if scale >= 0:
                scale += 1
            if digits or byte != ZERO:
                digits += 1
    return digits, scale, False


@compiled
def _digits_as_int64(position: int, size: int) -> int:
    """Return the digits of a number as a 64-bit integer."""
    value = 0
    for byte_position in range(position, position + size):
        byte = byte_at(byte_position)
        if byte >= ZERO:
            value = 10 * value + byte - ZERO
    return -value if byte_at(position) == MINUS else value


@compiled
def _digits_as_int128(position: int, size: int) -> tuple[int, int]:
    """Return the digits of a number as a 128-bit integer: its lower and its upper half."""
    first, second, third, fourth = 0, 0, 0, 0
    for byte_position in range(position, position + size):
        byte = byte_at(byte_position)
        if byte >= ZERO:
            first = 10 * first + byte - ZERO
            second = 10 * second + (first >> 32)
            third = 10 * third + (second >> 32)
            fourth = 10 * fourth + (third >> 32)
            first, second, third = first & _LIMB, second & _LIMB, third & _LIMB
    low, high = _join_halves(first, second), _join_halves(third, fourth)
    if byte_at(position) == MINUS:
        low, high = -low, ~high
        if low == 0:
            high += 1
    return low, high


@compiled
def _join_halves(low: int, high: int) -> int:
    """Join two unsigned halves into a signed 64-bit integer."""
    return (high - (_HALF << 1) if high >= _HALF else high) * (_LIMB + 1) + low


@compiled
def _put_integer(value: int, cursor: int) -> int:
    if -0x80 <= value < 0x80:
        put_byte(cursor - 1, 0, value)
        put_byte(cursor - 2, 0, INT1 << 2)
        return cursor - 2
    if -0x8000 <= value < 0x8000:
        put_byte(cursor - 2, 0, value)
        put_byte(cursor - 1, 0, value >> 8)
        put_byte(cursor - 3, 0, INT2 << 2)
        return cursor - 3
    if -_HALF <= value < _HALF:
        put_int32(cursor - 4, 0, value)
        put_byte(cursor - 5, 0, INT4 << 2)
        return cursor - 5
    put_number(cursor - 8, 0, value)
    put_byte(cursor - 9, 0, INT8 << 2)
    return cursor - 9


@compiled
def _put_decimal(unscaled_value: int, digits: int, scale: int, cursor: int) -> int:
    if scale <= _SHORT_DIGITS and digits <= _SHORT_DIGITS:
        put_int32(cursor - 4, 0, unscaled_value)
        return _put_head(DECIMAL4, scale, cursor - 4)
    if scale <= _MIDDLE_DIGITS:
        put_number(cursor - 8, 0, unscaled_value)
        return _put_head(DECIMAL8, scale, cursor - 8)
    put_number(cursor - 16, 0, unscaled_value)
    put_number(cursor - 16, 1, unscaled_value >> 63)
    return _put_head(DECIMAL16, scale, cursor - 16)


@compiled
def _put_head(kind: int, scale: int, cursor: int) -> int:
    put_byte(cursor - 1, 0, scale)
    put_byte(cursor - 2, 0, kind << 2)
    return cursor - 2
