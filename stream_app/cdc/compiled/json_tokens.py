"""Walks over the tokens of strict JSON: strings, numbers, and values that nobody reads.

Each function takes the address of a token, its place, and returns the place behind it. It returns
`DECLINED` where it is no token of RFC 8259, or one that another reader has to judge. Those are
blanks between tokens, texts with ``\\u`` and values of more than `DEPTH_MAX` levels.

Each loop ends at a quote, or at a byte that is no digit, at the latest. The caller ensures that
both stand within 16 bytes before the end of the data, and compares the place that it gets back with
its limit. So no function reads beyond the data, and each byte is read once.
"""

from __future__ import annotations

import numpy as np

from stream_app.cdc.compiled.machine_code import byte_at, compiled, low_zero_bytes, word_at, word_of

DECLINED = -1
DEPTH_MAX = 60

_ONES = np.uint64(0x0101010101010101)
_HIGH = np.uint64(0x8080808080808080)
_QUOTES, _BACKSLASHES = word_of(b'"' * 8), word_of(b"\\" * 8)
_BLANKS = word_of(b" " * 8)
_NULL, _TRUE, _FALSE = word_of(b"null\0\0\0\0"), word_of(b"true\0\0\0\0"), word_of(b"alse\0\0\0\0")
_FOUR_BYTES = np.uint64(0xFFFFFFFF)


@compiled
def string_end(place: int) -> tuple[int, int]:
    """The place of the quote that ends a string, and how many characters in it are escaped.

    Args:
        place: behind the quote that begins it.
    """
    escaped = 0
    while True:
        word = word_at(place)
        quotes, backslashes = word ^ _QUOTES, word ^ _BACKSLASHES
        odd = ((quotes - _ONES) & ~quotes) | ((backslashes - _ONES) & ~backslashes)
        odd = (odd | ((word - _BLANKS) & ~word) | word) & _HIGH
        if odd == 0:
            place += 8
            continue
        place += low_zero_bytes(odd)
        byte = byte_at(place)
        if byte == 34:
            return place, escaped
        if byte == 92:
            if unescaped(byte_at(place + 1)) == 0:
                return DECLINED, 0
            escaped += 1
            place += 2
        elif byte < 0x80:  # a control character
            return DECLINED, 0
        else:
            place = character_end(place)
            if place < 0:
                return DECLINED, 0


@compiled
def unescaped(letter: int) -> int:
    """The byte that a letter behind a backslash means; 0: none of one byte."""
    if letter in (34, 92, 47):
        return letter
    if letter == 110:
        return 10
    if letter == 116:
        return 9
    if letter == 114:
        return 13
    if letter == 98:
        return 8
    return 12 if letter == 102 else 0


@compiled
def character_end(place: int) -> int:  # noqa: C901 - a branch for each row of the standard
    """The place behind a character of several bytes of UTF-8."""
    first, second = byte_at(place), byte_at(place + 1)
    if first < 0xC2 or first > 0xF4:
        return DECLINED
    if first < 0xE0:
        return place + 2 if second & 0xC0 == 0x80 else DECLINED
    if byte_at(place + 2) & 0xC0 != 0x80:
        return DECLINED
    least, largest = 0x80, 0xBF
    if first == 0xE0:
        least = 0xA0
    elif first == 0xED:  # halves of characters of UTF-16
        largest = 0x9F
    elif first == 0xF0:
        least = 0x90
    elif first == 0xF4:
        largest = 0x8F
    if second < least or second > largest:
        return DECLINED
    if first < 0xF0:
        return place + 3
    return place + 4 if byte_at(place + 3) & 0xC0 == 0x80 else DECLINED


@compiled
def digits_end(place: int) -> int:
    """The place behind a row of digits."""
    while 48 <= byte_at(place) <= 57:
        place += 1
    return place


@compiled
def number_end(place: int) -> int:
    """The place behind a number."""
    if byte_at(place) == 45:
        place += 1
    end = digits_end(place)
    if end == place or (byte_at(place) == 48 and end > place + 1):
        return DECLINED
    place = end
    if byte_at(place) == 46:
        end = digits_end(place + 1)
        if end == place + 1:
            return DECLINED
        place = end
    if byte_at(place) | 32 == 101:
        place += 1
        if byte_at(place) in (43, 45):
            place += 1
        end = digits_end(place)
        if end == place:
            return DECLINED
        place = end
    return place


@compiled
def word_end(place: int) -> int:
    """The place behind ``null``, ``true`` or ``false``."""
    four = word_at(place) & _FOUR_BYTES
    if four in (_NULL, _TRUE):
        return place + 4
    if byte_at(place) == 102 and word_at(place + 1) & _FOUR_BYTES == _FALSE:
        return place + 5
    return DECLINED


@compiled
def scalar_end(place: int) -> int:
    """The place behind a string, a number or a word."""
    byte = byte_at(place)
    if byte == 34:
        end, _ = string_end(place + 1)
        return end + 1 if end > 0 else DECLINED
    if byte == 45 or 48 <= byte <= 57:
        return number_end(place)
    return word_end(place)


@compiled
def name_end(place: int) -> int:
    """The place behind a name and its colon."""
    if byte_at(place) != 34:
        return DECLINED
    end, escaped = string_end(place + 1)
    if end < 0 or escaped or byte_at(end + 1) != 58:
        return DECLINED
    return end + 2


@compiled
def value_end(place: int, limit: int) -> int:  # noqa: C901, PLR0912 - a state machine
    """The place behind any value; it may lie behind the limit, where only the value is read."""
    objects, depth = np.uint64(0), 0  # a bit for each open bracket: 1 for that of an object
    one = np.uint64(1)
    while place < limit:
        byte = byte_at(place)
        if byte in (123, 91):
            if depth == DEPTH_MAX:
                return DECLINED
            is_object = byte == 123
            place += 1
            if byte_at(place) != byte + 2:
                objects, depth = objects << one | np.uint64(is_object), depth + 1
                if is_object:
                    place = name_end(place)
                    if place < 0:
                        return DECLINED
                continue
            place += 1
        else:
            place = scalar_end(place)
            if place < 0:
                return DECLINED
        while depth and place < limit and byte_at(place) in (125, 93):
            if byte_at(place) != (125 if objects & one else 93):
                return DECLINED
            objects, depth, place = objects >> one, depth - 1, place + 1
        if depth == 0:
            return place
        if place >= limit or byte_at(place) != 44:
            return DECLINED
        place += 1
        if objects & one:
            place = name_end(place)
            if place < 0:
                return DECLINED
    return DECLINED
