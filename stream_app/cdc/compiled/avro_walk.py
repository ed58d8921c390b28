"""Walks over Avro's bytes by the steps of a schema: the loop over messages, and over their fields.

Called by `avro_layout`, which makes the steps and asks for columns. One compilation serves every
schema, because its steps are data.

No read goes beyond its message: each position is compared with the message's end first. Behind
every message are 8 more bytes, which `avro_layout` provides, so whole words may be read.

Source: Apache Avro's specification, "Binary encoding".
"""

from __future__ import annotations

from typing import NamedTuple

from stream_app.arrow_buffers import Bools, Int64s
from stream_app.cdc.compiled.cell_values import NULL, VALUE
from stream_app.machine_code.compiler import (
    byte_at,
    compiled,
    number_at,
    put_byte,
    put_int32,
    put_number,
)
from stream_app.machine_code.json_tokens import DECLINED

NOTHING, LONG, BOOLEAN, FLOAT, DOUBLE, SYMBOL, BYTES = range(7)
DECIMAL, WIDE, RECORD, IMAGE, IMAGE_END, END = range(7, 13)
"""What a step reads: no bytes, a number of variable length, a truth value, floating point, or an
enum's index. Others read bytes or text, a decimal of 8 or 16 bytes at most, a record, or an image.
"""
STEP_SIZE = 4
"""Of a step: what it reads; the branch of its union that is null, or -1; its argument; its column.

The argument is the number of an enum's symbols, or the size of a fixed, or -1. Of a record and an
image it is the number of the step behind it. The column of an image is 0 before the change, 1 after
it. A step without a column, -1, reads over its value.
"""
_STEP_BYTES = 8 * STEP_SIZE
_HALF = 0xFFFFFFFF
_POSITIVE = 2**63 - 1
_NARROW_BYTES, _WIDE_BYTES = 8, 16


class AvroPositions(NamedTuple):
    """The positions of n messages, of which m are read.

    Attributes:
        starts, ends: int64 [n]; the addresses of each value's first byte, and behind its last.
        before_at, after_at: int64 [m]; the positions of a message's images, or -1.
        parsed: bool [n]; else the message is declined.
    """

    starts: Int64s
    ends: Int64s
    before_at: Int64s
    after_at: Int64s
    parsed: Bools


class AvroBuffers(NamedTuple):
    """The addresses of a schema's steps and of the cells of c columns.

    Attributes:
        numbers, highs, lengths, valid: the buffers of `ImageBuffers`; `lengths` are text lengths.
        width: the number of cells of a column.
    """

    steps: int
    numbers: int
    highs: int
    lengths: int
    valid: int
    width: int


@compiled
def walk_messages(positions: AvroPositions, buffers: AvroBuffers) -> int:
    """Read messages into cells; return how many images there are."""
    image, row = 0, 0
    for message in range(len(positions.starts)):
        span = positions.starts[message], positions.ends[message]
        behind, before, after = _read_message(span, buffers, (image, row))
        positions.parsed[message] = behind >= 0
        if behind >= 0:
            positions.before_at[row] = before
            positions.after_at[row] = after
            image, row = behind, row + 1
    return image


@compiled
def _read_message(  # noqa: C901, PLR0912 - a branch for each kind of step
    span: tuple[int, int], buffers: AvroBuffers, cell: tuple[int, int]
) -> tuple[int, int, int]:
    """Read one message into the cells of its images and of its texts.

    Args:
        span: the beginning and the end of the message's value.
        cell: the rows of its next image, and of its texts.

    Returns:
        The row behind its last image, or `DECLINED`; and the rows of its images, or -1.
    """
    position, end = span
    image, row = cell
    number, before, after = row, -1, -1
    step = buffers.steps
    while True:
        reads, null = number_at(step), number_at(step + 8)
        argument, column = number_at(step + 16), number_at(step + 24)
        step += _STEP_BYTES
        if null >= 0:
            branch, position = long_at(position, end)
            if position < 0 or branch not in (0, 1):
                break
            if branch == null:
                behind = step
                if reads in (RECORD, IMAGE):
                    behind = buffers.steps + argument * _STEP_BYTES
                if reads != IMAGE:
                    _put_nulls(buffers, (step - _STEP_BYTES, behind), number)
                step = behind
                continue
        if reads < RECORD:
            position = _read_cell(reads, (position, end, argument), buffers, (column, number))
            if position < 0 or position > end:
                break
        elif reads == IMAGE:
            number, image = image, image + 1
            before, after = (number, after) if column == 0 else (before, number)
        elif reads == IMAGE_END:
            number = row
        elif reads == END:
            return image if position == end else DECLINED, before, after
    return DECLINED, -1, -1


