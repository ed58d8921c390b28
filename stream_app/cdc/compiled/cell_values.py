"""Reads the values of one column's cell, whatever its kind: a part of `image_parser`.

Each function takes the place of a value, and returns the value and the place behind it, or
`DECLINED`. What it declines may be a value all the same, which another reader takes: a number of
more digits, a decimal of another scale, a text in place of a number.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stream_app.cdc.columns.arrow_buffers import Bools, Bytes, Int32s, Int64s
from stream_app.cdc.compiled.json_tokens import (
    DECLINED,
    number_end,
    string_end,
    unescaped,
    word_end,
)
from stream_app.cdc.compiled.machine_code import (
    byte_at,
    compiled,
    number_at,
    put_byte,
    put_length,
    put_number,
    word_at,
    word_of,
)

WHOLE, TRUTH, TEXT, NUMBER_TEXT, DECIMAL, DECIMAL_TEXT, BASE64 = range(7)
"""The kinds of cells: an int64, a boolean, the bytes of a string, those of a number, and the
unscaled int64 of a decimal that is written as a number, as its text, or as base64 of its bytes."""

_NULL, _FOUR_BYTES = word_of(b"null\0\0\0\0"), np.uint64(0xFFFFFFFF)
_DIGITS_MAX = 18
_LARGEST_TENTH = (2**63 - 1) // 10
_LETTERS_MAX = 10


class ImageTables(NamedTuple):
    """The addresses of what images are parsed with: e names to expect, cells of c columns.

    Attributes:
        words: uint64; the bytes of each name with its quotes and colon, zeros up to whole words.
        starts: int64 [e + 1]; where each name begins in the words.
        lengths: int64 [e]; of each name, in bytes.
        masks: uint64 [e]; of the bytes of its last word.
        columns: int64 [e]; the column of each name, or `UNKNOWN`.
        kinds: int64 [c]; of the cells.
        scales: int64 [c]; fractional digits of a decimal.
        numbers: int64 [c, s]; of a text the address of its first byte, inverted if it has escapes.
        text_lengths: int32 [c, s]; of a text, without its escapes.
        valid: bool [c, s].
        seen: int64 [c]; the last image that had the column.
        name_count, column_count, width: e, c and s.
    """

    words: int
    starts: int
    lengths: int
    masks: int
    columns: int
    kinds: int
    scales: int
    numbers: int
    text_lengths: int
    valid: int
    seen: int
    name_count: int
    column_count: int
    width: int


@compiled
def put_null(tables: ImageTables, at: int) -> None:
    """Note null in a cell; its bytes are zeros, so equal rows are equal bytes."""
    put_byte(tables.valid, at, 0)
    put_number(tables.numbers, at, 0)


@compiled
def cell_end(place: int, tables: ImageTables, cell: tuple[int, int]) -> int:
    """Read a value of a column into its cell; the place behind it."""
    column, number = cell
    at = column * tables.width + number
    if byte_at(place) == 110:
        put_null(tables, at)
        return place + 4 if word_at(place) & _FOUR_BYTES == _NULL else DECLINED
    put_byte(tables.valid, at, 1)
    kind = number_at(tables.kinds + 8 * column)
    if kind == WHOLE:
        value, end = _whole(place)
    elif kind == TEXT:
        return _text(place, tables, at)
    elif kind == BASE64:
        value, end = _base64(place)
    elif kind == DECIMAL:
        value, end = _decimal(place, number_at(tables.scales + 8 * column))
    elif kind == DECIMAL_TEXT:
        value, end = _quoted_decimal(place, number_at(tables.scales + 8 * column))
    elif kind == TRUTH:
        value, end = int(byte_at(place) == 116), DECLINED
        if byte_at(place) in (116, 102):
            end = word_end(place)
    else:
        value, end = place, number_end(place)
        put_length(tables.text_lengths, at, end - place)
    put_number(tables.numbers, at, value)
    return end


@compiled
def _text(place: int, tables: ImageTables, at: int) -> int:
    if byte_at(place) != 34:
        return DECLINED
    place += 1
    end, escaped = string_end(place)
    put_number(tables.numbers, at, ~place if escaped else place)
    put_length(tables.text_lengths, at, end - place - escaped)
    return end + 1 if end > 0 else DECLINED


@compiled
def _whole(place: int) -> tuple[int, int]:
    """An integer that an int64 holds, but for the least one."""
    negative = byte_at(place) == 45
    if negative:
        place += 1
    begin, value = place, 0
    digit = byte_at(place) - 48
    while 0 <= digit <= 9:
        if value >= _LARGEST_TENTH and (value > _LARGEST_TENTH or digit > 7):
            return 0, DECLINED
        value = value * 10 + digit
        place += 1
        digit = byte_at(place) - 48
    if place == begin or (byte_at(begin) == 48 and (place > begin + 1 or negative)):
        return 0, DECLINED
    if byte_at(place) == 46 or byte_at(place) | 32 == 101:
        return 0, DECLINED
    return -value if negative else value, place


@compiled
def _decimal(place: int, scale: int) -> tuple[int, int]:
    """A number without an exponent, of 18 digits at most in the column's scale: unscaled."""
    negative = byte_at(place) == 45
    if negative:
        place += 1
    begin, value = place, 0
    while 48 <= byte_at(place) <= 57 and place - begin <= _DIGITS_MAX:
        value = value * 10 + byte_at(place) - 48
        place += 1
    whole = place - begin
    if whole == 0 or (byte_at(begin) == 48 and whole > 1):
        return 0, DECLINED
    fraction = 0
    if byte_at(place) == 46:
        place += 1
        while 48 <= byte_at(place) <= 57 and whole + fraction <= _DIGITS_MAX:
            value = value * 10 + byte_at(place) - 48
            place, fraction = place + 1, fraction + 1
        if fraction == 0:
            return 0, DECLINED
    if fraction > scale or whole + scale > _DIGITS_MAX or byte_at(place) | 32 == 101:
        return 0, DECLINED
    for _ in range(scale - fraction):
        value *= 10
    return -value if negative else value, place


