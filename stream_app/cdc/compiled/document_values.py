"""Writes the values of MongoDB's documents as plain JSON; a part of `document_rewriter`.

Each function takes the position of a value and that of the output. It declines what is not usual.
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
    NULL_BEGIN,
    OBJECT_BEGIN,
    OBJECT_END,
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
_FIVE, _SIX = np.uint64(0xFFFFFFFFFF), np.uint64(0xFFFFFFFFFFFF)
_SEVEN = np.uint64(0xFFFFFFFFFFFFFF)


@compiled
def copy_bytes(out: int, position: int, length: int) -> int:
    """Copy bytes in words; up to 7 more are read and written."""
    for shift in range(0, length, 8):
        put_number(out + shift, 0, number_at(position + shift))
    return out + length


@compiled
def write_value(position: int, end: int, out: int) -> tuple[int, int, int]:
    """Write a value; return the positions after it, or `DECLINED`, and after the output; its form.

    A number with a fraction becomes a text, which keeps its digits.
    """
    byte = byte_at(position)
    if byte == OBJECT_BEGIN:
        return _write_typed_value(position, end, out)
    if byte == QUOTE:
        behind, _ = string_end(position + 1)
        behind, form = behind + 1 if behind > 0 else DECLINED, TEXTS
    elif byte == MINUS or ZERO <= byte <= NINE:
        behind, form = number_end(position), NUMBERS
        if behind > 0 and digits_end(position + 1) != behind:
            put_byte(out, 0, QUOTE)
            out = copy_bytes(out + 1, position, behind - position)
            put_byte(out, 0, QUOTE)
            return behind, out + 1, form
    else:
        behind, form = word_end(position), NULLS if byte == NULL_BEGIN else BOOLEANS
    if behind < 0:
        return DECLINED, out, form
    return behind, copy_bytes(out, position, behind - position), form


@compiled
def _write_typed_value(position: int, end: int, out: int) -> tuple[int, int, int]:
    """Write the value of an object such as ``{"$oid": "…"}``, whose name is a type.

    Returns:
        As `write_value`.
    """
    position = blank_end(position + 1, end)
    name, behind, next_word = word_at(position), name_end(position), word_at(position + 8)
    if behind < 0:
        return DECLINED, out, 0
    size, begin, quoted = behind - position, blank_end(behind, end), 0
    if size == 7 and name & _SEVEN == _ID_NAME and byte_at(begin) == QUOTE:
        stop, _ = string_end(begin + 1)
        stop, form = stop + 1 if stop > 0 else DECLINED, IDS
    elif size == 8 and name == _DATE_NAME:
        stop, form = _whole_end(begin), TIMESTAMPS
    elif (
        name == _NUMBER_NAME
        and byte_at(begin) == QUOTE
        and (
            (size == 14 and next_word & _SIX == _LONG_END)
            or (size == 13 and next_word & _FIVE == _INT_END)
        )
    ):
        begin, quoted = begin + 1, 1
        stop, form = _whole_end(begin), NUMBERS
    else:
        return DECLINED, out, 0
    if stop < 0 or (quoted and byte_at(stop) != QUOTE):
        return DECLINED, out, form
    behind = blank_end(stop + quoted, end)
    if byte_at(behind) != OBJECT_END:
        return DECLINED, out, form
    return behind + 1, copy_bytes(out, begin, stop - begin), form


@compiled
def _whole_end(position: int) -> int:
    """Return the position after a canonical integer of at most 64 bits, or `DECLINED`."""
    begin = position + 1 if byte_at(position) == MINUS else position
    end = digits_end(begin)
    is_longer = byte_at(begin) == ZERO and (end > begin + 1 or begin > position)
    return DECLINED if end == begin or is_longer or end - begin > DIGITS_MAX else end
