"""Writes the values of MongoDB's documents as plain JSON; a part of `document_rewriter`.

Each function takes the positions of a value and of the output. It declines unusual values.
"""

from __future__ import annotations

import numpy as np

from stream_app.cdc.compiled.decimal_values import DIGITS_MAX
from stream_app.machine_code.compiler import (
    byte_at,
    compiled,
    number_at,
    put_byte,
    put_number,
    word_at,
    word_of,
)
from stream_app.machine_code.json_bytes import (
    MINUS,
    NINE,
    NULL_START,
    OBJECT_END,
    OBJECT_START,
    QUOTE,
    ZERO,
)
from stream_app.machine_code.json_tokens import (
    DECLINED,
    blank_end,
    digits_end,
    name_end,
    number_end,
    string_end,
    word_end,
)

NULLS, BOOLEANS, TEXTS, NUMBERS, TIMESTAMPS, IDS = range(6)
"""The forms of a document's values; the kind of a column is the mask of those that it takes."""
_ID_NAME, _DATE_NAME = word_of(b'"$oid":\0'), word_of(b'"$date":')
_NUMBER_NAME = word_of(b'"$number')
_LONG_END, _INT_END = word_of(b'Long":\0\0'), word_of(b'Int":\0\0\0')
_FIVE_BYTES_MASK, _SIX_BYTES_MASK = np.uint64(0xFFFFFFFFFF), np.uint64(0xFFFFFFFFFFFF)
_SEVEN_BYTES_MASK = np.uint64(0xFFFFFFFFFFFFFF)


@compiled
def copy_bytes(output: int, position: int, length: int) -> int:
    """Copy bytes in words; up to 7 more are read and written."""
    for shift in range(0, length, 8):
        put_number(output + shift, 0, number_at(position + shift))
    return output + length


@compiled
def put_plain_value(position: int, end: int, output: int) -> tuple[int, int, int]:
    """Write a value; return the position after it, or `DECLINED`, the output's end, and its form.

    A number with a fraction becomes a text, which keeps its digits.
    """
    byte = byte_at(position)
    if byte == OBJECT_START:
        return _put_typed_value(position, end, output)
    if byte == QUOTE:
        value_end, _ = string_end(position + 1)
        value_end, form = value_end + 1 if value_end > 0 else DECLINED, TEXTS
    elif byte == MINUS or ZERO <= byte <= NINE:
        value_end, form = number_end(position), NUMBERS
        if value_end > 0 and digits_end(position + 1) != value_end:
            put_byte(output, 0, QUOTE)
            output = copy_bytes(output + 1, position, value_end - position)
            put_byte(output, 0, QUOTE)
            return value_end, output + 1, form
    else:
        value_end, form = word_end(position), NULLS if byte == NULL_START else BOOLEANS
    if value_end < 0:
        return DECLINED, output, form
    return value_end, copy_bytes(output, position, value_end - position), form


@compiled
def _put_typed_value(position: int, end: int, output: int) -> tuple[int, int, int]:
    """Write the value of an object such as ``{"$oid": "…"}``, whose name is a type.

    Returns:
        What `put_plain_value` returns.
    """
    position = blank_end(position + 1, end)
    name, colon_end, next_word = word_at(position), name_end(position), word_at(position + 8)
    if colon_end < 0:
        return DECLINED, output, 0
    size, value_start, quote_size = colon_end - position, blank_end(colon_end, end), 0
    if size == 7 and name & _SEVEN_BYTES_MASK == _ID_NAME and byte_at(value_start) == QUOTE:
        value_end, _ = string_end(value_start + 1)
        value_end, form = value_end + 1 if value_end > 0 else DECLINED, IDS
    elif size == 8 and name == _DATE_NAME:
        value_end, form = _integer_end(value_start), TIMESTAMPS
    elif (
        name == _NUMBER_NAME
        and byte_at(value_start) == QUOTE
        and (
            (size == 14 and next_word & _SIX_BYTES_MASK == _LONG_END)
            or (size == 13 and next_word & _FIVE_BYTES_MASK == _INT_END)
        )
    ):
        value_start, quote_size = value_start + 1, 1
        value_end, form = _integer_end(value_start), NUMBERS
    else:
        return DECLINED, output, 0
    if value_end < 0 or (quote_size and byte_at(value_end) != QUOTE):
        return DECLINED, output, form
    object_end = blank_end(value_end + quote_size, end)
    if byte_at(object_end) != OBJECT_END:
        return DECLINED, output, form
    return object_end + 1, copy_bytes(output, value_start, value_end - value_start), form


@compiled
def _integer_end(position: int) -> int:
    """Return the position after a canonical integer of at most 64 bits, or `DECLINED`."""
    start = position + 1 if byte_at(position) == MINUS else position
    end = digits_end(start)
    is_longer = byte_at(start) == ZERO and (end > start + 1 or start > position)
    return DECLINED if end == start or is_longer or end - start > DIGITS_MAX else end
