"""Parses images of rows into cells of typed columns: the loops over messages and columns.

Called by `image_columns`, which lays out the names and the cells of a table's columns. One
compilation serves every table, because the names and kinds of columns are data.

`column_names` finds the column that each name means.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stream_app.arrow_buffers import Bools, Bytes, Int64s
from stream_app.cdc.compiled.cell_values import (
    MISSING,
    VALUE,
    ImageBuffers,
    ImageMark,
    Span,
    parse_cell,
    put_null,
)
from stream_app.cdc.compiled.column_names import mark_of, mark_of_unknown, parse_name
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
    ARRAY_BEGIN,
    ARRAY_END,
    COLON,
    COMMA,
    NULL_BEGIN,
    OBJECT_BEGIN,
    OBJECT_END,
)
from stream_app.machine_code.json_tokens import DECLINED, blank_end, value_end

_BEFORE, _BEFORE_END = word_of(b'{"before'), word_of(b'":\0\0\0\0\0\0')
_AFTER, _NULL = word_of(b',"after"'), word_of(b"null\0\0\0\0")
_TWO_BYTES, _FOUR_BYTES = np.uint64(0xFFFF), np.uint64(0xFFFFFFFF)
_HEAD_MIN = len('{"before":{},"after":{}')
_BEFORE_SIZE, _AFTER_SIZE, _NULL_SIZE = len('{"before":'), len(',"after":'), len("null")
_BRACES, _WORD = len("{}"), 8
_BUFFERS_SIZE = _WORD * len(ImageBuffers._fields)
_SEARCHES_PER_COLUMN = 8
"""Searches for names that a message may ask for, beside one for each byte."""


class HeadPositions(NamedTuple):
    """The positions of the images in n messages, before the known end of each message.

    Attributes:
        starts, lasts: int64 [n]; where each message begins in the data, and where its tail does.
        before_at, after_at: int64 [n]; the position of each image, or -1.
        marks: int64 [n]; 0 where the images have the table's columns and no other. Messages with
            the same unknown and missing columns have the same number.
        parsed: bool [n]; else the message is declined.
    """

    starts: Int64s
    lasts: Int64s
    before_at: Int64s
    after_at: Int64s
    marks: Int64s
    parsed: Bools


@compiled
def parse_heads(  # noqa: C901, PLR0912 - each branch is a way to decline
    heads: HeadPositions, buffers: ImageBuffers
) -> int:
    """Parse ``{"before":…,"after":…`` of each message up to its tail, and fill the heads.

    Each tail begins with a comma and a quote, and has 16 bytes at least.

    Returns:
        How many images there are.
    """
    image, stamp = 0, 0
    for row in range(len(heads.starts)):
        start, last = heads.starts[row], heads.lasts[row]
        heads.before_at[row] = heads.after_at[row] = -1
        heads.parsed[row] = False
        stamp += 2
        if last - start < _HEAD_MIN or word_at(start) != _BEFORE:
            continue
        if word_at(start + _WORD) & _TWO_BYTES != _BEFORE_END:
            continue
        steps = last - start + _SEARCHES_PER_COLUMN * buffers.column_count
        position, first, mark_sum = start + _BEFORE_SIZE, image, 0
        if byte_at(position) == OBJECT_BEGIN:
            position, unknown, missing, steps = _parse_image(
                Span(position, last, steps), buffers, ImageMark(first, stamp)
            )
            if position < 0:
                continue
            heads.before_at[row] = first
            first, marks = first + 1, unknown + missing
            mark_sum = mark_of(marks) if marks else 0
        elif word_at(position) & _FOUR_BYTES == _NULL:
            position += _NULL_SIZE
        else:
            continue
        if position + _AFTER_SIZE + _BRACES > last or word_at(position) != _AFTER:
            continue
        if byte_at(position + _WORD) != COLON:
            continue
        position += _AFTER_SIZE
        if byte_at(position) == OBJECT_BEGIN:
            position, unknown, missing, steps = _parse_image(
                Span(position, last, steps), buffers, ImageMark(first, stamp + 1)
            )
            if position != last:
                continue
            heads.after_at[row] = first
            first, mark_sum = first + 1, mark_sum + unknown + missing
        elif position + _NULL_SIZE != last or word_at(position) & _FOUR_BYTES != _NULL:
            continue
        image = first
        heads.marks[row] = mark_sum
        heads.parsed[row] = True
    return image


class RowPositions(NamedTuple):
    """The positions of n messages that are images, or have images as members.

    Attributes:
        starts, ends: int64 [n]; the addresses of their first byte, and behind their last.
        marks, parsed: those of `HeadPositions`.
    """

    starts: Int64s
    ends: Int64s
    marks: Int64s
    parsed: Bools


class InnerBuffers(NamedTuple):
    """The addresses of what the objects in messages are parsed with, and the lists of objects.

    Attributes:
        buffers: int64 [k + m, 15]; the `ImageBuffers` of each object, then of each list.
        object_count, list_count: k and m; the message's last columns are the objects, then the
            lists.
        list_rows: int64 [2, m]; the rows in each list's buffers, of the messages before and with
            the message that is being parsed.
        partial: a bit for each; 1: missing columns of its images are not drift.
        searches: how many searches for names a message may ask for, beside one for each byte.
    """

    buffers: int
    object_count: int
    list_count: int
    list_rows: int
    partial: int
    searches: int


@compiled
def parse_rows(rows: RowPositions, buffers: ImageBuffers, inner: InnerBuffers) -> int:
    """Parse whole messages; a quote without backslash must follow the last one, to end any text.

    A text without its end is read up to a quote of a later message. That one is read from there
    on, so bytes are read twice at most.

    Returns:
        How many messages are parsed: each is a row of the buffers, and of those of each object.
        The objects of lists are rows of their buffers.
    """
    image, lists, list_rows = 0, inner.list_count, inner.list_rows
    for row in range(len(rows.starts)):
        start, end = rows.starts[row], rows.ends[row]
        rows.parsed[row] = False
        if end - start < 2 or byte_at(start) != OBJECT_BEGIN:
            continue
        steps = end - start + inner.searches
        for index in range(lists):
            put_number(list_rows, lists + index, number_at(list_rows + _WORD * index))
        mark = ImageMark(image, row + 1)
        position, marks = _parse_message(Span(start, end, steps), buffers, inner, mark)
        if 0 < position < end:
            position = blank_end(position, end)
        if position == end:
            rows.marks[row] = marks
            rows.parsed[row] = True
            image += 1
            for index in range(lists):
                put_number(list_rows, index, number_at(list_rows + _WORD * (lists + index)))
    return image


@compiled
def _parse_message(  # noqa: C901, PLR0912 - each branch is a way to decline
    span: Span,
    buffers: ImageBuffers,
    inner: InnerBuffers,
    mark: ImageMark,
) -> tuple[int, int]:
    """Parse one message that is an image, and the objects in it as images of their own.

    Returns:
        The position after its brace, or `DECLINED`; and the sum of the marks of its own fields, or
        of the images in it if it has some.
    """
    position, last, steps = span
    number, stamp = mark
    first = buffers.column_count - inner.object_count - inner.list_count
    expected, marks, columns, image_marks = 0, 0, 0, 0
    position = blank_end(position + 1, last)
    is_empty = byte_at(position) == OBJECT_END
    while not is_empty:
        search = last, steps, expected
        behind, column, expected, steps = parse_name(position, search, buffers, stamp)
        if behind < 0:
            return DECLINED, 0
        columns += column >= 0
        if column < 0:
            marks += mark_of_unknown(position, behind, column)
            position = value_end(behind, last)
        elif column >= first and byte_at(behind) != NULL_BEGIN:
            position, inner_marks, steps = _parse_inner_images(
                Span(behind, last, steps), buffers, inner, column, mark
            )
            image_marks += inner_marks
        else:
            position = parse_cell(behind, buffers, (column, number))
        if position < 0 or position >= last:
            return DECLINED, 0
        if byte_at(position) != COMMA:
            position = blank_end(position, last)
            if byte_at(position) != COMMA:
                break
        position += 1
    if byte_at(position) != OBJECT_END:
        return DECLINED, 0
    if columns < buffers.column_count:
        marks += _put_missing(buffers, number, stamp)
    for index in range(inner.object_count):
        if byte_at(buffers.valid + (first + index) * buffers.width + number) != VALUE:
            _put_missing(_buffers_at(inner.buffers, index), number, stamp)
    return position + 1, image_marks if first < buffers.column_count else marks


@compiled
def _parse_inner_images(
    span: Span,
    buffers: ImageBuffers,
    inner: InnerBuffers,
    column: int,
    mark: ImageMark,
) -> tuple[int, int, int]:
    """Parse a column whose value is an object or a list of objects.

    Returns:
        The position after its bracket, or `DECLINED`; the sum of its images' marks, which no
        other column gives; and how many searches are left.
    """
    position, _, steps = span
    number = mark.number
    index = column - buffers.column_count + inner.object_count + inner.list_count
    image_buffers, list_number = _buffers_at(inner.buffers, index), index - inner.object_count
    put_byte(buffers.valid, column * buffers.width + number, VALUE)
    if byte_at(position) != (OBJECT_BEGIN if list_number < 0 else ARRAY_BEGIN):
        return DECLINED, 0, 0
    if list_number < 0:
        position, unknown, missing, steps = _parse_image(span, image_buffers, mark)
    else:
        before = number_at(inner.list_rows + _WORD * list_number)
        position, rows, unknown, missing, steps = _parse_list(span, image_buffers, before)
        put_number(buffers.numbers, column * buffers.width + number, rows - before)
        put_number(inner.list_rows, inner.list_count + list_number, rows)
    if inner.partial >> index & 1:
        missing = 0
    return position, (2 * index + 1) * (unknown + missing), steps


@compiled
def _parse_list(span: Span, buffers: ImageBuffers, first: int) -> tuple[int, int, int, int, int]:
    """Parse the objects of a list as images.

    Args:
        first: the row of its first image.

    Returns:
        The position after its bracket, or `DECLINED`; the row behind its last image; the sums of
        the marks of unknown and of missing columns; and how many searches are left.
    """
    position, last, steps = span
    number, unknown, missing = first, 0, 0
    position = blank_end(position + 1, last)
    if byte_at(position) == ARRAY_END:
        return position + 1, number, 0, 0, steps
    while number < buffers.width and byte_at(position) == OBJECT_BEGIN:
        position, more, less, steps = _parse_image(
            Span(position, last, steps), buffers, ImageMark(number, position)
        )
        if position < 0 or position >= last:
            return DECLINED, first, 0, 0, 0
        number, unknown, missing = number + 1, unknown + more, missing + less
        position = blank_end(position, last)
        if byte_at(position) == ARRAY_END:
            return position + 1, number, unknown, missing, steps
        if byte_at(position) != COMMA:
            return DECLINED, first, 0, 0, 0
        position = blank_end(position + 1, last)
    return DECLINED, first, 0, 0, 0


@compiled
def _buffers_at(address: int, index: int) -> ImageBuffers:
    """Read the image buffers of one object or list from memory."""
    address += _BUFFERS_SIZE * index
    return ImageBuffers(
        number_at(address),
        number_at(address + 8),
        number_at(address + 16),
        number_at(address + 24),
        number_at(address + 32),
        number_at(address + 40),
        number_at(address + 48),
        number_at(address + 56),
        number_at(address + 64),
        number_at(address + 72),
        number_at(address + 80),
        number_at(address + 88),
        number_at(address + 96),
        number_at(address + 104),
        number_at(address + 112),
    )


@compiled
def _parse_image(
    span: Span,
    buffers: ImageBuffers,
    mark: ImageMark,
) -> tuple[int, int, int, int]:
    """Parse one image into the cells of its row.

    Returns:
        The position after its brace, or `DECLINED`; the sums of the marks of its unknown and of its
        missing columns; and how many searches are left.
    """
    position, last, steps = span
    number, stamp = mark
    expected, marks, columns = 0, 0, 0
    position = blank_end(position + 1, last)
    if byte_at(position) == OBJECT_END:
        return position + 1, 0, _put_missing(buffers, number, stamp), steps
    while True:
        search = last, steps, expected
        behind, column, expected, steps = parse_name(position, search, buffers, stamp)
        if behind < 0:
            return DECLINED, 0, 0, 0
        if column < 0:
            marks += mark_of_unknown(position, behind, column)
            position = value_end(behind, last)
        else:
            columns += 1
            position = parse_cell(behind, buffers, (column, number))
        if position < 0 or position >= last:
            return DECLINED, 0, 0, 0
        if byte_at(position) != COMMA:
            position = blank_end(position, last)
            if byte_at(position) != COMMA:
                break
        position += 1
    if byte_at(position) != OBJECT_END:
        return DECLINED, 0, 0, 0
    missing = _put_missing(buffers, number, stamp) if columns < buffers.column_count else 0
    return position + 1, marks, missing, steps


@compiled
def _put_missing(buffers: ImageBuffers, number: int, stamp: int) -> int:
    """Set the columns that the image lacks to null; return the sum of their marks."""
    marks = 0
    for column in range(buffers.column_count):
        if number_at(buffers.seen + _WORD * column) != stamp:
            put_null(buffers, column * buffers.width + number, MISSING)
            marks += mark_of(column)
    return marks


@compiled
def count_byte(data: Bytes, byte: int) -> int:
    """Count the bytes that equal this one. There are at least as many braces as objects."""
    count = 0
    for value in data:
        count += value == byte
    return count
