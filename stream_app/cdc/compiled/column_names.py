"""Finds the columns that the names in an image mean, and hashes names and columns of drift.

`image_parser`, `row_parser` and `document_rewriter` call it. It expects names in the order of the
image from which the shape was learnt, and searches for names that come in another order. A
message's bytes limit the number of searches, so hostile messages take linear time. It declines an
image that has a column twice.
"""

from __future__ import annotations

from stream_app.cdc.compiled.cell_values import ImageBuffers
from stream_app.machine_code.compiler import byte_at, compiled, number_at, put_number, word_at
from stream_app.machine_code.json_bytes import QUOTE, SPACE
from stream_app.machine_code.json_tokens import DECLINED, blank_end, name_end

NO_COLUMN = -1
"""The column of a name that the table does not have."""


@compiled
def drift_hash_of(column: int) -> int:
    """Return a hash of a column's index.

    Different sets of columns almost never have equal sums of hashes.
    """
    drift_hash = (column + 1) * 0x1E3779B97F4A7C15
    drift_hash = (drift_hash ^ (drift_hash >> 29)) * 0x3F58476D1CE4E5B9
    return drift_hash ^ (drift_hash >> 32)


@compiled
def drift_hash_of_unknown(position: int, end: int, column: int) -> int:
    """Return the drift hash of a name that is not a column of the table.

    It hashes the index of the name's entry, or the bytes of a name without an entry.
    """
    if column != NO_COLUMN:
        return drift_hash_of(column)
    position = blank_end(position, end)
    end = name_end(position)
    name_hash = end - position
    for byte_position in range(position, end):
        name_hash = (name_hash ^ byte_at(byte_position)) * 0x100000001B3
    return drift_hash_of(name_hash)


@compiled
def parse_name(
    position: int, span: tuple[int, int, int], buffers: ImageBuffers, stamp: int
) -> tuple[int, int, int, int]:
    """Parse a name, and note that the image has its column.

    Args:
        span: the position of the tail, the remaining searches, and the entry to expect.

    Returns:
        The position of the value, or `DECLINED`; the column, or a negative number; the entry to
        expect next; and the remaining searches. The number of an unknown name is
        `NO_COLUMN - 1 - entry`, or `NO_COLUMN` if it has no entry.
    """
    end, search_count, next_entry = span
    if byte_at(position) != QUOTE:
        position = blank_end(position, end)
    value_position, entry, search_count = _find_name(
        position, (end, search_count), buffers, next_entry
    )
    if value_position < 0 or value_position >= end:
        return DECLINED, NO_COLUMN, 0, 0
    if byte_at(value_position) <= SPACE:
        value_position = blank_end(value_position, end)
    column = NO_COLUMN
    if entry >= 0:
        column = number_at(buffers.column_indices + 8 * entry)
        next_entry = entry + 1 if entry + 1 < buffers.name_count else 0
        if column == NO_COLUMN:
            column = NO_COLUMN - 1 - entry
    if column >= 0:
        if number_at(buffers.stamps + 8 * column) == stamp:
            return DECLINED, NO_COLUMN, 0, 0
        put_number(buffers.stamps, column, stamp)
    return value_position, column, next_entry, search_count


@compiled
def _find_name(
    position: int, span: tuple[int, int], buffers: ImageBuffers, first_entry: int
) -> tuple[int, int, int]:
    """Find a name among the expected ones, beginning with the most likely.

    Returns:
        The position after the colon, or `DECLINED`; the name's entry, or -1 if it has none; and the
        remaining searches.
    """
    end, search_count = span
    entry, tried_count = first_entry, 1
    colon_end = _expected_name_end(position, end, buffers, entry)
    while colon_end < 0 and tried_count < buffers.name_count:
        if search_count == 0:
            return DECLINED, 0, 0
        search_count, tried_count = search_count - 1, tried_count + 1
        entry = entry + 1 if entry + 1 < buffers.name_count else 0
        colon_end = _expected_name_end(position, end, buffers, entry)
    if colon_end < 0:
        return name_end(position), -1, search_count
    return colon_end, entry, search_count


@compiled
def _expected_name_end(position: int, end: int, buffers: ImageBuffers, entry: int) -> int:
    """Return the position after the expected name and its colon, or `DECLINED` for another name."""
    words_start = number_at(buffers.starts + 8 * entry)
    words_end = number_at(buffers.starts + 8 * (entry + 1))
    length = number_at(buffers.lengths + 8 * entry)
    if words_end == words_start or position + length > end:
        return DECLINED
    word_position = position
    for word in range(words_start, words_end - 1):
        if word_at(word_position) != word_at(buffers.words + 8 * word):
            return DECLINED
        word_position += 8
    if word_at(word_position) & word_at(buffers.masks + 8 * entry) != word_at(
        buffers.words + 8 * (words_end - 1)
    ):
        return DECLINED
    return position + length