@compiled
def _read_cell(  # noqa: C901, PLR0912 - a branch for each kind of value
    reads: int, span: tuple[int, int, int], buffers: AvroBuffers, cell: tuple[int, int]
) -> int:
    """Read a value into its cell, or skip it; return the position after it, or `DECLINED`.

    Args:
        span: the beginning of the value, the end of the message, and the step's argument.
        cell: the column, or -1 for a value to skip; and the row.
    """
    position, end, argument = span
    column, number = cell
    slot, value = column * buffers.width + number, 0
    if reads == LONG:
        value, position = long_at(position, end)
    elif reads == BYTES:
        length, value = _byte_span(position, end, argument)
        if column >= 0:
            put_int32(buffers.lengths, slot, length)
        position = value + length if value >= 0 else DECLINED
    elif reads in (DECIMAL, WIDE):
        length, position = _byte_span(position, end, argument)
        if length == 0 or length > (_NARROW_BYTES if reads == DECIMAL else _WIDE_BYTES):
            return DECLINED
        value, high = _decimal_halves(position, length)
        put_number(buffers.highs, slot, high)
        position += length
    elif reads == DOUBLE:
        value, position = number_at(position), position + 8
    elif reads == FLOAT:
        value, position = number_at(position) & _HALF, position + 4
    elif reads == BOOLEAN:
        value, position = byte_at(position), position + 1
    elif reads == SYMBOL:
        value, position = long_at(position, end)
        if not 0 <= value < argument:
            return DECLINED
    if column >= 0:
        put_byte(buffers.valid, slot, NULL if reads == NOTHING else VALUE)
        put_number(buffers.numbers, slot, value)
    return position


@compiled
def long_at(position: int, end: int) -> tuple[int, int]:
    """Return a number of variable length, zigzag, and the position after it or `DECLINED`."""
    if position >= end:
        return 0, DECLINED
    byte = byte_at(position)
    number, position, shift = byte & 0x7F, position + 1, 7
    while byte >= 0x80:
        if position >= end:
            return 0, DECLINED
        byte = byte_at(position)
        if shift == 63 and byte > 1:  # more than 64 bits
            return 0, DECLINED
        number |= (byte & 0x7F) << shift
        position, shift = position + 1, shift + 7
    return (number >> 1 & _POSITIVE) ^ -(number & 1), position


@compiled
def _byte_span(position: int, end: int, size: int) -> tuple[int, int]:
    """Return the number of a value's bytes, and where they begin or `DECLINED`.

    Args:
        size: the size of a fixed type, or -1 if the bytes are preceded by their length.
    """
    length = size
    if size < 0:
        length, position = long_at(position, end)
        if position < 0:
            return 0, DECLINED
    return (length, position) if 0 <= length <= end - position else (0, DECLINED)


@compiled
def _decimal_halves(position: int, length: int) -> tuple[int, int]:
    """Return the lower and the upper 64 bits of a big-endian number in two's complement."""
    low = -(byte_at(position) >> 7)
    high = low
    for byte_position in range(position, position + length):
        high = high << 8 | low >> 56 & 0xFF
        low = low << 8 | byte_at(byte_position)
    return low, high


@compiled
def _put_nulls(buffers: AvroBuffers, steps: tuple[int, int], number: int) -> None:
    """Set the cells of the columns that some steps read to null."""
    step, behind = steps
    while step < behind:
        column = number_at(step + 24)
        if column >= 0:
            slot = column * buffers.width + number
            put_byte(buffers.valid, slot, NULL)
            put_number(buffers.numbers, slot, 0)
        step += _STEP_BYTES
