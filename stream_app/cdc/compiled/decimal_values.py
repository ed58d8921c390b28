"""Parses decimals of JSON; a part of `cell_values`.

A decimal of 18 digits at most is an int64, its unscaled value. A wide one of up to 38 digits has
two, of which the first is the lower half of its bits.
"""

from __future__ import annotations

from stream_app.machine_code.compiler import byte_at, compiled
from stream_app.machine_code.json_bytes import (
    LARGE_A,
    LARGE_Z,
    MINUS,
    NINE,
    PADDING,
    PLUS,
    POINT,
    QUOTE,
    SLASH,
    SMALL,
    SMALL_A,
    SMALL_E,
    SMALL_Z,
    ZERO,
)
from stream_app.machine_code.json_tokens import DECLINED

DIGITS_MAX, _WIDE_DIGITS_MAX = 18, 38
_LETTERS_MAX, _WIDE_LETTERS_MAX = 10, 22
_HALF = 0xFFFFFFFF


@compiled
def parse_decimal(position: int, scale: int) -> tuple[int, int]:
    """Parse a number of at most 18 digits without an exponent.

    Return it unscaled, in the column's scale, and the position after it.
    """
    start = position + (byte_at(position) == MINUS)
    end, fraction = _decimal_end(start, scale, DIGITS_MAX)
    value = 0
    for byte_position in range(start, end):
        if byte_at(byte_position) != POINT:
            value = value * 10 + byte_at(byte_position) - ZERO
    for _ in range(scale - fraction):
        value *= 10
    return -value if start > position else value, end


@compiled
def _decimal_end(position: int, scale: int, digits_max: int) -> tuple[int, int]:
    """Find the end of a decimal without exponent, and count its fractional digits.

    Args:
        digits_max: the maximum number of digits, after the value is extended to the scale.

    Returns:
        The position after the decimal, or `DECLINED`; and the number of its fractional digits.
    """
    start = position
    while ZERO <= byte_at(position) <= NINE and position - start <= digits_max:
        position += 1
    whole_digit_count = position - start
    if whole_digit_count == 0 or (byte_at(start) == ZERO and whole_digit_count > 1):
        return DECLINED, scale
    fraction_digit_count = 0
    if byte_at(position) == POINT:
        position += 1
        while (
            ZERO <= byte_at(position) <= NINE
            and whole_digit_count + fraction_digit_count <= digits_max
        ):
            position, fraction_digit_count = position + 1, fraction_digit_count + 1
        if fraction_digit_count == 0:
            return DECLINED, scale
    if (
        fraction_digit_count > scale
        or whole_digit_count + scale > digits_max
        or byte_at(position) | SMALL == SMALL_E
    ):
        return DECLINED, scale
    return position, fraction_digit_count


@compiled
def parse_quoted_decimal(position: int, scale: int) -> tuple[int, int]:
    """Parse a decimal in quotes, as `parse_decimal` does without them."""
    if byte_at(position) != QUOTE:
        return 0, DECLINED
    value, end = parse_decimal(position + 1, scale)
    return value, end + 1 if end > 0 and byte_at(end) == QUOTE else DECLINED


@compiled
def parse_base64(position: int) -> tuple[int, int]:
    """Parse base64 of a number of 1 to 7 bytes in shortest two's complement, with its padding."""
    if byte_at(position) != QUOTE:
        return 0, DECLINED
    position += 1
    start, bits = position, 0
    letter_bits = _six_bits(byte_at(position))
    while letter_bits >= 0 and position - start <= _LETTERS_MAX:
        bits = bits << 6 | letter_bits
        position += 1
        letter_bits = _six_bits(byte_at(position))
    letter_count = position - start
    byte_count, unused_bits = 6 * letter_count >> 3, 6 * letter_count & 7
    position = _padding_end(position, letter_count)
    if letter_count > _LETTERS_MAX or position < 0 or bits & ((1 << unused_bits) - 1):
        return 0, DECLINED
    bits >>= unused_bits
    if byte_count > 1 and bits >> (8 * byte_count - 9) in (
        0,
        0x1FF,
    ):  # a byte more than the number needs
        return 0, DECLINED
    shift = 64 - 8 * byte_count
    return bits << shift >> shift, position


