"""Reads Parquet data files in batches of bounded size, and checks their footers.

Source: Paimon `format/parquet/ParquetFileFormat.java`.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from stream_app.format.column_stats import row_group_stats
from stream_app.format.data_files.damaged_files import (
    ARROW_ERRORS,
    damaged_file_error,
    printable_error,
)
from stream_app.format.data_files.file_batches import batch_pieces, batch_row_count
from stream_app.format.data_files.parquet_pages import PagedGroupReader
from stream_app.format.file_parts import PartChoice, PartStats
from stream_app.format.parquet.footer import read_end

_READ_BUFFER_SIZE = 128 << 10
"""Bytes of the read buffer of each column of an open file."""
_DECODED_BATCH_COUNT = 4
"""Batches whose pages are decoded together, so that few pages are decoded twice."""


def numbered_batches(
    source: BinaryIO | pa.NativeFile,
    columns: Sequence[str],
    batch_rows_max: int,
    *,
    check: Callable[[pq.FileMetaData], None] | None = None,
    part_choice: PartChoice | None = None,
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield columns of a data file in the given order, with the file's types.

    Each batch comes with the position of its first row in the file.

    Args:
        batch_rows_max: the maximum number of rows of a batch; wide rows make fewer (`BATCH_BYTES`).
        check: receives the footer before any rows are read.
        part_choice: chooses row groups and pages; None: all are read.

    Raises:
        CorruptFileError: the file is not Parquet, lacks a column, or has a damaged page. Pages with
            a checksum are verified.
        OSError: the file system refused; the file may be intact.
    """
    source = source if isinstance(source, pa.NativeFile) else pa.PythonFile(source, mode="r")
    try:
        # Read the end once, for pyarrow and for the pages.
        end = read_end(source)
        # A merge opens many files, so each reader must be small. pre_buffer would read whole row
        # groups ahead. Without a buffer size the reader would hold a row group's stored columns.
        with pq.ParquetFile(
            source,
            metadata=pq.read_metadata(pa.BufferReader(end)),
            pre_buffer=False,
            buffer_size=_READ_BUFFER_SIZE,
            page_checksum_verification=True,
        ) as file:
            names = set(file.schema_arrow.names)
            missing_names = [name for name in columns if name not in names]
            if missing_names:
                raise damaged_file_error(
                    f"a data file lacks the columns {', '.join(missing_names)}"
                )
            if check is not None:
                check(file.metadata)
            open_file = _OpenFileReader(source, end, file, list(columns), batch_rows_max)
            yield from (
                open_file.all_rows() if part_choice is None else open_file.chosen_rows(part_choice)
            )
    except ARROW_ERRORS as error:
        # Arrow's errors about bytes are also OSErrors, but without errno.
        if isinstance(error, OSError) and error.errno not in (None, errno.ENOENT):
            raise
        # Use one line, because Arrow quotes bytes of the file. The caller adds place and remedy.
        raise damaged_file_error(
            f"not a readable Parquet file: {printable_error(error)}"
        ) from error


