"""Data and changelog files of a table with a primary key, with the metadata that manifests want.

Written through `rolling_file_writer`.

Source: Paimon `io/KeyValueDataFileWriter.java`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stream_app.errors import MergeError
from stream_app.filestore.data.rolling_file_writer import NewFiles, OpenDataFile
from stream_app.format.arrow_schema import key_value_file_schema
from stream_app.format.binary_row import serialize_arrow_row
from stream_app.format.column_stats import key_stats, stats_from_footer
from stream_app.model.data_file_meta import DataFileMeta
from stream_app.model.options.table_options import DATA_FILE_THIN_MODE, METADATA_STATS_MODE
from stream_app.model.schema.table_schema import KEY_PREFIX, SEQUENCE_NUMBER, VALUE_KIND


class KeyValueFile(OpenDataFile):
    """A file of key-value batches; they come in key order."""

    def __init__(self, made: NewFiles) -> None:
        self._schema = made.schema
        self._keys = made.schema.key_type
        self._thin = made.schema.core_options[DATA_FILE_THIN_MODE]
        self._deletes = 0
        self._sequence_range: tuple[int, int] | None = None
        self._min_key = self._max_key = b""
        super().__init__(made, key_value_file_schema(made.schema, thin=self._thin))

    def columns_of(self, rows: pa.Table) -> list[pa.ChunkedArray]:
        """The key once more in front, unless the file is thin.

        Raises:
            MergeError: a merged row lacks a value of a NOT NULL column.
        """
        for column in self._schema.fields:
            if not column.data_type.nullable and rows.column(column.name).null_count:
                raise self._lacking(rows, column.name)
        keys = [] if self._thin else [rows.column(name) for name in self._keys.names]
        return [*keys, *rows.columns]

    def _lacking(self, rows: pa.Table, name: str) -> MergeError:
        first = rows.filter(pc.is_null(rows.column(name))).slice(0, 1)
        key = ", ".join(f"{key} = {first.column(key)[0]}" for key in self._keys.names)
        return MergeError(
            f"column {name!r} is NOT NULL, and the merged row of {key} has no value in it: a "
            "delete took it back",
            fix=f"let the column have none: stream-app alter TABLE --nullable {name}",
        )

    def count(self, rows: pa.Table) -> None:
        """Deletes, sequence numbers, and the first and the last key."""
        for kinds in rows.column(VALUE_KIND).chunks:
            self._deletes += int(np.count_nonzero(kinds.to_numpy() & 1))
        for chunk in rows.column(SEQUENCE_NUMBER).chunks:
            numbers = chunk.to_numpy()
            low, high = self._sequence_range or (int(numbers[0]), int(numbers[0]))
            self._sequence_range = min(low, int(numbers.min())), max(high, int(numbers.max()))
        keys, types = rows.select(self._keys.names).columns, self._keys.types
        self._min_key = self._min_key or serialize_arrow_row(keys, types, 0)
        self._max_key = serialize_arrow_row(keys, types, rows.num_rows - 1)

    def describe(self, size: int, footer: Any) -> DataFileMeta:
        """With statistics of the key and of all columns."""
        prefix = "" if self._thin else KEY_PREFIX
        assert self._sequence_range is not None
        value_stats, value_stats_columns = stats_from_footer(
            footer,
            [(column.name, column.data_type) for column in self._schema.fields],
            skip=self.nan_columns,
            mode=self._schema.core_options[METADATA_STATS_MODE],
        )
        return DataFileMeta(
            file_name=self.name,
            file_size=size,
            row_count=self.row_count,
            min_key=self._min_key,
            max_key=self._max_key,
            key_stats=key_stats(footer, [(prefix + key.name, key.data_type) for key in self._keys]),
            value_stats=value_stats,
            value_stats_cols=value_stats_columns,
            min_sequence_number=self._sequence_range[0],
            max_sequence_number=self._sequence_range[1],
            schema_id=self._schema.schema_id,
            level=self.made.level,
            creation_time_ms=self.made.creation_time_ms(),
            delete_row_count=self._deletes,
            file_source=self.made.source,
        )