@compiled
def parse_wide_decimal(position: int, scale: int) -> tuple[int, int, int]:
    """Parse a number of at most 38 digits, as `parse_decimal` does.

    Return its halves and the position.
    """
    start = position + (byte_at(position) == MINUS)
    end, fraction = _decimal_end(start, scale, _WIDE_DIGITS_MAX)
    low, high = 0, 0
    for byte_position in range(start, end):
        if byte_at(byte_position) != POINT:
            low, high = _append_digit(low, high, byte_at(byte_position) - ZERO)
    for _ in range(scale - fraction):
        low, high = _append_digit(low, high, 0)
    if start > position:
        low, high = -low, ~high + (low == 0)
    return low, high, end


@compiled
def _append_digit(low: int, high: int, digit: int) -> tuple[int, int]:
    """Append a digit to a number of two halves: ten times the number, plus the digit."""
    first = (low & _HALF) * 10 + digit
    second = (low >> 32 & _HALF) * 10 + (first >> 32)
    return second << 32 | first & _HALF, high * 10 + (second >> 32)


@compiled
def parse_wide_base64(position: int) -> tuple[int, int, int]:
    """Parse base64 of 1 to 16 bytes, as `parse_base64` does. Return the halves and the position."""
    if byte_at(position) != QUOTE:
        return 0, 0, DECLINED
    position += 1
    start, low, high = position, 0, 0
    letter_bits = _six_bits(byte_at(position))
    # This loop only finds the end: with unused bits, the letters may have more than 128 bits.
    while letter_bits >= 0 and position - start <= _WIDE_LETTERS_MAX:
        position += 1
        letter_bits = _six_bits(byte_at(position))
    letter_count = position - start
    byte_count, unused_bits = 6 * letter_count >> 3, 6 * letter_count & 7
    end = _padding_end(position, letter_count)
    if (
        letter_count > _WIDE_LETTERS_MAX
        or end < 0
        or _six_bits(byte_at(position - 1)) & (1 << unused_bits) - 1
    ):
        return 0, 0, DECLINED
    for letter_position in range(start, position):
        letter_bits, bits = _six_bits(byte_at(letter_position)), 6
        if letter_position == position - 1:
            letter_bits, bits = letter_bits >> unused_bits, 6 - unused_bits
        high = high << bits | low >> 64 - bits & (1 << bits) - 1
        low = low << bits | letter_bits
    if byte_count <= 8:
        low = low << 64 - 8 * byte_count >> 64 - 8 * byte_count
        high = low >> 63
    else:
        high = high << 128 - 8 * byte_count >> 128 - 8 * byte_count
    if _is_longer(low, high, byte_count):
        return 0, 0, DECLINED
    return low, high, end


@compiled
def _is_longer(low: int, high: int, byte_count: int) -> bool:
    """Return whether fewer than `byte_count` bytes would hold the number."""
    if byte_count < 9:
        return byte_count > 1 and low >> 8 * byte_count - 9 in (0, -1)
    if byte_count == 9:
        return high == low >> 63
    return high >> 8 * byte_count - 73 in (0, -1)


@compiled
def _padding_end(position: int, letter_count: int) -> int:
    """Return the position after the padding and the quote of a base64 text, or `DECLINED`."""
    pad_count = -letter_count & 3
    if letter_count == 0 or pad_count == 3:
        return DECLINED
    for _ in range(pad_count):
        if byte_at(position) != PADDING:
            return DECLINED
        position += 1
    return position + 1 if byte_at(position) == QUOTE else DECLINED


@compiled
def _six_bits(letter: int) -> int:
    """Return the six bits of a base64 letter; negative for other bytes."""
    if SMALL_A <= letter <= SMALL_Z:
        return letter - SMALL_A + 26
    if LARGE_A <= letter <= LARGE_Z:
        return letter - LARGE_A
    if ZERO <= letter <= NINE:
        return letter - ZERO + 52
    if letter == PLUS:
        return 62
    return 63 if letter == SLASH else -1
