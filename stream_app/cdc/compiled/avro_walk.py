"""Walks over Avro's bytes by the steps of a schema: the loop over messages, and over their fields.

`avro_layout` makes the steps, calls the walk, and asks for columns. One compilation serves every
schema, because its steps are data.

No read goes beyond its message: each position is compared with the message's end first. After
every message `avro_layout` provides 8 more bytes, so whole words may be read.

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
"""The kinds of steps. One reads no bytes, a number of variable length, a boolean, a floating-point
number, or an enum's index. Others read bytes or text, a decimal of 8 or 16 bytes at most, a record,
or an image.
"""
STEP_SIZE = 4
"""The numbers of a step: its kind; its union's null branch, or -1; its argument; its column.

The argument is the number of an enum's symbols, the size of a fixed, or -1. For a record or an
image it is the number of the step after it. The column of an image is 0 before the change, and 1
after it. A step without a column, -1, skips its value.
"""
_STEP_BYTE_COUNT = 8 * STEP_SIZE
_LOW_HALF = 0xFFFFFFFF
_LOW_63_BITS = 2**63 - 1
_NARROW_DECIMAL_SIZE, _WIDE_DECIMAL_SIZE = 8, 16


class AvroPositions(NamedTuple):
    """The positions of n messages, of which m are read.

    Attributes:
        starts, ends: int64 [n]; the addresses of each value's first byte and of its end.
        before_indices, after_indices: int64 [m]; the indices of a message's images, or -1.
        is_parsed: bool [n]; false for a declined message.
    """

    starts: Int64s
    ends: Int64s
    before_indices: Int64s
    after_indices: Int64s
    is_parsed: Bools


class AvroBuffers(NamedTuple):
    """The addresses of a schema's steps and of the cells of c columns.

    Attributes:
        values, highs, lengths, states: as in `ImageBuffers`; `lengths` are its `text_lengths`.
        width: the number of cells of a column.
    """

    steps: int
    values: int
    highs: int
    lengths: int
    states: int
    width: int


@compiled
def walk_messages(positions: AvroPositions, buffers: AvroBuffers) -> int:
    """Read messages into cells, and return the number of images."""
    image_index, row_index = 0, 0
    for message_index in range(len(positions.starts)):
        span = positions.starts[message_index], positions.ends[message_index]
        next_image, before, after = _read_message(span, buffers, (image_index, row_index))
        positions.is_parsed[message_index] = next_image >= 0
        if next_image >= 0:
            positions.before_indices[row_index] = before
            positions.after_indices[row_index] = after
            image_index, row_index = next_image, row_index + 1
    return image_index


@compiled
def _read_message(  # noqa: C901, PLR0912 - a branch for each kind of step
    span: tuple[int, int], buffers: AvroBuffers, cell: tuple[int, int]
) -> tuple[int, int, int]:
    """Read one message into the cells of its images and of its texts.

    Args:
        span: the start and the end of the message's value.
        cell: the rows of its next image, and of its texts.

    Returns:
        The row after its last image, or `DECLINED`; and the rows of its images, or -1.
    """
    position, end = span
    image, row_index = cell
    cell_row, before, after = row_index, -1, -1
    step = buffers.steps
    while True:
        kind, null_branch = number_at(step), number_at(step + 8)
        argument, column = number_at(step + 16), number_at(step + 24)
        step += _STEP_BYTE_COUNT
        if null_branch >= 0:
            branch, position = long_at(position, end)
            if position < 0 or branch not in (0, 1):
                break
            if branch == null_branch:
                next_step = step
                if kind in (RECORD, IMAGE):
                    next_step = buffers.steps + argument * _STEP_BYTE_COUNT
                if kind != IMAGE:
                    _put_nulls(buffers, (step - _STEP_BYTE_COUNT, next_step), cell_row)
                step = next_step
                continue
        if kind < RECORD:
            position = _read_cell(kind, (position, end, argument), buffers, (column, cell_row))
            if position < 0 or position > end:
                break
        elif kind == IMAGE:
            cell_row, image = image, image + 1
            before, after = (cell_row, after) if column == 0 else (before, cell_row)
        elif kind == IMAGE_END:
            cell_row = row_index
        elif kind == END:
            return image if position == end else DECLINED, before, after
    return DECLINED, -1, -1


@compiled
def _read_cell(  # noqa: C901, PLR0912 - a branch for each kind of value
    kind: int, span: tuple[int, int, int], buffers: AvroBuffers, cell: tuple[int, int]
) -> int:
    """Read a value into its cell, or skip it; return the position after it, or `DECLINED`.

    Args:
        span: the start of the value, the end of the message, and the step's argument.
        cell: the column, or -1 for a value to skip; and the row.
    """
    position, end, argument = span
    column, row_index = cell
    slot, value = column * buffers.width + row_index, 0
    if kind == LONG:
        value, position = long_at(position, end)
    elif kind == BYTES:
        length, value = _byte_span(position, end, argument)
        if column >= 0:
            put_int32(buffers.lengths, slot, length)
        position = value + length if value >= 0 else DECLINED
    elif kind in (DECIMAL, WIDE):
        length, position = _byte_span(position, end, argument)
        if length == 0 or length > (
            _NARROW_DECIMAL_SIZE if kind == DECIMAL else _WIDE_DECIMAL_SIZE
        ):
            return DECLINED
        value, high = _decimal_halves(position, length)
        put_number(buffers.highs, slot, high)
        position += length
    elif kind == DOUBLE:
        value, position = number_at(position), position + 8
    elif kind == FLOAT:
        value, position = number_at(position) & _LOW_HALF, position + 4
    elif kind == BOOLEAN:
        value, position = byte_at(position), position + 1
    elif kind == SYMBOL:
        value, position = long_at(position, end)
        if not 0 <= value < argument:
            return DECLINED
    if column >= 0:
        put_byte(buffers.states, slot, NULL if kind == NOTHING else VALUE)
        put_number(buffers.values, slot, value)
    return position


@compiled
def long_at(position: int, end: int) -> tuple[int, int]:
    """Return a number of variable length, zigzag, and the position after it or `DECLINED`."""
    if position >= end:
        return 0, DECLINED
    byte = byte_at(position)
    value, position, shift = byte & 0x7F, position + 1, 7
    while byte >= 0x80:
        if position >= end:
            return 0, DECLINED
        byte = byte_at(position)
        if shift == 63 and byte > 1:  # more than 64 bits
            return 0, DECLINED
        value |= (byte & 0x7F) << shift
        position, shift = position + 1, shift + 7
    return (value >> 1 & _LOW_63_BITS) ^ -(value & 1), position


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
def _put_nulls(buffers: AvroBuffers, steps: tuple[int, int], row_index: int) -> None:
    """Set the cells of the columns that some steps read to null."""
    step, steps_end = steps
    while step < steps_end:
        column = number_at(step + 24)
        if column >= 0:
            slot = column * buffers.width + row_index
            put_byte(buffers.states, slot, NULL)
            put_number(buffers.values, slot, 0)
        step += _STEP_BYTE_COUNT
