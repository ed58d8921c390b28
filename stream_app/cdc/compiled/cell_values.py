"""Parses the value of one column's cell, whatever its kind; a part of `image_parser`.

Each function takes the position of a value, and returns the value and the position after it, or
`DECLINED`. What it declines may be a value all the same, which another reader takes. Examples are a
number of more digits, a decimal of another scale, a text in position of a number.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stream_app.arrow_buffers import Bools, Int32s, Int64s
from stream_app.cdc.compiled.decimal_values import (
    parse_base64,
    parse_decimal,
    parse_quoted_decimal,
    parse_wide_base64,
    parse_wide_decimal,
)
from stream_app.machine_code.compiler import (
    byte_at,
    compiled,
    number_at,
    put_byte,
    put_int32,
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

WHOLE, BOOLEAN, TEXT, NUMBER_TEXT, DECIMAL, DECIMAL_TEXT, BASE64, OBJECT, LIST = range(9)
WIDE = 16
"""The kinds of cells: an int64, a boolean, the bytes of a string, those of a number, and the
unscaled int64 of a decimal. A decimal is written as a number, as its text, or as base64 of its
bytes. `WIDE` is added to the kind of a decimal of more than 18 digits, which has two int64. Of an
object the cell tells whether it is there, and of a list how many objects it has. Their columns have
buffers of their own.
"""
MISSING, VALUE, NULL = range(3)
"""What a cell has: the image lacks the column, or has a value or null."""

_NULL, _FOUR_BYTES = word_of(b"null\0\0\0\0"), np.uint64(0xFFFFFFFF)
_LARGEST_TENTH = (2**63 - 1) // 10


class ImageBuffers(NamedTuple):
    """The addresses of an image's buffers: e expected names, and cells for c columns.

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
        position: the beginning of an image, an object or a list.
        last: the end of the message, or the beginning of its tail.
        steps: the remaining number of searches for names.
    """

    position: int
    last: int
    steps: int


class ImageMark(NamedTuple):
    """An image's number, which is its row of the buffers, and a number that no other image has."""

    number: int
    stamp: int


@compiled
def put_null(buffers: ImageBuffers, slot: int, kind: int) -> None:
    """Mark a cell as null or missing, and clear its bytes, so that equal rows have equal bytes."""
    put_byte(buffers.valid, slot, kind)
    put_number(buffers.numbers, slot, 0)


@compiled
def parse_cell(  # noqa: C901 - a branch for each kind
    position: int, buffers: ImageBuffers, cell: tuple[int, int]
) -> int:
    """Parse a column's value into its cell; return the position after the value."""
    column, number = cell
    slot = column * buffers.width + number
    if byte_at(position) == NULL_BEGIN:
        put_null(buffers, slot, NULL)
        return position + 4 if word_at(position) & _FOUR_BYTES == _NULL else DECLINED
    put_byte(buffers.valid, slot, VALUE)
    kind = number_at(buffers.kinds + 8 * column)
    if kind == WHOLE:
        value, end = _parse_whole(position)
    elif kind == TEXT:
        return _parse_text(position, buffers, slot)
    elif kind == BASE64:
        value, end = parse_base64(position)
    elif kind == DECIMAL:
        value, end = parse_decimal(position, number_at(buffers.scales + 8 * column))
    elif kind == DECIMAL_TEXT:
        value, end = parse_quoted_decimal(position, number_at(buffers.scales + 8 * column))
    elif kind >= WIDE:
        value, high, end = _parse_wide(
            position, kind - WIDE, number_at(buffers.scales + 8 * column)
        )
        put_number(buffers.highs, slot, high)
    elif kind == BOOLEAN:
        value, end = int(byte_at(position) == TRUE_BEGIN), DECLINED
        if byte_at(position) in (TRUE_BEGIN, FALSE_BEGIN):
            end = word_end(position)
    else:
        value, end = position, number_end(position)
        put_int32(buffers.text_lengths, slot, end - position)
    put_number(buffers.numbers, slot, value)
    return end


@compiled
def _parse_text(position: int, buffers: ImageBuffers, slot: int) -> int:
    if byte_at(position) != QUOTE:
        return DECLINED
    position += 1
    end, escaped = string_end(position)
    put_number(buffers.numbers, slot, ~position if escaped else position)
    put_int32(buffers.text_lengths, slot, end - position - escaped)
    return end + 1 if end > 0 else DECLINED


@compiled
def _parse_whole(position: int) -> tuple[int, int]:
    """Parse an int64, except the smallest; return the value, and the position after it."""
    negative = byte_at(position) == MINUS
    if negative:
        position += 1
    begin, value = position, 0
    digit = byte_at(position) - ZERO
    while 0 <= digit <= 9:
        if value >= _LARGEST_TENTH and (value > _LARGEST_TENTH or digit > 7):
            return 0, DECLINED
        value = value * 10 + digit
        position += 1
        digit = byte_at(position) - ZERO
    if position == begin or (byte_at(begin) == ZERO and (position > begin + 1 or negative)):
        return 0, DECLINED
    if byte_at(position) == POINT or byte_at(position) | SMALL == SMALL_E:
        return 0, DECLINED
    return -value if negative else value, position


@compiled
def _parse_wide(position: int, kind: int, scale: int) -> tuple[int, int, int]:
    if kind == BASE64:
        return parse_wide_base64(position)
    if kind == DECIMAL:
        return parse_wide_decimal(position, scale)
    if byte_at(position) != QUOTE:
        return 0, 0, DECLINED
    low, high, end = parse_wide_decimal(position + 1, scale)
    return low, high, end + 1 if end > 0 and byte_at(end) == QUOTE else DECLINED


@compiled
def copy_texts(positions: Int64s, lengths: Int32s, valid: Bools, out: int) -> None:
    """Copy texts into one buffer without their escapes.

    Words are copied: up to 7 bytes more than each text, over which the next one is written. A
    message has as many behind its last text.

    Args:
        positions, lengths, valid: [s]; of one column, see `ImageBuffers`.
        out: the address of 8 bytes more than the valid texts together have.
    """
    target = 0
    for number in range(len(positions)):
        if not valid[number]:
            continue
        position, length = positions[number], lengths[number]
        if position >= 0:
            for shift in range(0, length, 8):
                put_number(out + target + shift, 0, number_at(position + shift))
        else:
            position = ~position
            end = target + length
            while target < end:
                code = byte_at(position)
                if code == BACKSLASH:
                    code, position = character_at(position)
                    target = put_character(out, target, code)
                else:
                    put_byte(out, target, code)
                    target, position = target + 1, position + 1
            continue
        target += length


@compiled
def put_character(out: int, target: int, code: int) -> int:
    """Write a character in UTF-8; return the position after it."""
    size = size_of(code)
    if size == 1:
        put_byte(out, target, code)
        return target + 1
    put_byte(out, target, 0xF00 >> size & 0xFF | code >> 6 * (size - 1))
    for following in range(size - 2, -1, -1):
        put_byte(out, target + size - 1 - following, 0x80 | code >> 6 * following & 0x3F)
    return target + size
