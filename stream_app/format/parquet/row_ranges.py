"""Computes which rows of a row group are read, and which pages have them, in whole arrays.

A row group is cut into parts, at each place at which a column begins a page. A part lies in one
page of each column, so the statistics of these pages are the part's.

Called by `parquet_pages`, `page_index` and `page_file`. Sees numbers only: no bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

RowPlaces: TypeAlias = npt.NDArray[np.int64]


class RowRange(NamedTuple):
    """Rows of a row group, from `begin` to before `end`."""

    begin: int
    end: int


def part_begins(page_begins: Sequence[RowPlaces]) -> RowPlaces:
    """The first row of each part, ascending, int64 [m]; without columns there is one part.

    Args:
        page_begins: for each column the first row of each page, ascending from 0, int64 [n].
    """
    return np.unique(np.concatenate([np.zeros(1, np.int64), *page_begins]))


def pages_of_parts(page_begins: RowPlaces, parts: RowPlaces) -> RowPlaces:
    """The number of the page in which each part lies, int64 [m]."""
    return np.searchsorted(page_begins, parts, side="right") - 1


def ranges_of(begins: RowPlaces, row_count: int, wanted: Sequence[bool]) -> list[RowRange]:
    """The rows of the wanted parts; neighbours are one range.

    Args:
        begins: the first row of each part, int64 [m].
        row_count: rows of the row group, in which the last part ends.
    """
    padded = np.concatenate([[False], np.asarray(wanted, np.bool_), [False]])
    turns = np.flatnonzero(padded[1:] != padded[:-1])
    rows = np.append(begins, row_count)[turns].tolist()
    return [RowRange(*pair) for pair in zip(rows[::2], rows[1::2], strict=True)]


def ranges_of_rows(rows: RowPlaces, gap: int) -> list[RowRange]:
    """The ranges of some rows; rows between which at most `gap` others lie are in one.

    Args:
        rows: ascending, int64 [k].
    """
    if not len(rows):
        return []
    ends = np.flatnonzero(np.diff(rows) > gap + 1)
    begins = rows[np.append(0, ends + 1)].tolist()
    lasts = rows[np.append(ends, len(rows) - 1)].tolist()
    return [RowRange(begin, last + 1) for begin, last in zip(begins, lasts, strict=True)]


def count_of(ranges: Iterable[RowRange]) -> int:
    """The number of rows in some ranges."""
    return sum(end - begin for begin, end in ranges)


def pages_with(page_begins: RowPlaces, row_count: int, ranges: Sequence[RowRange]) -> RowPlaces:
    """The numbers of the pages that have rows of some ranges, ascending, int64 [k].

    Args:
        ranges: ascending, and apart from each other.
    """
    bounds = np.array(ranges, np.int64).reshape(-1, 2)
    page_ends = np.append(page_begins[1:], row_count)
    # The first range that ends behind a page's begin has rows of the page unless it begins later.
    following = np.searchsorted(bounds[:, 1], page_begins, side="right")
    begins = np.append(bounds[:, 0], row_count)
    return np.flatnonzero(begins[following] < page_ends)


def places_among(
    page_begins: RowPlaces, row_count: int, pages: RowPlaces, rows: Sequence[int]
) -> RowPlaces:
    """The places of rows among the rows of some pages alone, int64 [k].

    Args:
        pages: numbers of pages, ascending; they have the rows.
        rows: places in the row group.
    """
    begins = page_begins[pages]
    sizes = np.append(page_begins[1:], row_count)[pages] - begins
    before = np.cumsum(sizes) - sizes
    at = np.searchsorted(begins, np.asarray(rows, np.int64), side="right") - 1
    return before[at] + rows - begins[at]


def windows(ranges: Sequence[RowRange], rows_max: int) -> Iterator[list[RowRange]]:
    """Cut ranges into portions of at most `rows_max` rows, which are decoded together."""
    portion: list[RowRange] = []
    room = rows_max
    for begin, end in ranges:
        at = begin
        while at < end:
            if room == 0:
                yield portion
                portion, room = [], rows_max
            stop = min(end, at + room)
            portion.append(RowRange(at, stop))
            room -= stop - at
            at = stop
    if portion:
        yield portion
