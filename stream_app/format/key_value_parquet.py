"""Reads and writes data files as Parquet that Paimon's Java readers understand.

`parquet_writer` explains each setting. `arrow_schema.key_value_file_schema` defines the columns of
a file.

Source: Paimon `format/parquet/ParquetSchemaConverter.java`, `ParquetFileFormat.java`.
"""

from __future__ import annotations

import errno
import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from stream_app.errors import CorruptFileError
from stream_app.format.parquet_footer import HeldBackFooter, footer_of, schema_elements
from stream_app.model.options.core_options import CoreOptions
from stream_app.model.options.table_options import FILE_COMPRESSION, FILE_COMPRESSION_ZSTD_LEVEL

BATCH_BYTES = 4 << 20
"""Arrow bytes of a batch that is read, about; a merge holds a few of each run."""
_BATCH_ROWS_MIN = 128
_READ_BUFFER_BYTES = 128 << 10
"""Bytes of the read buffer of each column of an open file."""
_CODECS = {
    "zstd": "zstd",
    "none": "none",
    "uncompressed": "none",
    "gzip": "gzip",
    "lz4": "lz4",
    "snappy": "snappy",
}
_PAGE_BYTES = 1 << 20
COMPLAINTS = (
    pa.ArrowInvalid,
    pa.ArrowNotImplementedError,
    pa.ArrowTypeError,
    pa.ArrowKeyError,
    pa.ArrowIndexError,
    UnicodeDecodeError,
    OSError,
)
"""The errors with which Arrow answers bytes that are not what they should be."""


def parquet_writer(
    sink: BinaryIO | pa.NativeFile, schema: pa.Schema, options: CoreOptions
) -> pq.ParquetWriter:
    """A writer of one data file; the caller decides on row groups and closes it."""
    int96 = any(_is_timestamp(field.type, "ns") for field in schema)
    codec = _CODECS[options[FILE_COMPRESSION].lower()]
    writer_class = _Int96Writer if int96 else pq.ParquetWriter
    return writer_class(
        sink,
        schema,
        version="2.6",
        data_page_version="1.0",
        data_page_size=_PAGE_BYTES,
        compression=codec,
        compression_level=options[FILE_COMPRESSION_ZSTD_LEVEL] if codec == "zstd" else None,
        use_dictionary=_dictionary_columns(schema),
        column_encoding=_encodings(schema),
        # Statistics feed the manifest; see column_stats.
        write_statistics=True,
        # DECIMAL(p ≤ 18) as INT32 or INT64, as Java writes them.
        store_decimal_as_integer=True,
        # Java knows TIMESTAMP(7..9) as INT96 only.
        use_deprecated_int96_timestamps=int96,
        # No Arrow schema in the footer: the file's own types say everything, to every reader.
        store_schema=False,
        # As in Java's default; otherwise a flipped bit in a page may give a wrong value.
        write_page_checksum=True,
    )


def _dictionary_columns(schema: pa.Schema) -> list[str] | bool:
    """Texts and row kinds, which repeat; numbers are smaller and faster without a dictionary."""
    repeating = [
        field.name
        for field in schema
        if pa.types.is_string(field.type)
        or pa.types.is_binary(field.type)
        or pa.types.is_int8(field.type)
        or pa.types.is_int16(field.type)
    ]
    return repeating or False


def _encodings(schema: pa.Schema) -> dict[str, str]:
    """The columns to store as differences: keys, sequence numbers and times become a tenth smaller.

    Java reads DELTA_BINARY_PACKED, but no BYTE_STREAM_SPLIT.
    """
    return {
        field.name: "DELTA_BINARY_PACKED"
        for field in schema
        if pa.types.is_int32(field.type)
        or pa.types.is_int64(field.type)
        or pa.types.is_date32(field.type)
        or pa.types.is_time32(field.type)
        or (pa.types.is_timestamp(field.type) and field.type.unit != "ns")
    }


def _is_timestamp(data_type: pa.DataType, unit: str) -> bool:
    return bool(pa.types.is_timestamp(data_type) and data_type.unit == unit)


