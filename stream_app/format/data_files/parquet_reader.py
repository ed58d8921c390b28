"""Reads data files of Parquet, in batches of bounded size, and checks their footers.

Source: Paimon `format/parquet/ParquetFileFormat.java`.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from stream_app.format.data_files.file_batches import (
    COMPLAINTS,
    damaged_file_error,
    printable_error,
    rows_of_a_batch,
)

_READ_BUFFER_BYTES = 128 << 10
"""Bytes of the read buffer of each column of an open file."""


def placed_batches(
    source: BinaryIO | pa.NativeFile,
    columns: Sequence[str],
    batch_rows: int,
    row_groups_of: Callable[[pq.FileMetaData], Sequence[int]] | None = None,
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The named columns of a data file, in that order, with the file's types.

    Each batch comes with the place of its first row in the file.

    Args:
        batch_rows: the most rows of a batch; fewer when rows are wide (see `BATCH_BYTES`).
        row_groups_of: chooses row groups by the footer; None: all are read.

    Raises:
        CorruptFileError: no Parquet file, a column is not in it, or a page is not what was
            written. Pages that have a checksum are held against it.
        OSError: the file system refused, which says nothing about the file.
    """
    try:
        # A merge opens many files, so each reader must be small. pre_buffer reads whole row groups
        # ahead. Without a buffer size the reader holds a row group's stored columns.
        with pq.ParquetFile(
            source,
            pre_buffer=False,
            buffer_size=_READ_BUFFER_BYTES,
            page_checksum_verification=True,
        ) as file:
            missing = [name for name in columns if name not in file.schema_arrow.names]
            if missing:
                raise damaged_file_error(f"a data file lacks the columns {', '.join(missing)}")
            groups: Sequence[int] = range(file.num_row_groups)
            if row_groups_of is not None:
                groups = row_groups_of(file.metadata)
            yield from _groups(file, groups, list(columns), batch_rows)
    except COMPLAINTS as error:
        # Arrow's own complaints about bytes are OSErrors too, without a number.
        if isinstance(error, OSError) and error.errno not in (None, errno.ENOENT):
            raise
        # In one line, because Arrow quotes bytes of the file; place and remedy follow below.
        raise damaged_file_error(
            f"not a readable Parquet file: {printable_error(error)}"
        ) from error


def _groups(
    file: pq.ParquetFile, groups: Sequence[int], columns: list[str], batch_rows: int
) -> Iterator[tuple[int, pa.RecordBatch]]:
    row_bytes = 0.0
    sizes = [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]
    begins = list(accumulate(sizes, initial=0))
    for group in groups:
        metadata = file.metadata.row_group(group)
        # Repeated values are small in the file, so the size of the last group is a better estimate.
        row_bytes = max(row_bytes, metadata.total_byte_size / max(1, metadata.num_rows))
        rows = rows_of_a_batch(row_bytes, batch_rows)
        row_count = 0
        for batch in file.iter_batches(
            rows, row_groups=[group], columns=columns, use_threads=False
        ):
            row_bytes = batch.nbytes / max(1, batch.num_rows)
            yield begins[group] + row_count, batch.select(columns)
            row_count += batch.num_rows
        # A page whose header says that it is something else is passed over without a word.
        if row_count != metadata.num_rows:
            raise damaged_file_error(
                f"a row group of {metadata.num_rows} rows has only {row_count} in its pages"
            )


def check_footer(footer: pq.FileMetaData, fields: Iterable[pa.Field], row_count: int) -> None:
    """Check that a footer agrees with the file's metadata; no checksum covers it.

    Args:
        fields: columns as the table knows them; see `conformed_batch` for what a footer may say.
        row_count: by the manifest.

    Raises:
        CorruptFileError: another number of rows, or a type with which values would be others.
    """
    groups = sum(footer.row_group(group).num_rows for group in range(footer.num_row_groups))
    if not row_count == footer.num_rows == groups:
        raise damaged_file_error(
            f"a data file has {footer.num_rows} rows, in its row groups {groups}, and its manifest "
            f"says {row_count}"
        )
    stored = footer.schema.to_arrow_schema()
    physical = {footer.schema.column(at).path: footer.schema.column(at).physical_type
                for at in range(len(footer.schema))}  # fmt: skip
    for field in fields:
        place = stored.get_field_index(field.name)
        if place < 0:
            continue  # reading it raises an error
        stored_type = stored.field(place).type
        if _has_another_measure(stored_type, field.type) and physical[field.name] != "INT96":
            raise damaged_file_error(
                f"column {field.name!r} is stored as {stored_type}, not as {field.type}"
            )


def _has_another_measure(stored: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether the columns differ in scale or unit, so that the same bytes mean another value."""
    if pa.types.is_null(stored):
        return True
    if pa.types.is_decimal(stored) and pa.types.is_decimal(wanted):
        return bool(stored.scale != wanted.scale)
    if pa.types.is_timestamp(stored) and pa.types.is_timestamp(wanted):
        return bool(stored.unit != wanted.unit)
    return False
