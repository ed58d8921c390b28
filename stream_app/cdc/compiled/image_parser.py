"""Parses images of rows into cells of typed columns: the loops over messages and columns.

`image_columns` lays out the names and the cells of a table's columns, and calls it. One
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
    ImageRow,
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
    ARRAY_END,
    ARRAY_START,
    COLON,
    COMMA,
    NULL_START,
    OBJECT_END,
    OBJECT_START,
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
"""A message may need this number of searches for names per column, and one more per byte."""


class HeadPositions(NamedTuple):
    """The positions of the images in n messages, whose tails the caller has found.

    Attributes:
        starts, limits: int64 [n]; where each message begins in the data, and where its tail does.
        before_at, after_at: int64 [n]; the position of each image, or -1.
        marks: int64 [n]; 0 where the images have the table's columns and no other. Messages with
            the same unknown and missing columns have the same number.
        is_parsed: bool [n]; false for a declined message.
    """

    starts: Int64s
    limits: Int64s
    before_at: Int64s
    after_at: Int64s
    marks: Int64s
    is_parsed: Bools


@compiled
def parse_heads(  # noqa: C901, PLR0912 - each branch is a way to decline
    heads: HeadPositions, buffers: ImageBuffers
) -> int:
    """Parse ``{"before":…,"after":…`` of each message up to its tail, and fill the heads.

    Each tail begins with a comma and a quote, and has 16 bytes at least.

    Returns:
        The number of images.
    """
    image, stamp = 0, 0
    for row in range(len(heads.starts)):
        start, limit = heads.starts[row], heads.limits[row]
        heads.before_at[row] = heads.after_at[row] = -1
        heads.is_parsed[row] = False
        stamp += 2
        if limit - start < _HEAD_MIN or word_at(start) != _BEFORE:
            continue
        if word_at(start + _WORD) & _TWO_BYTES != _BEFORE_END:
            continue
        searches = limit - start + _SEARCHES_PER_COLUMN * buffers.column_count
        position, next_image, mark_sum = start + _BEFORE_SIZE, image, 0
        if byte_at(position) == OBJECT_START:
            position, unknown, missing, searches = _parse_image(
                Span(position, limit, searches), buffers, ImageRow(next_image, stamp)
            )
            if position < 0:
                continue
            heads.before_at[row] = next_image
            next_image, marks = next_image + 1, unknown + missing
            mark_sum = mark_of(marks) if marks else 0
        elif word_at(position) & _FOUR_BYTES == _NULL:
            position += _NULL_SIZE
        else:
            continue
        if position + _AFTER_SIZE + _BRACES > limit or word_at(position) != _AFTER:
            continue
        if byte_at(position + _WORD) != COLON:
            continue
        position += _AFTER_SIZE
        if byte_at(position) == OBJECT_START:
            position, unknown, missing, searches = _parse_image(
                Span(position, limit, searches), buffers, ImageRow(next_image, stamp + 1)
            )
            if position != limit:
                continue
            heads.after_at[row] = next_image
            next_image, mark_sum = next_image + 1, mark_sum + unknown + missing
        elif position + _NULL_SIZE != limit or word_at(position) & _FOUR_BYTES != _NULL:
            continue
        image = next_image
        heads.marks[row] = mark_sum
        heads.is_parsed[row] = True
    return image


class RowPositions(NamedTuple):
    """The positions of n messages that are images, or have images as members.

    Attributes:
        starts, ends: int64 [n]; the addresses of their first bytes and of their ends.
        marks, is_parsed: int64 [n] and bool [n], with the values of `HeadPositions`.
    """

    starts: Int64s
    ends: Int64s
    marks: Int64s
    is_parsed: Bools


class InnerBuffers(NamedTuple):
    """The addresses of the buffers for objects in messages, and for lists of objects.

    Attributes:
        buffers: int64 [k + m, 15]; the `ImageBuffers` of each object, then of each list.
        object_count, list_count: k and m; the message's last columns are the objects, then the
            lists.
        list_rows: int64 [2, m]; the number of rows in each list's buffers, without the message
            that is being parsed, and with it.
        partial: a bit for each object and list; 1: columns that its images lack are not drift.
        searches: the searches for names that a message may ask for, beside one for each byte.
    """

    buffers: int
    object_count: int
    list_count: int
    list_rows: int
    partial: int
    searches: int


@compiled
def parse_rows(rows: RowPositions, buffers: ImageBuffers, inner: InnerBuffers) -> int:
    """Parse whole messages; a quote without a backslash must follow the last one, to end any text.

    A text without its end is read up to the first quote of a later message, so each byte is read
    twice at most.

    Returns:
        The number of parsed messages. Each is a row of the buffers, and of each object's buffers;
        the objects in lists are rows of the lists' buffers.
    """
    image, lists, list_rows = 0, inner.list_count, inner.list_rows
    for row in range(len(rows.starts)):
        start, end = rows.starts[row], rows.ends[row]
        rows.is_parsed[row] = False
        if end - start < 2 or byte_at(start) != OBJECT_START:
            continue
        searches = end - start + inner.searches
        for index in range(lists):
            put_number(list_rows, lists + index, number_at(list_rows + _WORD * index))
        image_row = ImageRow(image, row + 1)
        position, mark_sum = _parse_message(Span(start, end, searches), buffers, inner, image_row)
        if 0 < position < end:
            position = blank_end(position, end)
        if position == end:
            rows.marks[row] = mark_sum
            rows.is_parsed[row] = True
            image += 1
            for index in range(lists):
                put_number(list_rows, index, number_at(list_rows + _WORD * (lists + index)))
    return image


@compiled
def _parse_message(  # noqa: C901, PLR0912 - each branch is a way to decline
    span: Span,
    buffers: ImageBuffers,
    inner: InnerBuffers,
    image_row: ImageRow,
) -> tuple[int, int]:
    """Parse one message that is an image, and the objects in it as images of their own.

    Returns:
        The position after its brace, or `DECLINED`; and the sum of the marks of its own fields, or
        of the images in it if it has some.
    """
    position, limit, searches = span
    row, stamp = image_row
    first_inner = buffers.column_count - inner.object_count - inner.list_count
    next_entry, mark_sum, parsed_columns, image_mark_sum = 0, 0, 0, 0
    position = blank_end(position + 1, limit)
    is_empty = byte_at(position) == OBJECT_END
    while not is_empty:
        search = limit, searches, next_entry
        value_position, column, next_entry, searches = parse_name(position, search, buffers, stamp)
        if value_position < 0:
            return DECLINED, 0
        parsed_columns += column >= 0
        if column < 0:
            mark_sum += mark_of_unknown(position, value_position, column)
            position = value_end(value_position, limit)
        elif column >= first_inner and byte_at(value_position) != NULL_START:
            position, inner_marks, searches = _parse_inner_images(
                Span(value_position, limit, searches), buffers, inner, column, image_row
            )
            image_mark_sum += inner_marks
        else:
            position = parse_cell(value_position, buffers, (column, row))
        if position < 0 or position >= limit:
            return DECLINED, 0
        if byte_at(position) != COMMA:
            position = blank_end(position, limit)
            if byte_at(position) != COMMA:
                break
        position += 1
    if byte_at(position) != OBJECT_END:
        return DECLINED, 0
    if parsed_columns < buffers.column_count:
        mark_sum += _put_missing(buffers, row, stamp)
    for index in range(inner.object_count):
        if byte_at(buffers.states + (first_inner + index) * buffers.width + row) != VALUE:
            _put_missing(_buffers_at(inner.buffers, index), row, stamp)
    return position + 1, image_mark_sum if first_inner < buffers.column_count else mark_sum


@compiled
def _parse_inner_images(
    span: Span,
    buffers: ImageBuffers,
    inner: InnerBuffers,
    column: int,
    image_row: ImageRow,
) -> tuple[int, int, int]:
    """Parse a column whose value is an object or a list of objects.

    Returns:
        The position after its bracket, or `DECLINED`; the sum of its images' marks, which differs
        from the sum of every other column; and the remaining searches.
    """
    position, _, searches = span
    row = image_row.row
    index = column - buffers.column_count + inner.object_count + inner.list_count
    image_buffers, list_number = _buffers_at(inner.buffers, index), index - inner.object_count
    put_byte(buffers.states, column * buffers.width + row, VALUE)
    if byte_at(position) != (OBJECT_START if list_number < 0 else ARRAY_START):
        return DECLINED, 0, 0
    if list_number < 0:
        position, unknown, missing, searches = _parse_image(span, image_buffers, image_row)
    else:
        start = number_at(inner.list_rows + _WORD * list_number)
        position, next_row, unknown, missing, searches = _parse_list(span, image_buffers, start)
        put_number(buffers.values, column * buffers.width + row, next_row - start)
        put_number(inner.list_rows, inner.list_count + list_number, next_row)
    if inner.partial >> index & 1:
        missing = 0
    return position, (2 * index + 1) * (unknown + missing), searches


@compiled
def _parse_list(span: Span, buffers: ImageBuffers, start: int) -> tuple[int, int, int, int, int]:
    """Parse the objects of a list as images.

    Args:
        start: the row of its first image.

    Returns:
        The position after its bracket, or `DECLINED`; the row after its last image; the sums of
        the marks of unknown and of missing columns; and the remaining searches.
    """
    position, limit, searches = span
    row, unknown, missing = start, 0, 0
    position = blank_end(position + 1, limit)
    if byte_at(position) == ARRAY_END:
        return position + 1, row, 0, 0, searches
    while row < buffers.width and byte_at(position) == OBJECT_START:
        position, new_unknown, new_missing, searches = _parse_image(
            Span(position, limit, searches), buffers, ImageRow(row, position)
        )
        if position < 0 or position >= limit:
            return DECLINED, start, 0, 0, 0
        row, unknown, missing = row + 1, unknown + new_unknown, missing + new_missing
        position = blank_end(position, limit)
        if byte_at(position) == ARRAY_END:
            return position + 1, row, unknown, missing, searches
        if byte_at(position) != COMMA:
            return DECLINED, start, 0, 0, 0
        position = blank_end(position + 1, limit)
    return DECLINED, start, 0, 0, 0


@compiled
def _buffers_at(address: int, inner_index: int) -> ImageBuffers:
    """Read the image buffers of one object or list from memory."""
    address += _BUFFERS_SIZE * inner_index
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
    image_row: ImageRow,
) -> tuple[int, int, int, int]:
    """Parse one image into the cells of its row.

    Returns:
        The position after its brace, or `DECLINED`; the sums of the marks of its unknown and of its
        missing columns; and the remaining searches.
    """
    position, limit, searches = span
    row, stamp = image_row
    next_entry, mark_sum, parsed_columns = 0, 0, 0
    position = blank_end(position + 1, limit)
    if byte_at(position) == OBJECT_END:
        return position + 1, 0, _put_missing(buffers, row, stamp), searches
    while True:
        search = limit, searches, next_entry
        value_position, column, next_entry, searches = parse_name(position, search, buffers, stamp)
        if value_position < 0:
            return DECLINED, 0, 0, 0
        if column < 0:
            mark_sum += mark_of_unknown(position, value_position, column)
            position = value_end(value_position, limit)
        else:
            parsed_columns += 1
            position = parse_cell(value_position, buffers, (column, row))
        if position < 0 or position >= limit:
            return DECLINED, 0, 0, 0
        if byte_at(position) != COMMA:
            position = blank_end(position, limit)
            if byte_at(position) != COMMA:
                break
        position += 1
    if byte_at(position) != OBJECT_END:
        return DECLINED, 0, 0, 0
    missing = _put_missing(buffers, row, stamp) if parsed_columns < buffers.column_count else 0
    return position + 1, mark_sum, missing, searches


@compiled
def _put_missing(buffers: ImageBuffers, row: int, stamp: int) -> int:
    """Set the columns that the image lacks to null; return the sum of their marks."""
    mark_sum = 0
    for column in range(buffers.column_count):
        if number_at(buffers.stamps + _WORD * column) != stamp:
            put_null(buffers, column * buffers.width + row, MISSING)
            mark_sum += mark_of(column)
    return mark_sum


@compiled
def count_byte(data: Bytes, byte: int) -> int:
    """Count the bytes that equal `byte`."""
    count = 0
    for value in data:
        count += value == byte
    return count