class _Int96Writer(pq.ParquetWriter):  # type: ignore[misc]
    """Stores timestamps as Java does: fine ones as INT96, coarse ones as INT64 of their unit.

    pyarrow makes INT96 of all timestamps of a file or of none. So the coarse ones are written as
    plain INT64, and the footer gets the descriptions that they have in a file without INT96.
    """

    def __init__(self, sink: BinaryIO | pa.NativeFile, schema: pa.Schema, **settings: Any) -> None:
        self._stored_schema = pa.schema([_stored_field(field) for field in schema])
        self._sink = HeldBackFooter(sink)
        self._columns = described_columns(schema)
        super().__init__(self._sink, self._stored_schema, **settings)

    def write_table(self, table: pa.Table, *args: Any, **kwargs: Any) -> None:
        super().write_table(table.cast(self._stored_schema), *args, **kwargs)

    def write_batch(self, batch: pa.RecordBatch, *args: Any, **kwargs: Any) -> None:
        self.write_table(pa.Table.from_batches([batch]), *args, **kwargs)

    def close(self) -> None:
        if not self.is_open:
            return
        self._sink.hold_back()
        super().close()
        self._sink.release(self._columns)


def _stored_field(field: pa.Field) -> pa.Field:
    if pa.types.is_timestamp(field.type) and field.type.unit != "ns":
        return field.with_type(pa.int64())
    return field


def described_columns(schema: pa.Schema) -> dict[int, bytes]:
    """Column position → Parquet's description of coarse timestamps, if no column has fine ones."""
    places = [
        place
        for place, field in enumerate(schema)
        if pa.types.is_timestamp(field.type) and field.type.unit != "ns"
    ]
    sink = io.BytesIO()
    coarse = pa.schema([schema.field(place) for place in places])
    pq.write_metadata(coarse, sink, version="2.6", store_schema=False)
    elements = schema_elements(footer_of(sink.getvalue()))
    return dict(zip(places, (elements.parts[1:]), strict=True))


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
        rows = max(_BATCH_ROWS_MIN, min(batch_rows, int(BATCH_BYTES // max(1, row_bytes))))
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


def batch_pieces(rows: pa.RecordBatch, batch_rows: int) -> Iterator[pa.RecordBatch]:
    """Cut a batch into smaller ones, of `batch_rows` rows and about `BATCH_BYTES` at most."""
    row_bytes = rows.nbytes / max(1, rows.num_rows)
    step = max(_BATCH_ROWS_MIN, min(batch_rows, int(BATCH_BYTES // max(1, row_bytes))))
    for begin in range(0, rows.num_rows, step):
        yield rows.slice(begin, step)


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


def damaged_file_error(what: str) -> CorruptFileError:
    """The error of a damaged file; the caller adds the path."""
    return CorruptFileError(
        what, fix="restore the file from a backup, or roll the table back to a tag"
    )


def printable_error(error: Exception) -> str:
    """An error's text in one line; Arrow quotes bytes of the file."""
    return " ".join("".join(c if c.isprintable() else " " for c in str(error)).split())


def conformed_batch(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The batch with the names and types of `schema`, column by column in order.

    Columns that fit are not copied. Files differ in three ways. INT96 timestamps come in
    nanoseconds and without a zone. Beside INT96, older versions of stream_app stored other
    timestamps as plain numbers. Other writers may use other string types.

    Raises:
        CorruptFileError: another number of columns, or a value that the wanted type cannot hold.
    """
    if batch.schema.equals(schema):
        return batch
    if batch.num_columns != len(schema):
        raise damaged_file_error(
            f"a data file has {batch.num_columns} columns instead of {len(schema)}"
        )
    return pa.RecordBatch.from_arrays(
        [
            column if column.type == field.type else _cast(column, field)
            for column, field in zip(batch.columns, schema, strict=True)
        ],
        schema=schema,
    )


def _cast(column: pa.Array, field: pa.Field) -> pa.Array:
    try:
        return column.cast(field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise damaged_file_error(
            f"column {field.name!r}, stored as {column.type}, cannot be read as {field.type}: "
            f"{printable_error(error)}"
        ) from error