@compiled
def _quoted_decimal(place: int, scale: int) -> tuple[int, int]:
    if byte_at(place) != 34:
        return 0, DECLINED
    value, end = _decimal(place + 1, scale)
    return value, end + 1 if end > 0 and byte_at(end) == 34 else DECLINED


@compiled
def _base64(place: int) -> tuple[int, int]:
    """The shortest two's complement of a number of 1 to 7 bytes, in base64 with its padding."""
    if byte_at(place) != 34:
        return 0, DECLINED
    place += 1
    begin, bits = place, 0
    six = _six_bits(byte_at(place))
    while six >= 0 and place - begin <= _LETTERS_MAX:
        bits = bits << 6 | six
        place += 1
        six = _six_bits(byte_at(place))
    letters = place - begin
    pads = -letters & 3
    count, unused = 6 * letters >> 3, 6 * letters & 7
    if letters == 0 or letters > _LETTERS_MAX or pads == 3 or bits & ((1 << unused) - 1):
        return 0, DECLINED
    for _ in range(pads):
        if byte_at(place) != 61:
            return 0, DECLINED
        place += 1
    if byte_at(place) != 34:
        return 0, DECLINED
    bits >>= unused
    if count > 1 and bits >> (8 * count - 9) in (0, 0x1FF):  # a byte more than the number needs
        return 0, DECLINED
    shift = 64 - 8 * count
    return bits << shift >> shift, place + 1


@compiled
def _six_bits(letter: int) -> int:
    """The value of a letter of base64; negative: it is none."""
    if 97 <= letter <= 122:
        return letter - 71
    if 65 <= letter <= 90:
        return letter - 65
    if 48 <= letter <= 57:
        return letter + 4
    if letter == 43:
        return 62
    return 63 if letter == 47 else -1


@compiled
def copy_texts(places: Int64s, lengths: Int32s, valid: Bools, out: Bytes) -> None:
    """Copy texts one behind the other, without their escapes.

    Args:
        places, lengths, valid: [s]; of one column, see `ImageTables`.
        out: as long as the valid texts together.
    """
    at = 0
    for number in range(len(places)):
        if not valid[number]:
            continue
        place, length = places[number], lengths[number]
        if place >= 0:
            for shift in range(length):
                out[at + shift] = byte_at(place + shift)
        else:
            place = ~place
            for shift in range(length):
                byte = byte_at(place)
                if byte == 92:
                    byte = unescaped(byte_at(place + 1))
                    place += 1
                place += 1
                out[at + shift] = byte
        at += length
