"""Writes batches of one bucket into files of the target size.

The writer buffers rows into row groups. After each row group the file's actual size decides whether
to begin the next file. `KeyValueFile` and `RowDataFile` add the columns and metadata of their
kinds.

Source: Paimon `io/RollingFileWriterImpl.java`, `io/StatsCollectingSingleFileWriter.java`,
`io/KeyValueDataFileWriter.java`, `io/RowDataFileWriter.java`.
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stream_app.errors import MergeError, UnsupportedTableError
from stream_app.fileio.file_io import FileIO
from stream_app.filestore.data.file_index_writer import file_index_writer
from stream_app.format.arrow_schema import arrow_schema, key_value_file_schema
from stream_app.format.binary_row import serialize_arrow_row
from stream_app.format.column_stats import StatsSource, key_stats, value_stats
from stream_app.format.data_files.data_file_registry import DATA_FILE_FORMATS
from stream_app.format.row_hash.row_hashes import sum_of_changes, sum_of_rows
from stream_app.format.row_hash.row_texts import PlacedColumn
from stream_app.model.checksum.row_sum import NO_CHANGES, ChangeSum
from stream_app.model.files.data_file_meta import EMPTY_ROW, EMPTY_STATS, DataFileMeta, FileSource
from stream_app.model.options.core_options import CoreOptions
from stream_app.model.options.file_options import (
    DATA_FILE_THIN_MODE,
    FILE_FORMAT,
    METADATA_STATS_MODE,
)
from stream_app.model.options.indexed_columns import IndexedColumn
from stream_app.model.options.write_options import WRITE_BUFFER_SIZE
from stream_app.model.schema.data_type import FLOAT_ROOTS
from stream_app.model.schema.table_schema import (
    KEY_PREFIX,
    SEQUENCE_NUMBER,
    VALUE_KIND,
    TableSchema,
)

ROW_GROUP_BYTES_MAX = 32 << 20
"""Arrow bytes that a writer gathers before it encodes them. It holds them besides its buffer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewFiles:
    """The settings of all files of one writer.

    Attributes:
        options: the table's options, with those of the files' level.
        folder: the bucket's folder.
        new_name: returns the name of a new file.
        wall_clock_ms: returns the local wall clock as if it were UTC, which Paimon stores.
        indexes: the column indexes that each file has.
        summed_columns: the columns of the rows' checksum; empty without checksum.
    """

    file_io: FileIO
    schema: TableSchema
    options: CoreOptions
    folder: str
    new_name: Callable[[], str]
    wall_clock_ms: Callable[[], int]
    level: int
    file_source: FileSource
    indexes: tuple[IndexedColumn, ...] = ()
    summed_columns: tuple[PlacedColumn, ...] = ()


class OpenDataFile(ABC):
    """A file that is being written, with counts of its content."""

    def __init__(self, new_files: NewFiles, file_schema: pa.Schema) -> None:
        self.new_files = new_files
        self.name = new_files.new_name()
        self.row_count = 0
        self.nan_columns: set[str] = set()
        self._file_schema = file_schema
        self._path = f"{new_files.folder}/{self.name}"
        self._sink = new_files.file_io.open_output(self._path)
        self._writer = DATA_FILE_FORMATS[new_files.options[FILE_FORMAT]].open_sink(
            self._sink, file_schema, new_files.options
        )
        self._change_sum = NO_CHANGES if new_files.summed_columns else None
        self._index = file_index_writer(
            new_files.file_io, self._path, new_files.schema, new_files.indexes
        )

    @property
    def file_size(self) -> int:
        """The number of bytes written."""
        return int(self._sink.tell())

    def write(self, rows: pa.Table) -> None:
        """Write one row group."""
        table = pa.Table.from_arrays(self.columns_of(rows), schema=self._file_schema)
        try:
            self._writer.write(table)
        except UnsupportedTableError as error:
            raise UnsupportedTableError(error.problem, where=self._path, fix=error.fix) from error
        self.row_count += rows.num_rows
        for column in self.new_files.schema.fields:
            is_float = column.data_type.root in FLOAT_ROOTS
            if is_float and pc.any(pc.is_nan(rows.column(column.name))).as_py():
                self.nan_columns.add(column.name)
        if self._index is not None:
            self._index.add(rows)
        if self._change_sum is not None:
            self._change_sum += self.sum_of(rows)
        self.count(rows)

    def finish(self) -> DataFileMeta:
        """Close the file, sync it, and describe it."""
        self._writer.close()
        file_size = self.file_size
        self._sink.close()
        self.new_files.file_io.sync(self._path)
        file = replace(
            self.describe(file_size, self._writer.statistics()), change_sum=self._change_sum
        )
        return file if self._index is None else self._index.add_to(file)

    def abort(self) -> None:
        """Close without finishing, and delete. An error here must not hide the cause."""
        for close in (self._writer.close, self._sink.close):
            with contextlib.suppress(OSError, pa.ArrowException):
                close()
        self.new_files.file_io.delete(self._path)

    @abstractmethod
    def columns_of(self, rows: pa.Table) -> list[pa.ChunkedArray]:
        """Convert the columns of the rows to those of the file."""

    @abstractmethod
    def sum_of(self, rows: pa.Table) -> ChangeSum:
        """Return the checksum by which the rows change a table."""

    @abstractmethod
    def count(self, rows: pa.Table) -> None:
        """Count written rows."""

    @abstractmethod
    def describe(self, file_size: int, statistics: StatsSource) -> DataFileMeta:
        """Return the metadata of the whole file."""


