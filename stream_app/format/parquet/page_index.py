"""Decodes the page index of a column chunk: where its pages are, and statistics of each.

No checksum covers an index, so the decoder compares the offset index with the footer, and checks
that the column index is consistent. If an index is damaged, the caller reads the chunk as if it had
none. In an ascending column, the neighbours' bounds widen those of a page, so a single wrong bound
skips no row.

Source: Apache Parquet `parquet.thrift` (OffsetIndex, ColumnIndex), `PageIndex.md`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from itertools import chain
from typing import Any

import numpy as np

from stream_app.arrow_buffers import Int64s
from stream_app.format.column_stats import ColumnStats, bounds_of_footer
from stream_app.format.parquet.row_ranges import pages_of_parts
from stream_app.format.parquet.thrift_compact import (
    RawValue,
    binaries,
    decode_booleans,
    decode_integer,
    decode_integers,
    list_members,
    raw_struct,
)
from stream_app.model.schema.data_type import DataType

_LOCATIONS_FIELD = 1
_ASCENDING_ORDER = 1


class _LocationField(IntEnum):
    """Fields of ``PageLocation``."""

    BYTE_OFFSET = 1
    SIZE = 2
    FIRST_ROW = 3


class _ColumnIndexField(IntEnum):
    """Fields of ``ColumnIndex``."""

    NULL_PAGES = 1
    MINIMA = 2
    MAXIMA = 3
    ORDER = 4
    NULL_COUNTS = 5


def _unpacker(layout: str) -> Callable[[bytes], Any]:
    unpack = struct.Struct(layout).unpack
    return lambda data: unpack(data)[0]


_DECODERS: Mapping[str, Callable[[bytes], Any]] = {
    "BOOLEAN": lambda data: data == b"\1",
    "INT32": _unpacker("<i"),
    "INT64": _unpacker("<q"),
    "FLOAT": _unpacker("<f"),
    "DOUBLE": _unpacker("<d"),
    "BYTE_ARRAY": bytes,
    "FIXED_LEN_BYTE_ARRAY": bytes,
}


@dataclass(frozen=True, slots=True)
class ChunkPages:
    """The data pages of a column chunk, without its dictionary page.

    Attributes:
        offsets: their positions in the file, int64 [n].
        sizes: their bytes including headers, int64 [n].
        starts: the first row of each page in the row group, int64 [n].
        row_count: the rows of the row group.
    """

    offsets: Int64s
    sizes: Int64s
    starts: Int64s
    row_count: int

    @property
    def row_counts(self) -> Int64s:
        """The number of rows of each page: int64 [n]."""
        return np.append(self.starts[1:], self.row_count) - self.starts


def decode_pages(data: bytes, row_count: int, chunk_start: int, chunk_end: int) -> ChunkPages:
    """Decode an offset index.

    Args:
        chunk_start, chunk_end: the chunk's range in the file, in which a dictionary may precede
            the data pages.

    Raises:
        ValueError, IndexError, KeyError: the index contradicts the arguments.
    """
    locations = [raw_struct(member) for member in list_members(raw_struct(data)[_LOCATIONS_FIELD])]
    offsets, sizes, starts = (
        np.array([decode_integer(location[field]) for location in locations], np.int64)
        for field in _LocationField
    )
    if not locations or starts[0] != 0 or not chunk_start <= offsets[0]:
        raise ValueError("pages do not begin with their chunk")
    if (sizes <= 0).any() or (np.append(offsets[1:], chunk_end) != offsets + sizes).any():
        raise ValueError("pages are not contiguous")
    if (np.diff(np.append(starts, row_count)) <= 0).any():
        raise ValueError("pages without rows")
    return ChunkPages(offsets, sizes, starts, row_count)


def decode_stats(
    data: bytes, pages: ChunkPages, chunk: ColumnStats, physical_type: str, data_type: DataType
) -> list[ColumnStats]:
    """Decode a column index into the statistics of each page.

    Args:
        chunk: the footer's statistics of the whole chunk.
        data_type: the column's type in the file's schema.

    Raises:
        ValueError, IndexError, KeyError, struct.error: the index contradicts itself or the chunk.
    """
    fields = raw_struct(data)
    rows = pages.row_counts.tolist()
    are_null_pages = decode_booleans(fields[_ColumnIndexField.NULL_PAGES])
    nulls = _null_counts(fields.get(_ColumnIndexField.NULL_COUNTS), rows, chunk)
    decode = _DECODERS[physical_type]
    lows = binaries(fields[_ColumnIndexField.MINIMA])
    highs = binaries(fields[_ColumnIndexField.MAXIMA])
    stats = []
    for is_null_page, low, high, null_count, row_count in zip(
        are_null_pages, lows, highs, nulls, rows, strict=True
    ):
        if is_null_page != (null_count == row_count) and null_count is not None:
            raise ValueError("a page's number of nulls contradicts whether it has only nulls")
        if is_null_page:
            stats.append(ColumnStats(null_count=row_count))
            continue
        bounds = bounds_of_footer(decode(low), decode(high), data_type)
        stats.append(ColumnStats(*bounds, null_count))
    if decode_integer(fields[_ColumnIndexField.ORDER]) == _ASCENDING_ORDER:
        return _widen_bounds(stats, chunk)
    return stats


def _null_counts(
    counts: RawValue | None, rows: Sequence[int], chunk: ColumnStats
) -> Sequence[int | None]:
    if counts is None:
        return [0 if chunk.null_count == 0 else None] * len(rows)
    nulls = decode_integers(counts)
    if chunk.null_count is not None and sum(nulls) != chunk.null_count:
        raise ValueError("the pages' nulls do not add up to those of their chunk")
    return nulls


def _widen_bounds(stats: Sequence[ColumnStats], chunk: ColumnStats) -> list[ColumnStats]:
    """Widen the statistics of ascending pages to the bounds of their neighbours.

    The first and the last page are widened to the chunk's bounds.
    """
    widened_stats = list(stats)
    bounded_pages = [
        page for page, page_stats in enumerate(stats) if page_stats.minimum is not None
    ]
    lows: list[Any] = [stats[page].minimum for page in bounded_pages]
    highs: list[Any] = [stats[page].maximum for page in bounded_pages]
    if lows != sorted(lows) or highs != sorted(highs):
        raise ValueError("the pages of an ascending column do not ascend")
    chunk_low: Any = chunk.minimum
    chunk_high: Any = chunk.maximum
    lower_bounds = chain(lows[:1] if chunk_low is None else [chunk_low], highs)
    upper_bounds = chain(lows[1:], highs[-1:] if chunk_high is None else [chunk_high])
    for page, low, high, lower, upper in zip(
        bounded_pages, lows, highs, lower_bounds, upper_bounds, strict=False
    ):
        widened_stats[page] = replace(
            stats[page], minimum=min(low, lower), maximum=max(high, upper)
        )
    return widened_stats


def stats_of_parts(
    stats: Sequence[ColumnStats], pages: ChunkPages, parts: Int64s
) -> list[ColumnStats]:
    """Return the statistics of parts, each of which is in one page.

    Args:
        parts: the first row of each part.
    """
    page_rows = pages.row_counts.tolist()
    part_rows = np.diff(np.append(parts, pages.row_count)).tolist()
    return [
        _stats_of_part(stats[page], page_rows[page], row_count)
        for page, row_count in zip(
            pages_of_parts(pages.starts, parts).tolist(), part_rows, strict=True
        )
    ]


def _stats_of_part(stats: ColumnStats, page_row_count: int, part_row_count: int) -> ColumnStats:
    """Return a part's statistics. Its null count is unknown if the page is null in part."""
    if page_row_count == part_row_count or stats.null_count in (None, 0):
        return stats
    return replace(stats, null_count=part_row_count if stats.null_count == page_row_count else None)