class _OpenFileReader:
    """A reader of an open file's columns."""

    def __init__(
        self,
        source: pa.NativeFile,
        end: bytes,
        file: pq.ParquetFile,
        columns: list[str],
        batch_rows_max: int,
    ) -> None:
        self._source = source
        self._end = end
        self._file = file
        self._columns = columns
        self._batch_rows_max = batch_rows_max
        self._row_size = 0.0
        sizes = [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]
        self._group_starts = list(accumulate(sizes, initial=0))

    def all_rows(self) -> Iterator[tuple[int, pa.RecordBatch]]:
        for group in range(self._file.num_row_groups):
            yield from self._whole_group(group)

    def chosen_rows(self, part_choice: PartChoice) -> Iterator[tuple[int, pa.RecordBatch]]:
        pages = PagedGroupReader(self._source, self._end, self._file, self._columns, part_choice)
        for group in self._groups(part_choice):
            rows = pages.find_wanted_rows(group)
            if rows.columns is None:
                yield from self._whole_group(group) if rows.ranges else ()
                continue
            rows_max = _DECODED_BATCH_COUNT * self._rows_of_a_batch(group)
            for batch_start, batch in pages.batches(rows.ranges, rows.columns, rows_max):
                piece_start = self._group_starts[group] + batch_start
                for piece in batch_pieces(batch, self._batch_rows_max):
                    yield piece_start, piece
                    piece_start += piece.num_rows

    def _groups(self, part_choice: PartChoice) -> Sequence[int]:
        footer = self._file.metadata
        groups = range(footer.num_row_groups)
        if len(groups) == 1:
            return groups  # the manifest's statistics were enough
        may_match = part_choice.may_match(
            [
                PartStats(
                    footer.row_group(group).num_rows,
                    row_group_stats(footer, group, part_choice.columns),
                )
                for group in groups
            ]
        )
        return [group for group in groups if may_match[group]]

    def _rows_of_a_batch(self, group: int) -> int:
        metadata = self._file.metadata.row_group(group)
        # Repeated values are small in the file, so the last group's size is a better estimate.
        row_size = max(self._row_size, metadata.total_byte_size / max(1, metadata.num_rows))
        return batch_row_count(row_size, self._batch_rows_max)

    def _whole_group(self, group: int) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield the batches of a row group, each with the position of its first row."""
        metadata = self._file.metadata.row_group(group)
        row_count = 0
        for batch in self._file.iter_batches(
            self._rows_of_a_batch(group),
            row_groups=[group],
            columns=self._columns,
            use_threads=False,
        ):
            self._row_size = batch.nbytes / max(1, batch.num_rows)
            yield self._group_starts[group] + row_count, batch.select(self._columns)
            row_count += batch.num_rows
        # pyarrow silently skips a page whose header has another type.
        if row_count != metadata.num_rows:
            raise damaged_file_error(
                f"a row group of {metadata.num_rows} rows has only {row_count} in its pages"
            )


def check_footer(footer: pq.FileMetaData, fields: Iterable[pa.Field], row_count: int) -> None:
    """Check that a footer, which has no checksum, agrees with the file's metadata.

    Args:
        fields: the table's columns; see `conformed_batch` for how a footer may differ.
        row_count: the number of rows in the manifest.

    Raises:
        CorruptFileError: the number of rows differs, or a type would change the values.
    """
    group_row_count = sum(
        footer.row_group(group).num_rows for group in range(footer.num_row_groups)
    )
    if not row_count == footer.num_rows == group_row_count:
        raise damaged_file_error(
            f"a data file has {footer.num_rows} rows, in its row groups {group_row_count}, and its "
            f"manifest says {row_count}"
        )
    stored_schema = footer.schema.to_arrow_schema()
    physical_types = {footer.schema.column(leaf).path: footer.schema.column(leaf).physical_type
                for leaf in range(len(footer.schema))}  # fmt: skip
    for field in fields:
        index = stored_schema.get_field_index(field.name)
        if index < 0:
            continue  # reading it raises an error
        stored_type = stored_schema.field(index).type
        if _has_other_unit(stored_type, field.type) and physical_types[field.name] != "INT96":
            raise damaged_file_error(
                f"column {field.name!r} is stored as {stored_type}, not as {field.type}"
            )


def _has_other_unit(stored_type: pa.DataType, target_type: pa.DataType) -> bool:
    """Return whether the columns differ in scale or unit, which would change the values."""
    if pa.types.is_null(stored_type):
        return True
    if pa.types.is_decimal(stored_type) and pa.types.is_decimal(target_type):
        return bool(stored_type.scale != target_type.scale)
    if pa.types.is_timestamp(stored_type) and pa.types.is_timestamp(target_type):
        return bool(stored_type.unit != target_type.unit)
    return False
