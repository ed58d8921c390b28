"""Skips tokens of strict JSON: strings, numbers, and values that no column needs.

Each function takes a token's address, called its position, and returns the position after the
token. It returns `DECLINED` if RFC 8259 has no such token, or if the slower reader must judge it.
That reader judges blanks between a name and its colon, unpaired UTF-16 surrogates, and values with
more than `DEPTH_MAX` levels.

Each loop ends at a quote or at a byte that is not a digit. The caller ensures that the last 16
bytes of the data contain both, and compares the returned position with the message's end. So no
function reads beyond the data, and each byte is read once.
"""

from __future__ import annotations

import numpy as np

from stream_app.machine_code.compiler import byte_at, compiled, low_zero_bytes, word_at, word_of
from stream_app.machine_code.json_bytes import (
    ARRAY_END,
    ARRAY_START,
    ASCII_END,
    BACKSLASH,
    BACKSPACE,
    COLON,
    COMMA,
    CONTINUATION,
    CONTINUATION_MASK,
    ESCAPED_BACKSPACE,
    ESCAPED_CODE,
    ESCAPED_FORM_FEED,
    ESCAPED_LINE_FEED,
    ESCAPED_RETURN,
    ESCAPED_TAB,
    FALSE_START,
    FORM_FEED,
    LINE_FEED,
    MINUS,
    NINE,
    OBJECT_END,
    OBJECT_START,
    PLUS,
    POINT,
    QUOTE,
    RETURN,
    SLASH,
    SMALL,
    SMALL_A,
    SMALL_E,
    SMALL_F,
    SPACE,
    TAB,
    ZERO,
)

DECLINED = -1
DEPTH_MAX = 60
"""The most open brackets of a value, each of which takes a bit of a word."""

_ONES = np.uint64(0x0101010101010101)
_HIGH = np.uint64(0x8080808080808080)
_QUOTES, _BACKSLASHES = word_of(b'"' * 8), word_of(b"\\" * 8)
_BLANKS = word_of(b" " * 8)
_NULL, _TRUE, _FALSE = word_of(b"null\0\0\0\0"), word_of(b"true\0\0\0\0"), word_of(b"alse\0\0\0\0")
_FOUR_BYTES_MASK = np.uint64(0xFFFFFFFF)


@compiled
def odd_bytes(word: np.uint64) -> np.uint64:
    """Return the upper bit of each byte that ends, or may end, a run of plain letters in a string.

    Such bytes are quotes, backslashes, control characters and bytes beyond ASCII. Only the lowest
    set bit is reliable.
    """
    quotes, backslashes = word ^ _QUOTES, word ^ _BACKSLASHES
    odd = ((quotes - _ONES) & ~quotes) | ((backslashes - _ONES) & ~backslashes)
    return (odd | ((word - _BLANKS) & ~word) | word) & _HIGH


@compiled
def string_end(position: int) -> tuple[int, int]:
    """Return the position of a string's closing quote, and the bytes that unescaping saves.

    Args:
        position: after the opening quote.
    """
    saved_bytes = 0
    while True:
        word = word_at(position)
        odd = odd_bytes(word)
        if odd == 0:
            position += 8
            continue
        position += low_zero_bytes(odd)
        byte = byte_at(position)
        if byte == QUOTE:
            return position, saved_bytes
        if byte == BACKSLASH:
            code, end = character_at(position)
            if code < 0:
                return DECLINED, 0
            saved_bytes += end - position - size_of(code)
            position = end
        elif byte < ASCII_END:  # a control character
            return DECLINED, 0
        else:
            position = character_end(position)
            if position < 0:
                return DECLINED, 0


@compiled
def character_at(position: int) -> tuple[int, int]:
    """Return the code point of an escaped character, or `DECLINED`, and the position after it.

    Args:
        position: of the character's backslash.
    """
    letter = byte_at(position + 1)
    if letter != ESCAPED_CODE:
        code = _escaped_byte(letter)
        return code if code else DECLINED, position + 2
    code = _four_digits(position + 2)
    if code < 0 or code & 0xF800 != 0xD800:
        return code, position + 6
    if (
        code >= 0xDC00
        or byte_at(position + 6) != BACKSLASH
        or byte_at(position + 7) != ESCAPED_CODE
    ):
        return DECLINED, position
    low = _four_digits(position + 8)
    if low & 0xFC00 != 0xDC00 or low < 0:
        return DECLINED, position
    return 0x10000 + ((code & 0x3FF) << 10 | low & 0x3FF), position + 12


@compiled
def _four_digits(position: int) -> int:
    """Return the number of four hexadecimal digits."""
    code_unit = 0
    for byte_position in range(position, position + 4):
        byte = byte_at(byte_position)
        if ZERO <= byte <= NINE:
            digit = byte - ZERO
        elif SMALL_A <= byte | SMALL <= SMALL_F:
            digit = (byte | SMALL) - SMALL_A + 10
        else:
            return DECLINED
        code_unit = code_unit << 4 | digit
    return code_unit


@compiled
def size_of(code: int) -> int:
    """Return the number of bytes of a character in UTF-8."""
    if code < 0x80:
        return 1
    if code < 0x800:
        return 2
    return 3 if code < 0x10000 else 4


@compiled
def blank_end(position: int, end: int) -> int:
    """Return the position after blanks: spaces, tabs and line ends."""
    while position < end and byte_at(position) in (SPACE, TAB, LINE_FEED, RETURN):
        position += 1
    return position


