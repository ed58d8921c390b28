"""Writes the canonical text of a row, with MD5's padding, by machine code.

`hashed_columns` uses it and sizes the memory: each text has space for its longest values. Words
of eight bytes are written whole, so up to 7 bytes after a text are written too.

A column's values are read only inside of its buffers. `TextColumns.last_words` is where the last
whole word begins: bytes after it are read one by one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stream_app.format.row_hash.compiled.md5_block import BLOCK_SIZE, LENGTH_SIZE
from stream_app.machine_code.compiler import (
    byte_at,
    compiled,
    low_zero_bytes,
    number_at,
    put_byte,
    put_number,
)

NUMBERS, TEXTS, DIGITS = range(3)
"""Kinds of columns: int64; strings, with their size in front; strings that are the value's text."""
WHOLE_MAX = 20
"""The maximum bytes of the text of a 64-bit number."""

_SEMICOLON, _COLON, _MINUS = b";:-"
_ZEROS = np.uint64(0x3030303030303030)
_EIGHT_DIGITS = np.uint64(10**8)
_PADDING = 0x80


class TextColumns(NamedTuple):
    """The addresses of buffers of int64 [columns], and their number.

    Attributes:
        kinds: the kind of each column's values, one of the constants of this module.
        prefixes, prefix_sizes: the bytes in front of a value, and how many.
        values: the address of the first row's number, or of its offset, int32.
        data: the address of strings; 0 for numbers.
        last_words: where the last eight bytes of the strings begin.
        validity, firsts: the address of the bits of rows that are not null, and the first row's
            bit; 0 if none is null.
    """

    width: int
    kinds: int
    prefixes: int
    prefix_sizes: int
    values: int
    data: int
    last_words: int
    validity: int
    firsts: int


@compiled
def put_text(start: int, row_index: int, columns: TextColumns) -> int:
    """Write the text of a row, padded to whole blocks; return the position after it."""
    cursor = start
    for column in range(columns.width):
        offset = 8 * column
        validity = number_at(columns.validity + offset)
        if validity:
            bit = number_at(columns.firsts + offset) + row_index
            if not byte_at(validity + (bit >> 3)) >> (bit & 7) & 1:
                continue
        put_number(cursor, 0, number_at(columns.prefixes + offset))
        cursor += number_at(columns.prefix_sizes + offset)
        kind, values = number_at(columns.kinds + offset), number_at(columns.values + offset)
        if kind == NUMBERS:
            cursor = _put_integer(cursor, number_at(values + 8 * row_index))
        else:
            bounds = number_at(values + 4 * row_index)
            source = bounds & 0xFFFFFFFF
            size = (bounds >> 32) - source
            if kind == TEXTS:
                cursor = _put_integer(cursor, size)
                put_byte(cursor, 0, _COLON)
                cursor += 1
            source += number_at(columns.data + offset)
            cursor = _put_bytes(cursor, source, size, number_at(columns.last_words + offset))
        put_byte(cursor, 0, _SEMICOLON)
        cursor += 1
    return _pad(start, cursor)


@compiled
def _pad(start: int, end: int) -> int:
    size = end - start
    padded_end = start + ((size + LENGTH_SIZE) // BLOCK_SIZE + 1) * BLOCK_SIZE
    put_byte(end, 0, _PADDING)
    end += 1
    while end < padded_end - LENGTH_SIZE:
        put_number(end, 0, 0)
        end += 8
    put_number(padded_end - LENGTH_SIZE, 0, 8 * size)
    return padded_end


@compiled
def _put_bytes(cursor: int, source: int, size: int, last_word: int) -> int:
    end = cursor + size
    while cursor < end:
        if source <= last_word:
            put_number(cursor, 0, number_at(source))
            cursor += 8
            source += 8
        else:
            put_byte(cursor, 0, byte_at(source))
            cursor += 1
            source += 1
    return end


@compiled
def _put_integer(cursor: int, value: int) -> int:
    """Write a signed number in decimal digits, and return the address after them."""
    magnitude = np.uint64(value)
    if value < 0:
        put_byte(cursor, 0, _MINUS)
        cursor += 1
        magnitude = np.uint64(0) - magnitude
    if magnitude < _EIGHT_DIGITS:
        return _put_leading_digits(cursor, magnitude)
    high = magnitude // _EIGHT_DIGITS
    if high < _EIGHT_DIGITS:
        cursor = _put_leading_digits(cursor, high)
    else:
        cursor = _put_leading_digits(cursor, high // _EIGHT_DIGITS)
        put_number(cursor, 0, int(_digits_of(high % _EIGHT_DIGITS) | _ZEROS))
        cursor += 8
    put_number(cursor, 0, int(_digits_of(magnitude % _EIGHT_DIGITS) | _ZEROS))
    return cursor + 8


@compiled
def _put_leading_digits(cursor: int, value: np.uint64) -> int:
    """Write a number of up to eight digits without leading zeros; return the address after it."""
    digits = _digits_of(value)
    leading_zeros = low_zero_bytes(digits) if value else 7
    put_number(cursor, 0, int((digits | _ZEROS) >> np.uint64(8 * leading_zeros)))
    return cursor + 8 - leading_zeros


@compiled
def _digits_of(value: np.uint64) -> np.uint64:
    """Return a number's eight digits, the first one in the lowest byte.

    Three steps halve the groups: of eight digits into four, two and one. A product by a rounded
    reciprocal divides all groups of a word at once::

        12345678
        1234      5678
        12   34   56   78
        1  2 3  4 5  6 7  8   0x08_07_06_05_04_03_02_01
    """
    high = value // np.uint64(10_000)
    groups = high | (value - high * np.uint64(10_000)) << np.uint64(32)
    high = (groups * np.uint64(10_486) >> np.uint64(20)) & np.uint64(0x7F_0000_007F)
    groups = high | (groups - high * np.uint64(100)) << np.uint64(16)
    high = (groups * np.uint64(103) >> np.uint64(10)) & np.uint64(0x000F_000F_000F_000F)
    return high | (groups - high * np.uint64(10)) << np.uint64(8)
