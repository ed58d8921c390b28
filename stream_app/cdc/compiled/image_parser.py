"""Parses images of rows into the cells of typed columns: the loop over messages and tables.

Called by `image_columns`, which lays out the tables of names and the tables. One compilation serves
every table, as the names and kinds of columns are data.

Names are expected in the order of the image that was looked at when the shape was learnt. Another
order is searched for, which a message may ask for as often as it has bytes; so hostile ones take
linear time. An image that has a column twice is declined.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stream_app.cdc.columns.arrow_buffers import Bools, Int64s
from stream_app.cdc.compiled.cell_values import ImageTables, cell_end, put_null
from stream_app.cdc.compiled.json_tokens import DECLINED, name_end, value_end
from stream_app.cdc.compiled.machine_code import (
    byte_at,
    compiled,
    number_at,
    put_number,
    word_at,
    word_of,
)

UNKNOWN = -1
"""The column of a name that the table does not have."""

_BEFORE, _BEFORE_END = word_of(b'{"before'), word_of(b'":\0\0\0\0\0\0')
_AFTER, _NULL = word_of(b',"after"'), word_of(b"null\0\0\0\0")
_TWO_BYTES, _FOUR_BYTES = np.uint64(0xFFFF), np.uint64(0xFFFFFFFF)
_HEAD_MIN = len('{"before":{},"after":{}')


class HeadPlaces(NamedTuple):
    """What n messages have before their tails.

    Attributes:
        starts, lasts: int64 [n]; where each message begins in the data, and where its tail does.
        before_at, after_at: int64 [n]; the place of each image, or -1.
        drift: int64 [n]; 0 where the images have the table's columns and no other; messages with
            the same unknown and missing columns have the same number.
        parsed: bool [n]; else the message is declined.
    """

    starts: Int64s
    lasts: Int64s
    before_at: Int64s
    after_at: Int64s
    drift: Int64s
    parsed: Bools


@compiled
def parse_heads(  # noqa: C901, PLR0912 - each branch is a way to decline
    heads: HeadPlaces, tables: ImageTables
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
        if word_at(start + 8) & _TWO_BYTES != _BEFORE_END:
            continue
        steps = last - start + 8 * tables.column_count
        place, first, drift = start + 10, image, 0
        if byte_at(place) == 123:
            place, marks, steps = _image((place, last, steps), tables, (first, stamp))
            if place < 0:
                continue
            heads.before_at[row] = first
            first, drift = first + 1, _mark(marks) if marks else 0
        elif word_at(place) & _FOUR_BYTES == _NULL:
            place += 4
        else:
            continue
        if place + 11 > last or word_at(place) != _AFTER or byte_at(place + 8) != 58:
            continue
        place += 9
        if byte_at(place) == 123:
            place, marks, steps = _image((place, last, steps), tables, (first, stamp + 1))
            if place != last:
                continue
            heads.after_at[row] = first
            first, drift = first + 1, drift + marks
        elif place + 4 != last or word_at(place) & _FOUR_BYTES != _NULL:
            continue
        image = first
        heads.drift[row] = drift
        heads.parsed[row] = True
    return image


class RowPlaces(NamedTuple):
    """What n messages are that are images themselves.

    Attributes:
        starts, ends: int64 [n]; the addresses of their first byte, and behind their last.
        drift, parsed: those of `HeadPlaces`.
    """

    starts: Int64s
    ends: Int64s
    drift: Int64s
    parsed: Bools


@compiled
def parse_rows(rows: RowPlaces, tables: ImageTables) -> int:
    """Parse messages that are images themselves. A quote and a comma end the data behind them.

    A text without its end is read up to a quote of a later message. That one is read from there
    on, so bytes are read twice at most.

    Returns:
        How many images there are.
    """
    image = 0
    for row in range(len(rows.starts)):
        start, end = rows.starts[row], rows.ends[row]
        rows.parsed[row] = False
        if end - start < 2 or byte_at(start) != 123:
            continue
        steps = end - start + 8 * tables.column_count
        place, marks, _ = _image((start, end, steps), tables, (image, row + 1))
        if place == end:
            rows.drift[row] = marks
            rows.parsed[row] = True
            image += 1
    return image


@compiled
def _mark(number: int) -> int:
    """A large number that hardly any other sum of such numbers equals."""
    number = (number + 1) * 0x1E3779B97F4A7C15
    number = (number ^ (number >> 29)) * 0x3F58476D1CE4E5B9
    return number ^ (number >> 32)


@compiled
def _mark_of_text(place: int, end: int) -> int:
    number = end - place
    for at in range(place, end):
        number = (number ^ byte_at(at)) * 0x100000001B3
    return _mark(number)


@compiled
def _image(  # noqa: C901, PLR0912 - each branch is a way to decline
    span: tuple[int, int, int],
    tables: ImageTables,
    image: tuple[int, int],
) -> tuple[int, int, int]:
    """Parse one image.

    Args:
        span: where its brace is, where the tail begins, and how many searches are left.
        image: its number, and a number that no other image has.

    Returns:
        The place behind its brace, or `DECLINED`; the sum of the marks of its unknown and missing
        columns; and how many searches are left.
    """
    place, last, steps = span
    number, stamp = image
    expected, marks, columns = 0, 0, 0
    place += 1
    if byte_at(place) == 125:
        return place + 1, _miss(tables, number, stamp), steps
    while True:
        behind, entry, steps = _column_end(place, (last, steps), tables, expected)
        if behind < 0 or behind >= last:
            return DECLINED, 0, 0
        column = UNKNOWN
        if entry >= 0:
            column = number_at(tables.columns + 8 * entry)
            expected = entry + 1 if entry + 1 < tables.name_count else 0
        if column == UNKNOWN:
            marks += _mark_of_text(place, behind)
            place = value_end(behind, last)
        else:
            if number_at(tables.seen + 8 * column) == stamp:
                return DECLINED, 0, 0
            put_number(tables.seen, column, stamp)
            columns += 1
            place = cell_end(behind, tables, (column, number))
        if place < 0 or place >= last:
            return DECLINED, 0, 0
        if byte_at(place) != 44:
            break
        place += 1
    if byte_at(place) != 125:
        return DECLINED, 0, 0
    if columns < tables.column_count:
        marks += _miss(tables, number, stamp)
    return place + 1, marks, steps


@compiled
def _miss(tables: ImageTables, number: int, stamp: int) -> int:
    """Note null in each column that the image does not have; the sum of their marks."""
    marks = 0
    for column in range(tables.column_count):
        if number_at(tables.seen + 8 * column) != stamp:
            put_null(tables, column * tables.width + number)
            marks += _mark(column)
    return marks


@compiled
def _column_end(
    place: int, span: tuple[int, int], tables: ImageTables, expected: int
) -> tuple[int, int, int]:
    """The place behind a name and its colon, or `DECLINED`; its entry, or -1; searches left."""
    last, steps = span
    entry, searched = expected, 1
    behind = _named(place, last, tables, entry)
    while behind < 0 and searched < tables.name_count:
        if steps == 0:
            return DECLINED, 0, 0
        steps, searched = steps - 1, searched + 1
        entry = entry + 1 if entry + 1 < tables.name_count else 0
        behind = _named(place, last, tables, entry)
    if behind < 0:
        return name_end(place), -1, steps
    return behind, entry, steps


@compiled
def _named(place: int, last: int, tables: ImageTables, entry: int) -> int:
    """The place behind an expected name and its colon; `DECLINED`: another name stands there."""
    start, end = number_at(tables.starts + 8 * entry), number_at(tables.starts + 8 * (entry + 1))
    length = number_at(tables.lengths + 8 * entry)
    if end == start or place + length > last:
        return DECLINED
    at = place
    for word in range(start, end - 1):
        if word_at(at) != word_at(tables.words + 8 * word):
            return DECLINED
        at += 8
    if word_at(at) & word_at(tables.masks + 8 * entry) != word_at(tables.words + 8 * (end - 1)):
        return DECLINED
    return place + length
