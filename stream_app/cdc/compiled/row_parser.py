"""Parses messages that are images themselves, or have objects and lists of objects as images.

`image_columns` lays out the names and the cells of a table's columns, and calls it. `image_parser`
parses each image that a message contains.
"""

from __future__ import annotations

from typing import NamedTuple

from stream_app.arrow_buffers import Bools, Bytes, Int64s
from stream_app.cdc.compiled.cell_values import VALUE, ImageBuffers, ImageRow, Span, parse_cell
from stream_app.cdc.compiled.column_names import drift_hash_of_unknown, parse_name
from stream_app.cdc.compiled.image_parser import WORD, parse_image, put_missing
from stream_app.machine_code.compiler import byte_at, compiled, number_at, put_byte, put_number
from stream_app.machine_code.json_bytes import (
    ARRAY_END,
    ARRAY_START,
    COMMA,
    NULL_START,
    OBJECT_END,
    OBJECT_START,
)
from stream_app.machine_code.json_tokens import DECLINED, blank_end, value_end

_BUFFERS_SIZE = WORD * len(ImageBuffers._fields)


class RowPositions(NamedTuple):
    """The positions of n messages that are images, or have images as members.

    Attributes:
        starts, ends: int64 [n]; the addresses of their first bytes and of their ends.
        drift_hashes, is_parsed: int64 [n] and bool [n], with the values of `HeadPositions`.
    """

    starts: Int64s
    ends: Int64s
    drift_hashes: Int64s
    is_parsed: Bools


class InnerBuffers(NamedTuple):
    """The addresses of the buffers for objects in messages, and for lists of objects.

    Attributes:
        buffers: int64 [k + m, 15]; the `ImageBuffers` of each object, then of each list.
        object_count, list_count: k and m; the message's last columns are the objects, then the
            lists.
        list_rows: int64 [2, m]; the number of rows in each list's buffers. The first row excludes
            the message that the parser is reading, and the second row includes it.
        partial: a bit for each object and list. If it is 1, columns that its images lack are not
            drift.
        search_count: the searches for names that a message may cause, besides one for each
            byte.
    """

    buffers: int
    object_count: int
    list_count: int
    list_rows: int
    partial: int
    search_count: int


class _InnerImages(NamedTuple):
    """The result of the parse of a column whose value is an object or a list of objects.

    Attributes:
        position: the position after its bracket, or `DECLINED`.
        hash_sum: the sum of its images' drift hashes, which differs from the sum of every other
            column.
        search_count: the remaining number of searches for names.
    """

    position: int
    hash_sum: int
    search_count: int


class _ParsedList(NamedTuple):
    """The result of the parse of a list of objects; other attributes as in `ParsedImage`.

    Attributes:
        position: the position after its bracket, or `DECLINED`.
        next_row: the row after its last image.
    """

    position: int
    next_row: int
    unknown_sum: int
    missing_sum: int
    search_count: int


@compiled
def parse_rows(rows: RowPositions, buffers: ImageBuffers, inner: InnerBuffers) -> int:
    """Parse whole messages, and fill a row of the buffers for each parsed message.

    A quote without a backslash must follow the last message, so that every text has an end. The
    parser reads a text without a closing quote up to the first quote of a later message. So it
    reads each byte at most twice.

    Returns:
        The number of parsed messages. Each is also a row of each object's buffers. The objects in
        lists are rows of the lists' buffers.
    """
    image_index, list_count, list_rows = 0, inner.list_count, inner.list_rows
    for row_index in range(len(rows.starts)):
        start, end = rows.starts[row_index], rows.ends[row_index]
        rows.is_parsed[row_index] = False
        if end - start < 2 or byte_at(start) != OBJECT_START:
            continue
        search_count = end - start + inner.search_count
        for index in range(list_count):
            put_number(list_rows, list_count + index, number_at(list_rows + WORD * index))
        image_row = ImageRow(image_index, row_index + 1)
        position, hash_sum = _parse_message(
            Span(start, end, search_count), buffers, inner, image_row
        )
        if 0 < position < end:
            position = blank_end(position, end)
        if position == end:
            rows.drift_hashes[row_index] = hash_sum
            rows.is_parsed[row_index] = True
            image_index += 1
            for index in range(list_count):
                put_number(list_rows, index, number_at(list_rows + WORD * (list_count + index)))
    return image_index


