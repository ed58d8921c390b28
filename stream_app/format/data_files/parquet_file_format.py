"""Reads and writes Parquet, the default of Paimon.

Source: Paimon `format/parquet/ParquetFileFormat.java`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq

from stream_app.format.casting.nested_arrays import without_hidden_nulls
from stream_app.format.column_stats import FooterStats
from stream_app.format.data_files.data_file_format import DataFileRead, FileStream
from stream_app.format.data_files.parquet_reader import check_footer, numbered_batches
from stream_app.format.data_files.parquet_writer import parquet_writer
from stream_app.format.data_files.variant_columns import with_whole_variants
from stream_app.model.options.core_options import CoreOptions


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
            yield start, with_whole_variants(batch, fields)
