"""Reads only the pages of a row group that may have wanted rows.

`parquet_reader` calls it to read chosen parts of a file. If the condition's columns are small, it
decodes them first, and their values determine which pages of the others it decodes.
`parquet_reader` reads a whole row group if one of these holds:

* A wanted column has no page index, or is in a ROW, ARRAY or MAP.
* An Arrow schema in the footer gives a column another type.
* The index contradicts itself or the footer.
* Most rows may be wanted.
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from stream_app.format.column_stats import (
    UNKNOWN_STATS,
    ColumnStats,
    has_usable_bounds,
    row_group_stats,
)
from stream_app.format.data_files.damaged_files import damaged_file_error
from stream_app.format.file_parts import JudgeOfValues, PartChoice, PartStats
from stream_app.format.parquet.footer import footer_of
from stream_app.format.parquet.page_file import (
    ByteSpan,
    ChosenPages,
    ColumnChunk,
    Name,
    ParsedFooter,
    group_near_spans,
)
from stream_app.format.parquet.page_index import (
    ChunkPages,
    decode_pages,
    decode_stats,
    stats_of_parts,
)
from stream_app.format.parquet.row_ranges import (
    RowRange,
    count_of,
    pages_with,
    part_starts,
    ranges_of,
    ranges_of_rows,
    windows,
)
from stream_app.model.schema.data_type import DataType

_INDEX_ERRORS = (ValueError, IndexError, KeyError, OverflowError, struct.error)
"""The errors of decoding bytes that are not a page index."""
_DICTIONARY = -1
"""The number of a column chunk's dictionary page, among the numbers of its data pages."""
_GAP_BYTES_MAX = 64 << 10
"""The maximum gap between spans of one read: reading the gap is cheaper than another read."""
_GAP_ROWS_MAX = 1_024
"""The maximum gap between rows of one range: decoding these rows is cheaper than another batch."""
_ROWS_PER_WANTED_MIN = 2
"""The number of rows for each wanted row from which on it is worthwhile to skip the others."""
_BYTES_PER_TESTED_MIN = 8
"""The minimum ratio of all columns' bytes to those of the condition's columns.

From this ratio on, the reader decodes the condition's columns first.
"""

PagedColumns: TypeAlias = Mapping[str, tuple[ColumnChunk, ChunkPages]]
"""The chunks and pages of a row group's columns, by name."""


@dataclass(frozen=True, slots=True)
class WantedRows:
    """The rows of a row group that may be wanted.

    Attributes:
        ranges: the ranges of rows, ascending.
        columns: the columns to read, with their pages; None if the whole row group is read, or none
            of it.
    """

    ranges: Sequence[RowRange]
    columns: PagedColumns | None


