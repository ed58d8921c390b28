"""Parses one image of a row into cells of typed columns: the loop over its members.

`head_parser` and `row_parser` call it for each image. One compilation serves every table,
because the names and kinds of columns are data. `column_names` finds the column that each name
means, and `cell_values` parses its value.
"""

from __future__ import annotations

from typing import NamedTuple

from stream_app.cdc.compiled.cell_values import (
    MISSING,
    ImageBuffers,
    ImageRow,
    Span,
    parse_cell,
    put_null,
)
from stream_app.cdc.compiled.column_names import drift_hash_of, drift_hash_of_unknown, parse_name
from stream_app.machine_code.compiler import byte_at, compiled, number_at
from stream_app.machine_code.json_bytes import COMMA, OBJECT_END
from stream_app.machine_code.json_tokens import DECLINED, blank_end, value_end

WORD = 8
"""The bytes of a number in the buffers."""
SEARCHES_PER_COLUMN = 8
"""A message may need this number of searches for names per column, and one more per byte."""


class ParsedImage(NamedTuple):
    """The result of the parse of one image.

    Attributes:
        position: the position after its brace, or `DECLINED`.
        unknown_sum, missing_sum: the sums of the drift hashes of its unknown and of its missing
            columns.
        search_count: the remaining number of searches for names.
    """

    position: int
    unknown_sum: int
    missing_sum: int
    search_count: int


@compiled
def parse_image(
    span: Span,
    buffers: ImageBuffers,
    image_row: ImageRow,
) -> ParsedImage:
    """Parse one image into the cells of its row."""
    position, end, search_count = span
    row_index, stamp = image_row
    next_entry, hash_sum, parsed_column_count = 0, 0, 0
    position = blank_end(position + 1, end)
    if byte_at(position) == OBJECT_END:
        return ParsedImage(position + 1, 0, put_missing(buffers, row_index, stamp), search_count)
    while True:
        search = end, search_count, next_entry
        value_position, column, next_entry, search_count = parse_name(
            position, search, buffers, stamp
        )
        if value_position < 0:
            return ParsedImage(DECLINED, 0, 0, 0)
        if column < 0:
            hash_sum += drift_hash_of_unknown(position, value_position, column)
            position = value_end(value_position, end)
        else:
            parsed_column_count += 1
            position = parse_cell(value_position, buffers, (column, row_index))
        if position < 0 or position >= end:
            return ParsedImage(DECLINED, 0, 0, 0)
        if byte_at(position) != COMMA:
            position = blank_end(position, end)
            if byte_at(position) != COMMA:
                break
        position += 1
    if byte_at(position) != OBJECT_END:
        return ParsedImage(DECLINED, 0, 0, 0)
    missing_sum = (
        put_missing(buffers, row_index, stamp) if parsed_column_count < buffers.column_count else 0
    )
    return ParsedImage(position + 1, hash_sum, missing_sum, search_count)


@compiled
def put_missing(buffers: ImageBuffers, row_index: int, stamp: int) -> int:
    """Set the columns that the image lacks to null; return the sum of their drift hashes."""
    hash_sum = 0
    for column in range(buffers.column_count):
        if number_at(buffers.stamps + WORD * column) != stamp:
            put_null(buffers, column * buffers.width + row_index, MISSING)
            hash_sum += drift_hash_of(column)
    return hash_sum
