"""Parses the value of one column's cell, whatever its kind; a part of `image_parser`.

Each function takes the place of a value, and returns the value and the place behind it, or
`DECLINED`. What it declines may be a value all the same, which another reader takes. Examples are a
number of more digits, a decimal of another scale, a text in place of a number.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stream_app.arrow_buffers import Bools, Int32s, Int64s
from stream_app.cdc.compiled.decimal_values import (
    base64,
    decimal,
    quoted_decimal,
    wide_base64,
    wide_decimal,
)
from stream_app.machine_code.compiler import (
    byte_at,
    compiled,
    number_at,
    put_byte,
    put_length,
    put_number,
    word_at,
    word_of,
)
from stream_app.machine_code.json_bytes import (
    BACKSLASH,
    FALSE_BEGIN,
    MINUS,
    NULL_BEGIN,
    POINT,
    QUOTE,
    SMALL,
    SMALL_E,
    TRUE_BEGIN,
    ZERO,
)
from stream_app.machine_code.json_tokens import (
    DECLINED,
    character_at,
    number_end,
    size_of,
    string_end,
    word_end,
)

WHOLE, TRUTH, TEXT, NUMBER_TEXT, DECIMAL, DECIMAL_TEXT, BASE64, OBJECT, LIST = range(9)
WIDE = 16
"""The kinds of cells: an int64, a boolean, the bytes of a string, those of a number, and the
unscaled int64 of a decimal. A decimal is written as a number, as its text, or as base64 of its
bytes. `WIDE` is added to the kind of a decimal of more than 18 digits, which has two int64. Of an
object the cell tells whether it is there, and of a list how many objects it has. Their columns have
tables of their own.
"""
MISSING, VALUE, NULL = range(3)
"""What a cell has: the image lacks the column, or has a value or null."""

_NULL, _FOUR_BYTES = word_of(b"null\0\0\0\0"), np.uint64(0xFFFFFFFF)
_LARGEST_TENTH = (2**63 - 1) // 10


class ImageTables(NamedTuple):
    """The addresses of an image's tables: e expected names, and cells for c columns.

    Attributes:
        words: uint64; the bytes of each name with its quotes and colon, zeros up to whole words.
        starts: int64 [e + 1]; where each name begins in the words.
        lengths: int64 [e]; of each name, in bytes.
        masks: uint64 [e]; of the bytes of its last word.
        columns: int64 [e]; the column of each name, or `UNKNOWN`.
        kinds: int64 [c]; of the cells.
        scales: int64 [c]; fractional digits of a decimal.
        numbers: int64 [c, s]; of a text the address of its first byte, inverted if it has escapes.
        highs: int64 [c, s]; the upper halves of wide decimals.
        text_lengths: int32 [c, s]; of a text, without its escapes.
        valid: uint8 [c, s]; `MISSING`, `VALUE`, or `NULL` that is written.
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
    highs: int
    text_lengths: int
    valid: int
    seen: int
    name_count: int
    column_count: int
    width: int


class Span(NamedTuple):
    """The part of a message that is still to be parsed.

    Attributes:
        place: the beginning of an image, an object or a list.
        last: the end of the message, or the beginning of its tail.
        steps: the remaining number of searches for names.
    """

    place: int
    last: int
    steps: int


class ImageMark(NamedTuple):
    """An image's number, which is its row of the tables, and a number that no other image has."""

    number: int
    stamp: int


@compiled
def put_null(tables: ImageTables, position: int, kind: int) -> None:
    """Mark a cell as null or missing, and clear its bytes, so that equal rows have equal bytes."""
    put_byte(tables.valid, position, kind)
    put_number(tables.numbers, position, 0)


