"""Computes, in whole arrays, which rows of a row group are read and which pages have them.

A row group is divided into parts at each row at which a column begins a page. A part is in one
page of each column, so the statistics of these pages apply to it.

`parquet_pages`, `page_index` and `page_file` use it. It handles only numbers, not bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from stream_app.arrow_buffers import Int64s


class RowRange(NamedTuple):
    """The rows of a row group from `start` to before `end`."""

    start: int
    end: int


def part_starts(page_starts: Sequence[Int64s]) -> Int64s:
    """Return the first row of each part, ascending: int64 [m]. Without columns there is one part.

    Args:
        page_starts: the first row of each page, ascending from 0, for each column: int64 [n].
    """
    return np.unique(np.concatenate([np.zeros(1, np.int64), *page_starts]))


def pages_of_parts(page_starts: Int64s, parts: Int64s) -> Int64s:
    """Return the number of the page in which each part is: int64 [m]."""
    return np.searchsorted(page_starts, parts, side="right") - 1


def ranges_of(starts: Int64s, row_count: int, is_wanted: Sequence[bool]) -> list[RowRange]:
    """Return the rows of the wanted parts, with neighbours joined into one range.

    Args:
        starts: the first row of each part, int64 [m].
        row_count: the rows of the row group, where the last part ends.
    """
    padded_mask = np.concatenate([[False], np.asarray(is_wanted, np.bool_), [False]])
    bound_indices = np.flatnonzero(padded_mask[1:] != padded_mask[:-1])
    rows = np.append(starts, row_count)[bound_indices].tolist()
    return [RowRange(*pair) for pair in zip(rows[::2], rows[1::2], strict=True)]


def ranges_of_rows(positions: Int64s, gap: int) -> list[RowRange]:
    """Return ranges that cover rows, joined across gaps of at most `gap` other rows.

    Args:
        positions: of the rows, in the row group: int64 [k], ascending.
    """
    if not len(positions):
        return []
    ends = np.flatnonzero(np.diff(positions) > gap + 1)
    starts = positions[np.append(0, ends + 1)].tolist()
    last_positions = positions[np.append(ends, len(positions) - 1)].tolist()
    return [
        RowRange(start, last_position + 1)
        for start, last_position in zip(starts, last_positions, strict=True)
    ]


def count_of(ranges: Iterable[RowRange]) -> int:
    """Return the number of rows in ranges."""
    return sum(end - start for start, end in ranges)


def pages_with(page_starts: Int64s, row_count: int, ranges: Sequence[RowRange]) -> Int64s:
    """Return the numbers of the pages with rows of the ranges, ascending: int64 [k].

    Args:
        ranges: ascending and disjoint ranges.
    """
    bounds = np.array(ranges, np.int64).reshape(-1, 2)
    page_ends = np.append(page_starts[1:], row_count)
    # The first range that ends after a page's begin has rows of the page, unless it begins later.
    range_indices = np.searchsorted(bounds[:, 1], page_starts, side="right")
    starts = np.append(bounds[:, 0], row_count)
    return np.flatnonzero(starts[range_indices] < page_ends)


def positions_among(
    page_starts: Int64s, row_count: int, pages: Int64s, row_positions: Sequence[int]
) -> Int64s:
    """Return the positions of rows among the rows of only some pages: int64 [k].

    Args:
        pages: the numbers of the pages that have the rows, ascending.
        row_positions: the positions of the rows in the row group.
    """
    starts = page_starts[pages]
    sizes = np.append(page_starts[1:], row_count)[pages] - starts
    rows_before = np.cumsum(sizes) - sizes
    page_of_row = np.searchsorted(starts, np.asarray(row_positions, np.int64), side="right") - 1
    return rows_before[page_of_row] + row_positions - starts[page_of_row]


def windows(ranges: Sequence[RowRange], rows_max: int) -> Iterator[list[RowRange]]:
    """Split ranges into windows of at most `rows_max` rows, which are decoded together."""
    window: list[RowRange] = []
    remaining_row_count = rows_max
    for start, end in ranges:
        part_start = start
        while part_start < end:
            if remaining_row_count == 0:
                yield window
                window = []
                remaining_row_count = rows_max
            part_end = min(end, part_start + remaining_row_count)
            window.append(RowRange(part_start, part_end))
            remaining_row_count -= part_end - part_start
            part_start = part_end
    if window:
        yield window