@compiled
def _escaped_byte(letter: int) -> int:
    """Return the byte that a letter after a backslash means; 0 if it is not a single byte."""
    if letter in (QUOTE, BACKSLASH, SLASH):
        return letter
    if letter == ESCAPED_LINE_FEED:
        return LINE_FEED
    if letter == ESCAPED_TAB:
        return TAB
    if letter == ESCAPED_RETURN:
        return RETURN
    if letter == ESCAPED_BACKSPACE:
        return BACKSPACE
    return FORM_FEED if letter == ESCAPED_FORM_FEED else 0


@compiled
def character_end(position: int) -> int:  # noqa: C901 - a branch for each row of the standard
    """Return the position after a multi-byte character of UTF-8."""
    first_byte, second_byte = byte_at(position), byte_at(position + 1)
    if first_byte < 0xC2 or first_byte > 0xF4:
        return DECLINED
    if first_byte < 0xE0:
        return position + 2 if second_byte & CONTINUATION_MASK == CONTINUATION else DECLINED
    if byte_at(position + 2) & CONTINUATION_MASK != CONTINUATION:
        return DECLINED
    lowest, highest = 0x80, 0xBF
    if first_byte == 0xE0:
        lowest = 0xA0
    elif first_byte == 0xED:  # unpaired UTF-16 surrogates
        highest = 0x9F
    elif first_byte == 0xF0:
        lowest = 0x90
    elif first_byte == 0xF4:
        highest = 0x8F
    if second_byte < lowest or second_byte > highest:
        return DECLINED
    if first_byte < 0xF0:
        return position + 3
    return position + 4 if byte_at(position + 3) & CONTINUATION_MASK == CONTINUATION else DECLINED


@compiled
def digits_end(position: int) -> int:
    """Return the position after consecutive digits."""
    while ZERO <= byte_at(position) <= NINE:
        position += 1
    return position


@compiled
def number_end(position: int) -> int:
    """Return the position after a number."""
    if byte_at(position) == MINUS:
        position += 1
    end = digits_end(position)
    if end == position or (byte_at(position) == ZERO and end > position + 1):
        return DECLINED
    position = end
    if byte_at(position) == POINT:
        end = digits_end(position + 1)
        if end == position + 1:
            return DECLINED
        position = end
    if byte_at(position) | SMALL == SMALL_E:
        position += 1
        if byte_at(position) in (PLUS, MINUS):
            position += 1
        end = digits_end(position)
        if end == position:
            return DECLINED
        position = end
    return position


@compiled
def word_end(position: int) -> int:
    """Return the position after ``null``, ``true`` or ``false``."""
    word = word_at(position) & _FOUR_BYTES_MASK
    if word in (_NULL, _TRUE):
        return position + 4
    if byte_at(position) == FALSE_START and word_at(position + 1) & _FOUR_BYTES_MASK == _FALSE:
        return position + 5
    return DECLINED


@compiled
def scalar_end(position: int) -> int:
    """Return the position after a string, a number or a word."""
    byte = byte_at(position)
    if byte == QUOTE:
        end, _ = string_end(position + 1)
        return end + 1 if end > 0 else DECLINED
    if byte == MINUS or ZERO <= byte <= NINE:
        return number_end(position)
    return word_end(position)


@compiled
def name_end(position: int) -> int:
    """Return the position after a name and its colon."""
    if byte_at(position) != QUOTE:
        return DECLINED
    end, saved_bytes = string_end(position + 1)
    if end < 0 or saved_bytes or byte_at(end + 1) != COLON:
        return DECLINED
    return end + 2


@compiled
def value_end(position: int, end: int) -> int:  # noqa: C901, PLR0912 - a state machine
    """Return the position after any value, which may be beyond the end."""
    object_bits, depth = np.uint64(0), 0  # a bit for each open bracket: 1 for an object's
    bit = np.uint64(1)
    while position < end:
        byte = byte_at(position)
        if byte in (OBJECT_START, ARRAY_START):
            if depth == DEPTH_MAX:
                return DECLINED
            is_object = byte == OBJECT_START
            position = blank_end(position + 1, end)
            if byte_at(position) != (OBJECT_END if is_object else ARRAY_END):
                object_bits, depth = object_bits << bit | np.uint64(is_object), depth + 1
                if is_object:
                    position = _inner_name_end(position, end)
                    if position < 0:
                        return DECLINED
                continue
            position += 1
        else:
            position = scalar_end(position)
            if position < 0:
                return DECLINED
        while depth:
            position = blank_end(position, end)
            if position >= end or byte_at(position) not in (OBJECT_END, ARRAY_END):
                break
            if byte_at(position) != (OBJECT_END if object_bits & bit else ARRAY_END):
                return DECLINED
            object_bits, depth, position = object_bits >> bit, depth - 1, position + 1
        if depth == 0:
            return position
        if position >= end or byte_at(position) != COMMA:
            return DECLINED
        position = blank_end(position + 1, end)
        if object_bits & bit:
            position = _inner_name_end(position, end)
            if position < 0:
                return DECLINED
    return DECLINED


@compiled
def _inner_name_end(position: int, end: int) -> int:
    colon_end = name_end(position)
    return blank_end(colon_end, end) if colon_end > 0 else DECLINED
