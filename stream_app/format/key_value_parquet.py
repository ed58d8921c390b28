"""Data files as Parquet that Paimon's Java readers understand.

What is set here and why: see `parquet_writer`. Which columns a file has stands in
`arrow_schema.key_value_file_schema`.

Source: Paimon `format/parquet/ParquetSchemaConverter.java`, `ParquetFileFormat.java`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from stream_app.errors import CorruptFileError, SchemaMismatchError
from stream_app.model.core_options import CoreOptions

_CODECS = {
    "zstd": "zstd",
    "none": "none",
    "uncompressed": "none",
    "gzip": "gzip",
    "lz4": "lz4",
    "snappy": "snappy",
}
_PAGE_BYTES = 1 << 20


def parquet_writer(
    sink: BinaryIO | pa.NativeFile, schema: pa.Schema, options: CoreOptions
) -> pq.ParquetWriter:
    """A writer of one data file; the caller decides on row groups and closes it.

    Raises:
        SchemaMismatchError: on writing, see `_Int96Writer`.
    """
    int96 = any(_is_timestamp(field.type, "ns") for field in schema)
    codec = _CODECS[options.text("file.compression").lower()]
    writer_class = _Int96Writer if int96 else pq.ParquetWriter
    return writer_class(
        sink,
        schema,
        version="2.6",
        data_page_version="1.0",
        data_page_size=_PAGE_BYTES,
        compression=codec,
        compression_level=options.integer("file.compression.zstd-level")
        if codec == "zstd"
        else None,
        use_dictionary=_dictionary_columns(schema),
        column_encoding=_encodings(schema, int96=int96),
        # Statistics feed the manifest; see column_stats.
        write_statistics=True,
        # DECIMAL(p ≤ 18) as INT32 or INT64, as Java writes them.
        store_decimal_as_integer=True,
        # Java knows TIMESTAMP(7..9) as INT96 only. The switch is one for all columns of the file;
        # Java reads INT96 for the coarser timestamps too.
        use_deprecated_int96_timestamps=int96,
        # No Arrow schema in the footer: the file's own types say everything, to every reader.
        store_schema=False,
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


def _encodings(schema: pa.Schema, *, int96: bool) -> dict[str, str]:
    """Differences instead of values for keys, sequence numbers and times: a tenth less to store.

    Java reads DELTA_BINARY_PACKED, but no BYTE_STREAM_SPLIT.
    """
    return {
        field.name: "DELTA_BINARY_PACKED"
        for field in schema
        if pa.types.is_int32(field.type)
        or pa.types.is_int64(field.type)
        or pa.types.is_date32(field.type)
        or pa.types.is_time32(field.type)
        or (pa.types.is_timestamp(field.type) and not int96)
    }


def _is_timestamp(data_type: pa.DataType, unit: str) -> bool:
    return bool(pa.types.is_timestamp(data_type) and data_type.unit == unit)


class _Int96Writer(pq.ParquetWriter):  # type: ignore[misc]
    """Refuses coarse timestamps that INT96 would bring back as other instants.

    Arrow turns every timestamp into nanoseconds in 64 bits on its way to and from INT96, and
    wraps around silently before 1677 and after 2262.
    """

    def write_table(self, table: pa.Table, *args: Any, **kwargs: Any) -> None:
        for name, column in zip(table.column_names, table.columns, strict=True):
            if pa.types.is_timestamp(column.type) and column.type.unit != "ns":
                _check_nanosecond_range(name, column)
        super().write_table(table, *args, **kwargs)

    def write_batch(self, batch: pa.RecordBatch, *args: Any, **kwargs: Any) -> None:
        self.write_table(pa.Table.from_batches([batch], batch.schema), *args, **kwargs)


def _check_nanosecond_range(name: str, column: pa.ChunkedArray) -> None:
    bounds = pc.min_max(column)
    for bound in (bounds["min"], bounds["max"]):
        try:
            bound.cast(pa.timestamp("ns", column.type.tz))
        except pa.ArrowInvalid as error:
            raise SchemaMismatchError(
                f"column {name!r} holds {bound} which does not fit beside a TIMESTAMP(7..9) column",
                where=f"column {name!r}; Parquet stores all timestamps of such a table as INT96",
                fix="keep timestamps between 1678 and 2261, or declare the table's timestamps "
                "with at most 6 fractional digits",
            ) from error


def read_batches(
    source: BinaryIO | pa.NativeFile, columns: Sequence[str], batch_rows: int
) -> Iterator[pa.RecordBatch]:
    """The named columns of a data file, in that order, with the file's types; see `conform`.

    Raises:
        CorruptFileError: no Parquet file, or a column is not in it.
    """
    try:
        # pre_buffer reads whole row groups ahead; a merge opens many files and must stay small.
        with pq.ParquetFile(source, pre_buffer=False) as file:
            missing = [name for name in columns if name not in file.schema_arrow.names]
            if missing:
                raise CorruptFileError(
                    f"a data file lacks the columns {', '.join(missing)}",
                    fix="restore the file from a backup, or roll the table back to a tag",
                )
            wanted = list(columns)
            for batch in file.iter_batches(batch_rows, columns=wanted, use_threads=False):
                yield batch.select(wanted)
    except (pa.ArrowInvalid, OSError) as error:
        raise CorruptFileError(
            f"not a readable Parquet file: {error}",
            fix="restore the file from a backup, or roll the table back to a tag",
        ) from error


def conform(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The batch with the names and types of `schema`, column by column in order.

    Columns that fit are not copied. What differs in files: INT96 timestamps come in nanoseconds
    and without zone, other writers may have used other string types.

    Raises:
        SchemaMismatchError: another number of columns, or a value that the wanted type cannot hold.
    """
    if batch.schema.equals(schema):
        return batch
    if batch.num_columns != len(schema):
        raise SchemaMismatchError(
            f"a batch has {batch.num_columns} columns instead of {len(schema)}",
            where=f"columns {batch.schema.names}",
            fix="read exactly the columns of the schema",
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
        raise SchemaMismatchError(
            f"column {field.name!r} cannot be read as {field.type}: {error}",
            where=f"column {field.name!r}, stored as {column.type}",
            fix="check which schema the file was written with",
        ) from error