@compiled
def _parse_message(  # noqa: C901, PLR0912 - each branch is a way to decline
    span: Span,
    buffers: ImageBuffers,
    inner: InnerBuffers,
    image_row: ImageRow,
) -> tuple[int, int]:
    """Parse one message that is an image, and the objects in it as images of their own.

    Returns:
        The position after its brace, or `DECLINED`; and the sum of the drift hashes of its own
        fields, or of the images in it if it has some.
    """
    position, end, search_count = span
    row_index, stamp = image_row
    first_inner = buffers.column_count - inner.object_count - inner.list_count
    next_entry, hash_sum, parsed_column_count, image_hash_sum = 0, 0, 0, 0
    position = blank_end(position + 1, end)
    is_empty = byte_at(position) == OBJECT_END
    while not is_empty:
        search = end, search_count, next_entry
        value_position, column, next_entry, search_count = parse_name(
            position, search, buffers, stamp
        )
        if value_position < 0:
            return DECLINED, 0
        parsed_column_count += column >= 0
        if column < 0:
            hash_sum += drift_hash_of_unknown(position, value_position, column)
            position = value_end(value_position, end)
        elif column >= first_inner and byte_at(value_position) != NULL_START:
            inner_images = _parse_inner_images(
                Span(value_position, end, search_count), buffers, inner, column, image_row
            )
            position, search_count = inner_images.position, inner_images.search_count
            image_hash_sum += inner_images.hash_sum
        else:
            position = parse_cell(value_position, buffers, (column, row_index))
        if position < 0 or position >= end:
            return DECLINED, 0
        if byte_at(position) != COMMA:
            position = blank_end(position, end)
            if byte_at(position) != COMMA:
                break
        position += 1
    if byte_at(position) != OBJECT_END:
        return DECLINED, 0
    if parsed_column_count < buffers.column_count:
        hash_sum += put_missing(buffers, row_index, stamp)
    for index in range(inner.object_count):
        if byte_at(buffers.states + (first_inner + index) * buffers.width + row_index) != VALUE:
            put_missing(_buffers_at(inner.buffers, index), row_index, stamp)
    return position + 1, image_hash_sum if first_inner < buffers.column_count else hash_sum


@compiled
def _parse_inner_images(
    span: Span,
    buffers: ImageBuffers,
    inner: InnerBuffers,
    column: int,
    image_row: ImageRow,
) -> _InnerImages:
    """Parse a column whose value is an object or a list of objects."""
    row_index = image_row.row_index
    index = column - buffers.column_count + inner.object_count + inner.list_count
    image_buffers, list_index = _buffers_at(inner.buffers, index), index - inner.object_count
    put_byte(buffers.states, column * buffers.width + row_index, VALUE)
    if byte_at(span.position) != (OBJECT_START if list_index < 0 else ARRAY_START):
        return _InnerImages(DECLINED, 0, 0)
    if list_index < 0:
        position, unknown_sum, missing_sum, search_count = parse_image(
            span, image_buffers, image_row
        )
    else:
        start = number_at(inner.list_rows + WORD * list_index)
        position, next_row, unknown_sum, missing_sum, search_count = _parse_list(
            span, image_buffers, start
        )
        put_number(buffers.values, column * buffers.width + row_index, next_row - start)
        put_number(inner.list_rows, inner.list_count + list_index, next_row)
    if inner.partial >> index & 1:
        missing_sum = 0
    return _InnerImages(position, (2 * index + 1) * (unknown_sum + missing_sum), search_count)


@compiled
def _parse_list(span: Span, buffers: ImageBuffers, start: int) -> _ParsedList:
    """Parse the objects of a list as images, of which the first gets the row `start`."""
    position, end, search_count = span
    row_index, unknown_sum, missing_sum = start, 0, 0
    position = blank_end(position + 1, end)
    if byte_at(position) == ARRAY_END:
        return _ParsedList(position + 1, row_index, 0, 0, search_count)
    while row_index < buffers.width and byte_at(position) == OBJECT_START:
        image = parse_image(
            Span(position, end, search_count), buffers, ImageRow(row_index, position)
        )
        position, search_count = image.position, image.search_count
        if position < 0 or position >= end:
            return _ParsedList(DECLINED, start, 0, 0, 0)
        row_index = row_index + 1
        unknown_sum = unknown_sum + image.unknown_sum
        missing_sum = missing_sum + image.missing_sum
        position = blank_end(position, end)
        if byte_at(position) == ARRAY_END:
            return _ParsedList(position + 1, row_index, unknown_sum, missing_sum, search_count)
        if byte_at(position) != COMMA:
            return _ParsedList(DECLINED, start, 0, 0, 0)
        position = blank_end(position + 1, end)
    return _ParsedList(DECLINED, start, 0, 0, 0)


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
def count_byte(data: Bytes, byte: int) -> int:
    """Count the bytes that equal `byte`."""
    count = 0
    for value in data:
        count += value == byte
    return count