@dataclass(slots=True)
class RollingFileWriter:
    """A writer of one bucket's batches.

    Attributes:
        open_file: begins a file; its argument is the number of rows in earlier files.
    """

    new_files: NewFiles
    open_file: Callable[[int], OpenDataFile]
    _batches: list[pa.RecordBatch] = field(init=False, default_factory=list)
    _batches_size: int = field(init=False, default=0)
    _current_file: OpenDataFile | None = field(init=False, default=None)
    _finished_files: list[DataFileMeta] = field(init=False, default_factory=list)

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows."""
        row_group_size = self._row_group_size
        if batch.nbytes > 2 * row_group_size and batch.num_rows > 1:
            half = batch.num_rows // 2
            self.write(batch.slice(0, half))
            self.write(batch.slice(half))
            return
        if batch.num_rows:
            self._batches.append(batch)
            self._batches_size += batch.nbytes
        if self._batches_size >= row_group_size:
            self._flush()

    def close(self) -> tuple[DataFileMeta, ...]:
        """Finish the last file, and return the metadata of all files."""
        self._flush()
        self._roll()
        return tuple(self._finished_files)

    def abort(self) -> None:
        """Delete all files."""
        self._batches = []
        if self._current_file is not None:
            self._current_file.abort()
            self._current_file = None
        for file in self._finished_files:
            for name in (file.file_name, *file.extra_files):
                self.new_files.file_io.delete(f"{self.new_files.folder}/{name}")
        self._finished_files = []

    @property
    def _row_group_size(self) -> int:
        schema = self.new_files.schema
        # Arrow takes two to five times the space of Parquet, so half the target size gives files
        # near it. An eighth of the buffer for each of two writers keeps a task near its budget.
        near_target = schema.target_file_size // 2
        buffer_share = schema.core_options[WRITE_BUFFER_SIZE] // 8
        return max(1, min(ROW_GROUP_BYTES_MAX, near_target, buffer_share))

    def _flush(self) -> None:
        if not self._batches:
            return
        rows = pa.Table.from_batches(self._batches)
        self._batches, self._batches_size = [], 0
        if self._current_file is None:
            self._current_file = self.open_file(
                sum(file.row_count for file in self._finished_files)
            )
        self._current_file.write(rows)
        if self._current_file.file_size >= self.new_files.schema.target_file_size:
            self._roll()

    def _roll(self) -> None:
        if self._current_file is not None:
            self._finished_files.append(self._current_file.finish())
            self._current_file = None


class RowDataFile(OpenDataFile):
    """A file of rows without a key, in their order of arrival.

    The file does not store sequence numbers: a row's is the first one plus the row's position.
    """

    def __init__(self, new_files: NewFiles, first_sequence_number: int) -> None:
        self._first_sequence_number = first_sequence_number
        super().__init__(new_files, arrow_schema(new_files.schema.fields))

    def columns_of(self, rows: pa.Table) -> list[pa.ChunkedArray]:
        """Return all columns unchanged."""
        return list(rows.columns)

    def sum_of(self, rows: pa.Table) -> ChangeSum:
        """Return the checksum of the rows, all of which are inserts."""
        return ChangeSum(sum_of_rows(rows, self.new_files.summed_columns))

    def count(self, rows: pa.Table) -> None:
        """Do nothing, because only the number of rows matters."""

    def describe(self, file_size: int, statistics: StatsSource) -> DataFileMeta:
        """Describe a file without a key.

        A column with NaN has no statistics at all, because Spark answers MIN and MAX from existing
        statistics, even if the bounds are unknown.
        """
        schema = self.new_files.schema
        of_values, value_stats_cols = value_stats(
            statistics,
            [(column.name, column.data_type) for column in schema.fields],
            without_stats=self.nan_columns,
            mode=schema.core_options[METADATA_STATS_MODE],
        )
        return DataFileMeta(
            file_name=self.name,
            file_size=file_size,
            row_count=self.row_count,
            min_key=EMPTY_ROW,
            max_key=EMPTY_ROW,
            key_stats=EMPTY_STATS,
            value_stats=of_values,
            value_stats_cols=value_stats_cols,
            min_sequence_number=self._first_sequence_number,
            max_sequence_number=self._first_sequence_number + self.row_count - 1,
            schema_id=schema.schema_id,
            level=self.new_files.level,
            creation_time_ms=self.new_files.wall_clock_ms(),
            delete_row_count=0,
            file_source=self.new_files.file_source,
        )


class KeyValueFile(OpenDataFile):
    """A file of key-value batches in key order."""

    def __init__(self, new_files: NewFiles) -> None:
        self._schema = new_files.schema
        self._key_type = new_files.schema.key_type
        self._is_thin = new_files.schema.core_options[DATA_FILE_THIN_MODE]
        self._delete_row_count = 0
        self._sequence_range: tuple[int, int] | None = None
        self._min_key = self._max_key = b""
        super().__init__(new_files, key_value_file_schema(new_files.schema, is_thin=self._is_thin))

    def columns_of(self, rows: pa.Table) -> list[pa.ChunkedArray]:
        """Return the columns, after a copy of the key unless the file is thin.

        Raises:
            MergeError: a merged row lacks a value of a NOT NULL column.
        """
        for column in self._schema.fields:
            if not column.data_type.nullable and rows.column(column.name).null_count:
                raise self._missing_column_error(rows, column.name)
        keys = [] if self._is_thin else [rows.column(name) for name in self._key_type.names]
        return [*keys, *rows.columns]

    def _missing_column_error(self, rows: pa.Table, name: str) -> MergeError:
        first_row = rows.filter(pc.is_null(rows.column(name))).slice(0, 1)
        key = ", ".join(f"{key} = {first_row.column(key)[0]}" for key in self._key_type.names)
        return MergeError(
            f"column {name!r} is NOT NULL, and the merged row of {key} has no value in it: a "
            "delete took it back",
            fix=f"let the column have none: stream-app alter TABLE --nullable {name}",
        )

    def sum_of(self, rows: pa.Table) -> ChangeSum:
        """Return the checksum of the changes by their kinds."""
        return sum_of_changes(rows, self.new_files.summed_columns)

    def count(self, rows: pa.Table) -> None:
        """Count deletes and sequence numbers; note the first and the last key."""
        for kinds in rows.column(VALUE_KIND).chunks:
            self._delete_row_count += int(np.count_nonzero(kinds.to_numpy() & 1))
        for chunk in rows.column(SEQUENCE_NUMBER).chunks:
            sequence_numbers = chunk.to_numpy()
            low, high = self._sequence_range or (int(sequence_numbers[0]), int(sequence_numbers[0]))
            self._sequence_range = (
                min(low, int(sequence_numbers.min())),
                max(high, int(sequence_numbers.max())),
            )
        keys, types = rows.select(self._key_type.names).columns, self._key_type.types
        self._min_key = self._min_key or serialize_arrow_row(keys, types, 0)
        self._max_key = serialize_arrow_row(keys, types, rows.num_rows - 1)

    def describe(self, file_size: int, statistics: StatsSource) -> DataFileMeta:
        """Describe a file with statistics of the key and of all columns."""
        prefix = "" if self._is_thin else KEY_PREFIX
        assert self._sequence_range is not None
        of_values, value_stats_cols = value_stats(
            statistics,
            [(column.name, column.data_type) for column in self._schema.fields],
            without_bounds=self.nan_columns,
            mode=self._schema.core_options[METADATA_STATS_MODE],
        )
        return DataFileMeta(
            file_name=self.name,
            file_size=file_size,
            row_count=self.row_count,
            min_key=self._min_key,
            max_key=self._max_key,
            key_stats=key_stats(
                statistics, [(prefix + key.name, key.data_type) for key in self._key_type]
            ),
            value_stats=of_values,
            value_stats_cols=value_stats_cols,
            min_sequence_number=self._sequence_range[0],
            max_sequence_number=self._sequence_range[1],
            schema_id=self._schema.schema_id,
            level=self.new_files.level,
            creation_time_ms=self.new_files.wall_clock_ms(),
            delete_row_count=self._delete_row_count,
            file_source=self.new_files.file_source,
        )