@compiled
def cell_end(  # noqa: C901 - a branch for each kind
    place: int, tables: ImageTables, cell: tuple[int, int]
) -> int:
    """Parse a column's value into its cell; returns the place behind the value."""
    column, number = cell
    at = column * tables.width + number
    if byte_at(place) == NULL_BEGIN:
        put_null(tables, at, NULL)
        return place + 4 if word_at(place) & _FOUR_BYTES == _NULL else DECLINED
    put_byte(tables.valid, at, VALUE)
    kind = number_at(tables.kinds + 8 * column)
    if kind == WHOLE:
        value, end = _whole(place)
    elif kind == TEXT:
        return _text(place, tables, at)
    elif kind == BASE64:
        value, end = base64(place)
    elif kind == DECIMAL:
        value, end = decimal(place, number_at(tables.scales + 8 * column))
    elif kind == DECIMAL_TEXT:
        value, end = quoted_decimal(place, number_at(tables.scales + 8 * column))
    elif kind >= WIDE:
        value, high, end = _wide(place, kind - WIDE, number_at(tables.scales + 8 * column))
        put_number(tables.highs, at, high)
    elif kind == TRUTH:
        value, end = int(byte_at(place) == TRUE_BEGIN), DECLINED
        if byte_at(place) in (TRUE_BEGIN, FALSE_BEGIN):
            end = word_end(place)
    else:
        value, end = place, number_end(place)
        put_length(tables.text_lengths, at, end - place)
    put_number(tables.numbers, at, value)
    return end


@compiled
def _text(place: int, tables: ImageTables, position: int) -> int:
    if byte_at(place) != QUOTE:
        return DECLINED
    place += 1
    end, escaped = string_end(place)
    put_number(tables.numbers, position, ~place if escaped else place)
    put_length(tables.text_lengths, position, end - place - escaped)
    return end + 1 if end > 0 else DECLINED


@compiled
def _whole(place: int) -> tuple[int, int]:
    """Parse an int64, except the smallest; return the value, and the place behind it."""
    negative = byte_at(place) == MINUS
    if negative:
        place += 1
    begin, value = place, 0
    digit = byte_at(place) - ZERO
    while 0 <= digit <= 9:
        if value >= _LARGEST_TENTH and (value > _LARGEST_TENTH or digit > 7):
            return 0, DECLINED
        value = value * 10 + digit
        place += 1
        digit = byte_at(place) - ZERO
    if place == begin or (byte_at(begin) == ZERO and (place > begin + 1 or negative)):
        return 0, DECLINED
    if byte_at(place) == POINT or byte_at(place) | SMALL == SMALL_E:
        return 0, DECLINED
    return -value if negative else value, place


@compiled
def _wide(place: int, kind: int, scale: int) -> tuple[int, int, int]:
    if kind == BASE64:
        return wide_base64(place)
    if kind == DECIMAL:
        return wide_decimal(place, scale)
    if byte_at(place) != QUOTE:
        return 0, 0, DECLINED
    low, high, end = wide_decimal(place + 1, scale)
    return low, high, end + 1 if end > 0 and byte_at(end) == QUOTE else DECLINED


@compiled
def copy_texts(places: Int64s, lengths: Int32s, valid: Bools, out: int) -> None:
    """Copy texts into one buffer without their escapes.

    Words are copied: up to 7 bytes more than each text, over which the next one is written. A
    message has as many behind its last text.

    Args:
        places, lengths, valid: [s]; of one column, see `ImageTables`.
        out: the address of 8 bytes more than the valid texts together have.
    """
    at = 0
    for number in range(len(places)):
        if not valid[number]:
            continue
        place, length = places[number], lengths[number]
        if place >= 0:
            for shift in range(0, length, 8):
                put_number(out + at + shift, 0, number_at(place + shift))
        else:
            place = ~place
            end = at + length
            while at < end:
                code = byte_at(place)
                if code == BACKSLASH:
                    code, place = character_at(place)
                    at = put_character(out, at, code)
                else:
                    put_byte(out, at, code)
                    at, place = at + 1, place + 1
            continue
        at += length


@compiled
def put_character(out: int, position: int, code: int) -> int:
    """Write a character in UTF-8; returns the place behind it."""
    size = size_of(code)
    if size == 1:
        put_byte(out, position, code)
        return position + 1
    put_byte(out, position, 0xF00 >> size & 0xFF | code >> 6 * (size - 1))
    for following in range(size - 2, -1, -1):
        put_byte(out, position + size - 1 - following, 0x80 | code >> 6 * following & 0x3F)
    return position + size
