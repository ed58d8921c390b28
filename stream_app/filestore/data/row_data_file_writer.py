"""Data files of a table without a primary key: the table's columns and nothing else.

Written through `rolling_file_writer`. A row's sequence number is not in the file: it is the file's
first one plus the row's position.

Source: Paimon `io/RowDataFileWriter.java`.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from stream_app.filestore.data.rolling_file_writer import NewFiles, OpenDataFile
from stream_app.format.arrow_schema import arrow_schema
from stream_app.format.column_stats import stats_from_footer
from stream_app.model.data_file_meta import EMPTY_ROW, EMPTY_STATS, DataFileMeta
from stream_app.model.options.table_options import METADATA_STATS_MODE


class RowDataFile(OpenDataFile):
    """A file of rows in the order in which they came."""

    def __init__(self, made: NewFiles, first_sequence_number: int) -> None:
        self._first_sequence_number = first_sequence_number
        super().__init__(made, arrow_schema(made.schema.fields))

    def columns_of(self, rows: pa.Table) -> list[pa.ChunkedArray]:
        """All columns, as they are."""
        return list(rows.columns)

    def count(self, rows: pa.Table) -> None:
        """Nothing but the number of rows matters."""

    def describe(self, size: int, footer: Any) -> DataFileMeta:
        """Without a key.

        A column with NaN has no statistics at all, because Spark answers MIN and MAX from existing
        ones even with unknown bounds.
        """
        schema = self.made.schema
        value_stats, value_stats_columns = stats_from_footer(
            footer,
            [(column.name, column.data_type) for column in schema.fields],
            leave_out=self.nan_columns,
            mode=schema.core_options[METADATA_STATS_MODE],
        )
        return DataFileMeta(
            file_name=self.name,
            file_size=size,
            row_count=self.row_count,
            min_key=EMPTY_ROW,
            max_key=EMPTY_ROW,
            key_stats=EMPTY_STATS,
            value_stats=value_stats,
            value_stats_cols=value_stats_columns,
            min_sequence_number=self._first_sequence_number,
            max_sequence_number=self._first_sequence_number + self.row_count - 1,
            schema_id=schema.schema_id,
            level=self.made.level,
            creation_time_ms=self.made.creation_time_ms(),
            delete_row_count=0,
            file_source=self.made.source,
        )
