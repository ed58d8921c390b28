"""Reads only the pages of a row group that may have wanted rows.

Called by `parquet_reader`, for a file of which parts are chosen. A row group is read whole instead
when a wanted column has no page index, lies in a ROW, ARRAY or MAP, or gets another type by an
Arrow schema in the footer; also when the index is damaged, or most rows are wanted anyway.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from stream_app.format.column_stats import (
    UNKNOWN_STATS,
    ColumnStats,
    has_bounds,
    row_group_stats,
)
from stream_app.format.data_files.file_batches import damaged_file_error
from stream_app.format.file_parts import PartChoice, PartStats
from stream_app.format.parquet.page_file import Chunk, ChosenPages, FooterParts, Name, Span, runs
from stream_app.format.parquet.page_index import (
    Pages,
    decode_pages,
    decode_stats,
    stats_of_parts,
)
from stream_app.format.parquet.row_ranges import (
    RowRange,
    pages_with,
    part_begins,
    ranges_of,
    windows,
)
from stream_app.model.schema.data_type import DataType

_DAMAGED = (ValueError, IndexError, KeyError, OverflowError, struct.error)
"""What bytes raise that are no page index."""
_TAIL_BYTES = 8
_DICTIONARY = -1
"""Stands for the number of a page."""
_GAP_BYTES = 64 << 10
"""Reading on over a gap is cheaper than another read."""
_WORTHWHILE = 2
"""Rows of a group for each wanted row, from which on leaving out pages is worthwhile."""


@dataclass(frozen=True, slots=True)
class WantedPages:
    """The rows of a row group that may be wanted.

    Attributes:
        ranges: ascending.
        columns: by name the chunk and the pages of each column that is read.
    """

    ranges: Sequence[RowRange]
    columns: dict[str, tuple[Chunk, Pages]]


class PagedGroups:
    """The row groups of an open file.

    Args:
        source: the file's bytes.
        columns: names of the columns to read.
    """

    def __init__(
        self, source: pa.NativeFile, file: pq.ParquetFile, columns: Sequence[str]
    ) -> None:
        self._source = source
        self._file = file
        self._columns = columns

    def wanted(self, group: int, choice: PartChoice) -> WantedPages | None:
        """The rows that may pass; None: the row group is read whole."""
        metadata = self._file.metadata.row_group(group)
        if self._leaves is None:
            return None
        try:
            chunks = self._parts.chunks(group)
            columns = {name: chunks[self._leaves[name]] for name in self._columns}
            pages = self._pages(columns, metadata.num_rows)
            if pages is None:
                return None
            ranges = self._ranges(group, choice, columns, pages)
        except _DAMAGED:
            return None
        if sum(end - begin for begin, end in ranges) * _WORTHWHILE > metadata.num_rows:
            return None
        return WantedPages(ranges, {name: (columns[name], pages[name]) for name in columns})

    def batches(
        self, wanted: WantedPages, rows_max: int
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """The wanted rows, a batch a range, with the place of its first row in the row group.

        Args:
            rows_max: rows that are decoded at once, about.

        Raises:
            CorruptFileError: a page is not what its index says.
        """
        schema = pa.schema([self._file.schema_arrow.field(name) for name in self._columns])
        for ranges in windows(wanted.ranges, rows_max):
            columns = self._decoded(wanted, ranges)
            for place, (begin, end) in enumerate(ranges):
                rows = [values.slice(at[place], end - begin) for values, at in columns]
                yield begin, pa.RecordBatch.from_arrays(rows, schema=schema)

    @cached_property
    def _parts(self) -> FooterParts:
        size = self._source.size()
        length = int.from_bytes(self._read(Span(size - _TAIL_BYTES, size))[:4], "little")
        return FooterParts(self._read(Span(size - _TAIL_BYTES - length, size - _TAIL_BYTES)))

    @cached_property
    def _leaves(self) -> dict[str, int] | None:
        """The places of the columns among the file's; None: one of them cannot be read by pages."""
        schema = self._file.metadata.schema
        plain, stored = schema.to_arrow_schema(), self._file.schema_arrow
        leaves = {}
        for place in range(len(schema)):
            column = schema.column(place)
            if column.path in self._columns and column.max_repetition_level == 0:
                leaves[column.path] = place
        fits = all(
            name in leaves and plain.field(name).type == stored.field(name).type
            for name in self._columns
        )
        return leaves if fits else None

    def _pages(self, columns: dict[str, Chunk], row_count: int) -> dict[str, Pages] | None:
        spans = {name: chunk.index("offset") for name, chunk in columns.items()}
        there = {name: span for name, span in spans.items() if span and columns[name].is_plain}
        if len(there) < len(columns):
            return None
        pages = {}
        for name, data in self._read_all(there).items():
            span = columns[name].span
            pages[name] = decode_pages(data, row_count, span.start, span.end)
        return pages

    def _ranges(
        self, group: int, choice: PartChoice, columns: dict[str, Chunk], pages: dict[str, Pages]
    ) -> list[RowRange]:
        footer, asked = self._file.metadata, choice.columns
        spans = {name: columns[name].index("column") for name, _ in asked}
        indexes = self._read_all({name: span for name, span in spans.items() if span})
        begins = part_begins([pages[name].begins for name in indexes])
        of_columns = [
            stats_of_parts(
                self._stats(name, data_type, of_chunk, indexes.get(name), pages[name]),
                pages[name],
                begins,
            )
            for (name, data_type), of_chunk in zip(
                asked, row_group_stats(footer, group, asked), strict=True
            )
        ]
        row_count = footer.row_group(group).num_rows
        sizes = np.diff(np.append(begins, row_count)).tolist()
        parts = [PartStats(*part) for part in zip(sizes, zip(*of_columns, strict=True), strict=True)]
        return ranges_of(begins, row_count, choice.passing(parts))

    def _stats(
        self,
        name: str,
        data_type: DataType,
        of_chunk: ColumnStats,
        index: bytes | None,
        pages: Pages,
    ) -> list[ColumnStats]:
        """The statistics of each page."""
        footer, leaf = self._file.metadata, (self._leaves or {})[name]
        means_anything = self._parts.orders_columns and has_bounds(footer, leaf, data_type)
        if index is None or not means_anything:
            return [UNKNOWN_STATS] * len(pages.begins)
        physical_type = footer.schema.column(leaf).physical_type
        return decode_stats(index, pages, of_chunk, physical_type, data_type)

    def _decoded(
        self, wanted: WantedPages, ranges: Sequence[RowRange]
    ) -> list[tuple[pa.Array, list[int]]]:
        """For each column the rows of its pages, and where each range begins among them."""
        spans: dict[tuple[str, int], Span] = {}
        numbers = {}
        for name, (chunk, pages) in wanted.columns.items():
            numbers[name] = pages_with(pages.begins, pages.row_count, ranges)
            if chunk.span.start < pages.offsets[0]:
                spans[name, _DICTIONARY] = Span(chunk.span.start, int(pages.offsets[0]))
            for number in numbers[name].tolist():
                start = int(pages.offsets[number])
                spans[name, number] = Span(start, start + int(pages.sizes[number]))
        data = self._read_all(spans)
        chosen = {
            name: ChosenPages(
                chunk,
                pages,
                data.get((name, _DICTIONARY), b""),
                numbers[name],
                [data[name, number] for number in numbers[name].tolist()],
            )
            for name, (chunk, pages) in wanted.columns.items()
        }
        for name, pages_of_column in chosen.items():
            if contradiction := pages_of_column.contradiction():
                raise damaged_file_error(f"column {name!r}: {contradiction}")
        begins = [begin for begin, _ in ranges]
        file = self._parts.open_pages(chosen)
        return [
            (_whole(file.reader.read_column(place), of.row_count), of.places(begins))
            for place, of in enumerate(chosen.values())
        ]

    def _read_all(self, spans: Mapping[Name, Span]) -> dict[Name, bytes]:
        """Bytes by the names of their spans, in few reads."""
        data: dict[Name, bytes] = {}
        for names in runs(spans, _GAP_BYTES):
            start = spans[names[0]].start
            read = self._read(Span(start, max(spans[name].end for name in names)))
            data |= {name: read[spans[name].start - start : spans[name].end - start] for name in names}
        return data

    def _read(self, span: Span) -> bytes:
        self._source.seek(span.start)
        data: bytes = self._source.read(span.end - span.start)
        if len(data) != span.end - span.start:
            raise ValueError("bytes that are not in the file")
        return data


def _whole(column: pa.ChunkedArray, row_count: int) -> pa.Array:
    if len(column) != row_count:
        raise damaged_file_error(
            f"pages of {row_count} rows have only {len(column)} values"
        )
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)
