"""Writes data files as Parquet that Paimon's Java readers understand.

`arrow_schema.key_value_file_schema` defines the columns of a file with a key.

Source: Paimon `format/parquet/ParquetSchemaConverter.java`, `ParquetFileFormat.java`.
"""

from __future__ import annotations

import io
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from stream_app.format.parquet.footer import HeldBackFooter, column_descriptions, footer_of
from stream_app.model.options.core_options import CoreOptions
from stream_app.model.options.file_options import FILE_COMPRESSION, FILE_COMPRESSION_ZSTD_LEVEL
from stream_app.variants.layout import METADATA, is_variant

_CODECS = {
    "zstd": "zstd",
    "none": "none",
    "uncompressed": "none",
    "gzip": "gzip",
    "lz4": "lz4",
    "snappy": "snappy",
}
_PAGE_SIZE = 1 << 20


def parquet_writer(
    sink: BinaryIO | pa.NativeFile, schema: pa.Schema, options: CoreOptions
) -> pq.ParquetWriter:
    """Return the writer of one data file. The caller decides on row groups and closes it."""
    has_int96 = any(_is_timestamp(field.type, "ns") for field in schema)
    codec = _CODECS[options[FILE_COMPRESSION].lower()]
    writer_class = _Int96Writer if has_int96 else pq.ParquetWriter
    return writer_class(
        sink,
        schema,
        version="2.6",
        data_page_version="1.0",
        data_page_size=_PAGE_SIZE,
        compression=codec,
        compression_level=options[FILE_COMPRESSION_ZSTD_LEVEL] if codec == "zstd" else None,
        use_dictionary=_dictionary_columns(schema),
        column_encoding=_encodings(schema),
        # Statistics feed the manifest; see column_stats.
        write_statistics=True,
        # Java writes DECIMAL(p ≤ 18) as INT32 or INT64.
        store_decimal_as_integer=True,
        # Java reads TIMESTAMP(7..9) only as INT96.
        use_deprecated_int96_timestamps=has_int96,
        # The footer needs no Arrow schema, because the file's own types are complete.
        store_schema=False,
        # This is Java's default. Otherwise a flipped bit in a page may give a wrong value.
        write_page_checksum=True,
        # Write no page index: with one, Paimon 1.4 in Java skips values and misreads packed
        # differences.
        write_page_index=False,
    )


def _dictionary_columns(schema: pa.Schema) -> list[str] | bool:
    """Return the columns that get a dictionary, because their values repeat; False without any."""
    repeating = [f"{field.name}.{METADATA}" for field in schema if is_variant(field.type)]
    repeating += [
        field.name
        for field in schema
        if pa.types.is_string(field.type)
        or pa.types.is_binary(field.type)
        or pa.types.is_int8(field.type)
        or pa.types.is_int16(field.type)
    ]
    return repeating or False


def _encodings(schema: pa.Schema) -> dict[str, str]:
    """Return the columns to store as differences, which shrinks keys, sequence numbers and times.

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
    """A writer that stores timestamps as Java does: fine ones as INT96, coarse ones as INT64.

    pyarrow writes all or no timestamps of a file as INT96. So this writer stores the coarse ones as
    plain INT64, and describes them in the footer as in a file without INT96.
    """

    def __init__(self, sink: BinaryIO | pa.NativeFile, schema: pa.Schema, **settings: Any) -> None:
        self._stored_schema = pa.schema([_stored_field(field) for field in schema])
        self._sink = HeldBackFooter(sink)
        self._columns = timestamp_descriptions(schema)
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


def timestamp_descriptions(schema: pa.Schema) -> dict[int, bytes]:
    """Return column index → Parquet's description of coarse timestamps."""
    indices = [
        index
        for index, field in enumerate(schema)
        if pa.types.is_timestamp(field.type) and field.type.unit != "ns"
    ]
    sink = io.BytesIO()
    coarse_schema = pa.schema([schema.field(index) for index in indices])
    pq.write_metadata(coarse_schema, sink, version="2.6", store_schema=False)
    return dict(zip(indices, column_descriptions(footer_of(sink.getvalue())), strict=True))
