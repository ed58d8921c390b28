"""Parses the value of one column's cell, whatever its kind; a part of `image_parser`.

Each function takes the position of a value, and returns the value and the position after it, or
`DECLINED`. A declined value may still be valid, and another reader decides. Examples are a number
with more digits, a decimal of another scale, and a text in place of a number.
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
    FALSE_START,
    MINUS,
    NULL_START,
    POINT,
    QUOTE,
    SMALL,
    SMALL_E,
    TRUE_START,
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

INTEGER, BOOLEAN, TEXT, NUMBER_TEXT, DECIMAL, DECIMAL_TEXT, BASE64, OBJECT, LIST = range(9)
WIDE = 16
"""The kinds of cells: an int64, a boolean, the bytes of a string, those of a number, and the
unscaled int64 of a decimal. A decimal is written as a number, as its text, or as base64 of its
bytes. `WIDE` is added to the kind of a decimal of more than 18 digits, which has two int64. The
cell of an object says whether the object is there, and that of a list how many objects it has.
Their columns have buffers of their own.
"""
MISSING, VALUE, NULL = range(3)
"""The states of a cell: the image lacks the column, or has a value or null."""

_NULL, _FOUR_BYTES = word_of(b"null\0\0\0\0"), np.uint64(0xFFFFFFFF)
_LARGEST_TENTH = (2**63 - 1) // 10


class ImageBuffers(NamedTuple):
    """The addresses of an image's buffers: e expected names, and cells for c columns.

    Attributes:
        words: uint64; the bytes of each name with its quotes and colon, zeros up to whole words.
        starts: int64 [e + 1]; where each name begins in the words.
        lengths: int64 [e]; the bytes of each name.
        masks: uint64 [e]; the mask of the name's bytes in its last word.
        column_indices: int64 [e]; the index of each name's column, or `NO_COLUMN`.
        kinds: int64 [c]; the kinds of the columns' cells.
        scales: int64 [c]; the fractional digits of decimals.
        values: int64 [c, s]; values; for a text its address, inverted if it has escapes.
        highs: int64 [c, s]; the upper halves of wide decimals.
        text_lengths: int32 [c, s]; the bytes of texts without escapes.
        states: uint8 [c, s]; `MISSING`, `VALUE` or `NULL`.
        stamps: int64 [c]; the stamp of the last image that had the column.
        name_count, column_count, width: e, c and s.
    """

    words: int
    starts: int
    lengths: int
    masks: int
    column_indices: int
    kinds: int
    scales: int
    values: int
    highs: int
    text_lengths: int
    states: int
    stamps: int
    name_count: int
    column_count: int
    width: int


class Span(NamedTuple):
    """The part of a message that is still to be parsed.

    Attributes:
        position: the start of an image, an object or a list.
        end: the end of the message, or the start of its tail.
        search_count: the remaining number of searches for names.
    """

    position: int
    end: int
    search_count: int


class ImageRow(NamedTuple):
    """An image's row of the buffers, and a number that no other image has."""

    row_index: int
    stamp: int


@compiled
def put_null(buffers: ImageBuffers, slot: int, state: int) -> None:
    """Mark a cell as null or missing, and clear its bytes, so that equal rows have equal bytes."""
    put_byte(buffers.states, slot, state)
    put_number(buffers.values, slot, 0)


@compiled
def parse_cell(  # noqa: C901 - a branch for each kind
    position: int, buffers: ImageBuffers, cell: tuple[int, int]
) -> int:
    """Parse a column's value into its cell; return the position after the value."""
    column, row_index = cell
    slot = column * buffers.width + row_index
    if byte_at(position) == NULL_START:
        put_null(buffers, slot, NULL)
        return position + 4 if word_at(position) & _FOUR_BYTES == _NULL else DECLINED
    put_byte(buffers.states, slot, VALUE)
    kind = number_at(buffers.kinds + 8 * column)
    if kind == INTEGER:
        value, end = _parse_integer(position)
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
        value, end = int(byte_at(position) == TRUE_START), DECLINED
        if byte_at(position) in (TRUE_START, FALSE_START):
            end = word_end(position)
    else:
        value, end = position, number_end(position)
        put_int32(buffers.text_lengths, slot, end - position)
    put_number(buffers.values, slot, value)
    return end


@compiled
def _parse_text(position: int, buffers: ImageBuffers, slot: int) -> int:
    if byte_at(position) != QUOTE:
        return DECLINED
    position += 1
    end, escape_bytes = string_end(position)
    put_number(buffers.values, slot, ~position if escape_bytes else position)
    put_int32(buffers.text_lengths, slot, end - position - escape_bytes)
    return end + 1 if end > 0 else DECLINED


@compiled
def _parse_integer(position: int) -> tuple[int, int]:
    """Parse an int64, except the smallest; return the value, and the position after it."""
    is_negative = byte_at(position) == MINUS
    if is_negative:
        position += 1
    start, value = position, 0
    digit = byte_at(position) - ZERO
    while 0 <= digit <= 9:
        if value >= _LARGEST_TENTH and (value > _LARGEST_TENTH or digit > 7):
            return 0, DECLINED
        value = value * 10 + digit
        position += 1
        digit = byte_at(position) - ZERO
    if position == start or (byte_at(start) == ZERO and (position > start + 1 or is_negative)):
        return 0, DECLINED
    if byte_at(position) == POINT or byte_at(position) | SMALL == SMALL_E:
        return 0, DECLINED
    return -value if is_negative else value, position


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
def copy_texts(positions: Int64s, lengths: Int32s, is_valid: Bools, output: int) -> None:
    """Copy texts into one buffer without their escapes.

    It copies whole words, so up to 7 bytes more than each text; the next text overwrites these. A
    message has at least 7 bytes after its last text.

    Args:
        positions, lengths: [s]; of one column, see `ImageBuffers`.
        is_valid: bool [s]; the texts to copy.
        output: the address of a buffer that has 8 bytes more than all texts.
    """
    output_offset = 0
    for index in range(len(positions)):
        if not is_valid[index]:
            continue
        position, length = positions[index], lengths[index]
        if position >= 0:
            for shift in range(0, length, 8):
                put_number(output + output_offset + shift, 0, number_at(position + shift))
        else:
            position = ~position
            end = output_offset + length
            while output_offset < end:
                code = byte_at(position)
                if code == BACKSLASH:
                    code, position = character_at(position)
                    output_offset = put_character(output, output_offset, code)
                else:
                    put_byte(output, output_offset, code)
                    output_offset, position = output_offset + 1, position + 1
            continue
        output_offset += length


@compiled
def put_character(output: int, output_offset: int, code: int) -> int:
    """Write a character in UTF-8; return the position after it."""
    size = size_of(code)
    if size == 1:
        put_byte(output, output_offset, code)
        return output_offset + 1
    put_byte(output, output_offset, 0xF00 >> size & 0xFF | code >> 6 * (size - 1))
    for shift in range(size - 2, -1, -1):
        put_byte(output, output_offset + size - 1 - shift, 0x80 | code >> 6 * shift & 0x3F)
    return output_offset + size
