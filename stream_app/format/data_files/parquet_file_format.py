"""Reads and writes Parquet, the default of Paimon.

A file may have the two members of a VARIANT in another order, or typed columns beside them
(shredded). Readers get one form.

Source: Paimon `format/parquet/ParquetFileFormat.java`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from stream_app.format.casting.nested_arrays import without_hidden_nulls
from stream_app.format.column_stats import FooterStats
from stream_app.format.data_files.damaged_files import damaged_file_error
from stream_app.format.data_files.data_file_format import DataFileRead, FileStream
from stream_app.format.data_files.parquet_reader import check_footer, numbered_batches
from stream_app.format.data_files.parquet_writer import parquet_writer
from stream_app.model.options.core_options import CoreOptions
from stream_app.variants.layout import METADATA, TYPED_VALUE, VALUE, VARIANT_TYPE, is_variant
from stream_app.variants.shredded import whole_variants
from stream_app.variants.variant_reader import MalformedVariantError


class ParquetSink:
    """A writer of a Parquet file. Implements `DataFileSink`."""

    def __init__(self, sink: FileStream, schema: pa.Schema, options: CoreOptions) -> None:
        self._writer = parquet_writer(sink, schema, options)

    def write(self, rows: pa.Table) -> None:
        """Write one row group, without the nulls that null ROWs and VARIANTs hide."""
        self._writer.write_table(without_hidden_nulls(rows), row_group_size=rows.num_rows)

    def close(self) -> None:
        """See `DataFileSink.close`."""
        self._writer.close()

    def statistics(self) -> FooterStats:
        """Return the statistics of the footer, which `close` has written."""
        return FooterStats(self._writer.writer.metadata)


class ParquetFileFormat:
    """The format Parquet. Implements `DataFileFormat`."""

    def open_sink(self, sink: FileStream, schema: pa.Schema, options: CoreOptions) -> ParquetSink:
        """See `DataFileFormat.open_sink`."""
        return ParquetSink(sink, schema, options)

    def numbered_batches(
        self, source: FileStream, request: DataFileRead
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Check the footer, then yield batches of the chosen row groups and pages."""
        fields = request.fields

        def check(footer: pq.FileMetaData) -> None:
            check_footer(footer, fields, request.row_count)

        names = [field.name for field in fields]
        batches = numbered_batches(
            source, names, request.batch_rows_max, check=check, part_choice=request.part_choice
        )
        for start, batch in batches:
            yield start, _with_whole_variants(batch, fields)


def _with_whole_variants(batch: pa.RecordBatch, fields: Sequence[pa.Field]) -> pa.RecordBatch:
    """Return the batch with only VARIANT's two members in columns of this type.

    Raises:
        CorruptFileError: the parts of a value contradict each other.
    """
    for index, field in enumerate(fields):
        column = batch.column(index)
        if is_variant(field.type) and not is_variant(column.type):
            batch = batch.set_column(index, field.name, _as_variant(column, field.name))
    return batch


def _as_variant(column: pa.Array, name: str) -> pa.Array:
    arrow_type = column.type
    if not pa.types.is_struct(arrow_type) or arrow_type.get_field_index(METADATA) < 0:
        return column  # another type, which the caller refuses
    try:
        if arrow_type.get_field_index(TYPED_VALUE) >= 0:
            return whole_variants(column)
    except MalformedVariantError as error:
        raise damaged_file_error(f"column {name!r}: {error}") from error
    members = [column.field(part) for part in (VALUE, METADATA)]
    fields = [pa.field(member.name, pa.binary()) for member in VARIANT_TYPE]
    return pa.StructArray.from_arrays(members, fields=fields, mask=column.is_null())
