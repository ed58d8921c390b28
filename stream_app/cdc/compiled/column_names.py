"""Finds the columns that the names in an image mean, and marks names and columns of drift.

Called by `image_parser`. Names are expected in the order of the image that was looked at when the
shape was learnt. Another order is searched for, which a message may ask for as often as it has
bytes; so hostile ones take linear time. An image that has a column twice is declined.
"""

from __future__ import annotations

from stream_app.cdc.compiled.cell_values import ImageBuffers
from stream_app.machine_code.compiler import byte_at, compiled, number_at, put_number, word_at
from stream_app.machine_code.json_bytes import QUOTE, SPACE
from stream_app.machine_code.json_tokens import DECLINED, blank_end, name_end

UNKNOWN = -1
"""The column of a name that the table does not have."""


@compiled
def mark_of(number: int) -> int:
    """Return a large number, such that different sets of columns almost never have equal sums."""
    number = (number + 1) * 0x1E3779B97F4A7C15
    number = (number ^ (number >> 29)) * 0x3F58476D1CE4E5B9
    return number ^ (number >> 32)


@compiled
def mark_of_unknown(position: int, end: int, column: int) -> int:
    """Return the mark of a name that the table does not have: by its entry if it has one."""
    if column != UNKNOWN:
        return mark_of(column)
    position = blank_end(position, end)
    end = name_end(position)
    number = end - position
    for byte_position in range(position, end):
        number = (number ^ byte_at(byte_position)) * 0x100000001B3
    return mark_of(number)


@compiled
def parse_name(
    position: int, span: tuple[int, int, int], buffers: ImageBuffers, stamp: int
) -> tuple[int, int, int, int]:
    """Parse a name, and note that the image has its column.

    Args:
        span: where the tail begins, how many searches are left, and the entry to expect.

    Returns:
        The position of the value, or `DECLINED`; the column, or a negative number; the entry to
        expect next; and how many searches are left. Of an unknown name the number is `UNKNOWN`
        less than that of its entry, or `UNKNOWN` without one.
    """
    last, steps, expected = span
    if byte_at(position) != QUOTE:
        position = blank_end(position, last)
    behind, entry, steps = _find_name(position, (last, steps), buffers, expected)
    if behind < 0 or behind >= last:
        return DECLINED, UNKNOWN, 0, 0
    if byte_at(behind) <= SPACE:
        behind = blank_end(behind, last)
    column = UNKNOWN
    if entry >= 0:
        column = number_at(buffers.columns + 8 * entry)
        expected = entry + 1 if entry + 1 < buffers.name_count else 0
        if column == UNKNOWN:
            column = UNKNOWN - 1 - entry
    if column >= 0:
        if number_at(buffers.seen + 8 * column) == stamp:
            return DECLINED, UNKNOWN, 0, 0
        put_number(buffers.seen, column, stamp)
    return behind, column, expected, steps


@compiled
def _find_name(
    position: int, span: tuple[int, int], buffers: ImageBuffers, expected: int
) -> tuple[int, int, int]:
    """Find a name among the expected ones, beginning with the most likely.

    Returns:
        The position after the colon, or `DECLINED`; the name's entry, or -1 if it has none; and how
        many searches are left.
    """
    last, steps = span
    entry, searched = expected, 1
    behind = _expected_name_end(position, last, buffers, entry)
    while behind < 0 and searched < buffers.name_count:
        if steps == 0:
            return DECLINED, 0, 0
        steps, searched = steps - 1, searched + 1
        entry = entry + 1 if entry + 1 < buffers.name_count else 0
        behind = _expected_name_end(position, last, buffers, entry)
    if behind < 0:
        return name_end(position), -1, steps
    return behind, entry, steps


@compiled
def _expected_name_end(position: int, last: int, buffers: ImageBuffers, entry: int) -> int:
    """Return the position after the expected name and its colon, or `DECLINED` for another name."""
    start, end = number_at(buffers.starts + 8 * entry), number_at(buffers.starts + 8 * (entry + 1))
    length = number_at(buffers.lengths + 8 * entry)
    if end == start or position + length > last:
        return DECLINED
    word_position = position
    for word in range(start, end - 1):
        if word_at(word_position) != word_at(buffers.words + 8 * word):
            return DECLINED
        word_position += 8
    if word_at(word_position) & word_at(buffers.masks + 8 * entry) != word_at(
        buffers.words + 8 * (end - 1)
    ):
        return DECLINED
    return position + length