class PagedGroupReader:
    """A reader of an open file's row groups, of which a choice may skip pages.

    Args:
        source: the file.
        end: the last bytes of the file, with the footer.
        columns: the names of the columns to read.
    """

    def __init__(
        self,
        source: pa.NativeFile,
        end: bytes,
        file: pq.ParquetFile,
        columns: Sequence[str],
        part_choice: PartChoice,
    ) -> None:
        self._source = source
        self._end = end
        self._file = file
        self._columns = columns
        self._part_choice = part_choice
        self._tested_names = [name for name, _ in part_choice.columns]
        self._judge = part_choice.judge if set(self._tested_names) < set(columns) else None

    def find_wanted_rows(self, group: int) -> WantedRows:
        """Return the rows that may pass, by values of the condition's columns or by the page index.

        Raises:
            CorruptFileError: a value is not of its type.
        """
        row_count = self._file.metadata.row_group(group).num_rows
        if self._judge is not None and self._has_small_condition(group):
            ranges = self._ranges_by_values(group, self._judge)
            # A condition that keeps most rows of one group will keep most of the next.
            self._judge = self._judge if _skips_most(ranges, row_count) else None
        else:
            ranges = self._ranges_by_statistics(group, row_count)
        columns = None
        if ranges and _skips_most(ranges, row_count):
            with contextlib.suppress(*_INDEX_ERRORS):
                columns = self._paged_columns(group, self._columns)
        return WantedRows(ranges, columns)

    def batches(
        self, ranges: Sequence[RowRange], columns: PagedColumns, rows_max: int
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield a batch for each range, with the number of its first row in the row group.

        Args:
            rows_max: the approximate number of rows that are decoded at once.

        Raises:
            CorruptFileError: a page contradicts its index.
        """
        schema = pa.schema([self._file.schema_arrow.field(name) for name in columns])
        for window in windows(ranges, rows_max):
            columns_and_positions = self._decode(columns, window)
            for index, (start, end) in enumerate(window):
                rows = [
                    values.slice(positions[index], end - start)
                    for values, positions in columns_and_positions
                ]
                yield start, pa.RecordBatch.from_arrays(rows, schema=schema)

    def _has_small_condition(self, group: int) -> bool:
        """Return whether the condition's columns are a small part of the columns to read."""
        metadata = self._file.metadata.row_group(group)
        schema = self._file.schema_arrow
        widths = [_width(schema.field(name).type) for name in self._tested_names]
        if None not in widths:
            # All columns include the condition's, because decoding a few values twice costs little.
            estimate = metadata.num_rows * sum(width or 0 for width in widths)
            return bool(estimate * _BYTES_PER_TESTED_MIN <= metadata.total_byte_size)
        with contextlib.suppress(*_INDEX_ERRORS):
            return self._decoded_size(
                group, self._tested_names
            ) * _BYTES_PER_TESTED_MIN <= self._decoded_size(group, self._columns)
        return False

    def _decoded_size(self, group: int, names: Sequence[str]) -> int:
        # Damaged chunk metadata can crash pyarrow's process, so this code parses it first.
        schema = self._file.metadata.schema
        return sum(
            chunk.decoded_size
            for leaf, chunk in enumerate(self._footer.chunks(group))
            if schema.column(leaf).path.partition(".")[0] in names
        )

    def _ranges_by_values(self, group: int, judge: JudgeOfValues) -> list[RowRange]:
        table = self._file.read_row_group(group, columns=self._tested_names, use_threads=False)
        row_count = self._file.metadata.row_group(group).num_rows
        (batch,) = table.select(self._tested_names).combine_chunks().to_batches() or [None]
        value_count = 0 if batch is None else batch.num_rows
        # pyarrow silently skips a page whose header has another type.
        if value_count != row_count:
            raise damaged_file_error(
                f"a row group of {row_count} rows has only {value_count} in pages of "
                + ", ".join(self._tested_names)
            )
        return [] if batch is None else ranges_of_rows(judge(batch), _GAP_ROWS_MAX)

    def _ranges_by_statistics(self, group: int, row_count: int) -> list[RowRange]:
        with contextlib.suppress(*_INDEX_ERRORS):
            columns = self._paged_columns(group, self._tested_names)
            if columns is not None:
                return self._matching_ranges(group, columns, row_count)
        return [RowRange(0, row_count)]

    @cached_property
    def _footer(self) -> ParsedFooter:
        return ParsedFooter(footer_of(self._end))

    @cached_property
    def _leaves(self) -> dict[str, int] | None:
        """The columns' numbers in the file; None if a column cannot be read by pages."""
        schema = self._file.metadata.schema
        plain_schema = schema.to_arrow_schema()
        stored_schema = self._file.schema_arrow
        leaves = {}
        for leaf in range(len(schema)):
            column = schema.column(leaf)
            if column.path in self._columns and column.max_repetition_level == 0:
                leaves[column.path] = leaf
        is_readable = all(
            name in leaves and plain_schema.field(name).type == stored_schema.field(name).type
            for name in self._columns
        )
        return leaves if is_readable else None

    def _paged_columns(self, group: int, names: Sequence[str]) -> PagedColumns | None:
        """Return columns with their pages; None if a column has no page index."""
        if self._leaves is None:
            return None
        row_count = self._file.metadata.row_group(group).num_rows
        chunks = self._footer.chunks(group)
        columns = {name: chunks[self._leaves[name]] for name in names}
        spans = {name: chunk.index("offset") for name, chunk in columns.items()}
        present_spans = {
            name: span for name, span in spans.items() if span and columns[name].is_plain
        }
        if len(present_spans) < len(columns):
            return None
        indexes = self._read_all(present_spans)
        return {
            name: (chunk, decode_pages(indexes[name], row_count, chunk.span.start, chunk.span.end))
            for name, chunk in columns.items()
        }

    def _matching_ranges(self, group: int, columns: PagedColumns, row_count: int) -> list[RowRange]:
        """Return the ranges of rows whose page statistics may pass the condition."""
        footer, tested_columns = self._file.metadata, self._part_choice.columns
        spans = {name: columns[name][0].index("column") for name, _ in tested_columns}
        indexes = self._read_all({name: span for name, span in spans.items() if span})
        starts = part_starts([columns[name][1].starts for name in indexes])
        column_stats = [
            stats_of_parts(
                self._stats(name, data_type, chunk_stats, indexes.get(name), columns[name][1]),
                columns[name][1],
                starts,
            )
            for (name, data_type), chunk_stats in zip(
                tested_columns, row_group_stats(footer, group, tested_columns), strict=True
            )
        ]
        sizes = np.diff(np.append(starts, row_count)).tolist()
        stats = zip(*column_stats, strict=True) if column_stats else [()] * len(sizes)
        parts = [PartStats(*part) for part in zip(sizes, stats, strict=True)]
        return ranges_of(starts, row_count, self._part_choice.may_match(parts))

    def _stats(
        self,
        name: str,
        data_type: DataType,
        chunk_stats: ColumnStats,
        index_bytes: bytes | None,
        pages: ChunkPages,
    ) -> list[ColumnStats]:
        """Return the statistics of each page."""
        footer = self._file.metadata
        leaf = (self._leaves or {})[name]
        has_bounds = self._footer.orders_columns and has_usable_bounds(footer, leaf, data_type)
        if index_bytes is None or not has_bounds:
            return [UNKNOWN_STATS] * len(pages.starts)
        physical_type = footer.schema.column(leaf).physical_type
        return decode_stats(index_bytes, pages, chunk_stats, physical_type, data_type)

    def _decode(
        self, columns: PagedColumns, ranges: Sequence[RowRange]
    ) -> list[tuple[pa.Array, list[int]]]:
        """Return each column's decoded page rows, and where each range begins among them."""
        spans: dict[tuple[str, int], ByteSpan] = {}
        page_numbers = {}
        for name, (chunk, pages) in columns.items():
            page_numbers[name] = pages_with(pages.starts, pages.row_count, ranges)
            if chunk.span.start < pages.offsets[0]:
                spans[name, _DICTIONARY] = ByteSpan(chunk.span.start, int(pages.offsets[0]))
            for page_number in page_numbers[name].tolist():
                page_start = int(pages.offsets[page_number])
                page_end = page_start + int(pages.sizes[page_number])
                spans[name, page_number] = ByteSpan(page_start, page_end)
        data = self._read_all(spans)
        chosen_pages = {
            name: ChosenPages(
                chunk,
                pages,
                data.get((name, _DICTIONARY), b""),
                page_numbers[name],
                [data[name, page_number] for page_number in page_numbers[name].tolist()],
            )
            for name, (chunk, pages) in columns.items()
        }
        for name, pages_of_column in chosen_pages.items():
            if contradiction := pages_of_column.contradiction():
                raise damaged_file_error(f"column {name!r}: {contradiction}")
        starts = [start for start, _ in ranges]
        file = self._footer.open_pages(chosen_pages)
        return [
            (
                _single_array(file.reader.read_column(index), pages.row_count),
                pages.positions(starts),
            )
            for index, pages in enumerate(chosen_pages.values())
        ]

    def _read_all(self, spans: Mapping[Name, ByteSpan]) -> dict[Name, bytes]:
        """Read the bytes of spans, by name, in few requests."""
        data: dict[Name, bytes] = {}
        for names in group_near_spans(spans, _GAP_BYTES_MAX):
            start = spans[names[0]].start
            group = self._read(ByteSpan(start, max(spans[name].end for name in names)))
            data |= {
                name: group[spans[name].start - start : spans[name].end - start] for name in names
            }
        return data

    def _read(self, span: ByteSpan) -> bytes:
        self._source.seek(span.start)
        data: bytes = self._source.read(span.end - span.start)
        if len(data) != span.end - span.start:
            raise ValueError("an index names bytes beyond the end of the file")
        return data


def _skips_most(ranges: Sequence[RowRange], row_count: int) -> bool:
    return count_of(ranges) * _ROWS_PER_WANTED_MIN <= row_count


def _width(data_type: pa.DataType) -> int | None:
    """Return the bytes of a value; None if the width varies."""
    try:
        bits: int = data_type.bit_width
    except ValueError:
        return None
    return -(-bits // 8)


def _single_array(column: pa.ChunkedArray, row_count: int) -> pa.Array:
    if len(column) != row_count:
        raise damaged_file_error(f"pages of {row_count} rows have only {len(column)} values")
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)
