"""Parquet, the default of Paimon.

Source: Paimon `format/parquet/ParquetFileFormat.java`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from stream_app.format.arrow_schema import stored_fields
from stream_app.format.column_stats import FooterStats
from stream_app.format.data_files.data_file_format import RowGroups, Source
from stream_app.format.key_value_parquet import check_footer, parquet_writer, placed_batches
from stream_app.model.options.core_options import CoreOptions
from stream_app.model.schema.data_type import DataField


class ParquetSink:
    """Implements `DataFileSink`."""

    def __init__(self, sink: Source, schema: pa.Schema, options: CoreOptions) -> None:
        self._writer = parquet_writer(sink, schema, options)

    def write(self, rows: pa.Table) -> None:
        """See `DataFileSink.write`."""
        self._writer.write_table(rows, row_group_size=rows.num_rows)

    def close(self) -> None:
        """See `DataFileSink.close`."""
        self._writer.close()

    def statistics(self) -> FooterStats:
        """See `DataFileSink.statistics`."""
        return FooterStats(self._writer.writer.metadata)


class ParquetFiles:
    """Implements `DataFileFormat`."""

    def open_sink(self, sink: Source, schema: pa.Schema, options: CoreOptions) -> ParquetSink:
        """See `DataFileFormat.open_sink`."""
        return ParquetSink(sink, schema, options)

    def placed_batches(
        self,
        source: Source,
        system: Sequence[pa.Field],
        columns: Sequence[DataField],
        row_count: int,
        batch_rows: int,
        row_groups: RowGroups | None,
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """See `DataFileFormat.placed_batches`."""

        fields = [*system, *stored_fields(columns)]

        def checked(footer: pq.FileMetaData) -> Sequence[int]:
            check_footer(footer, fields, row_count)
            # For a single group the manifest's statistics suffice.
            if row_groups is None or footer.num_row_groups == 1:
                return range(footer.num_row_groups)
            return row_groups(footer)

        return placed_batches(source, [field.name for field in fields], batch_rows, checked)
