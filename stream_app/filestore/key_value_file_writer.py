"""Rolling writer of data and changelog files, with the metadata that manifests want.

Called by the LSM tree through `mergetree.file_access`. Rows gather into row groups; after each
row group the file's real size decides whether the next file begins.

Source: Paimon `io/KeyValueDataFileWriter.java`, `io/RollingFileWriterImpl.java`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from stream_app.fileio.file_io import FileIO
from stream_app.format.arrow_schema import key_value_file_schema
from stream_app.format.binary_row import serialize_arrow_row
from stream_app.format.column_stats import key_stats, stats_from_footer
from stream_app.format.key_value_parquet import parquet_writer
from stream_app.model.data_file_meta import DataFileMeta, FileSource
from stream_app.model.data_type import FLOAT_ROOTS
from stream_app.model.table_schema import KEY_PREFIX, SEQUENCE_NUMBER, VALUE_KIND, TableSchema

ROW_GROUP_BYTES_MAX = 32 << 20
"""Arrow bytes that gather before they are encoded: what a writer holds besides its buffer."""


@dataclass(slots=True)
class RollingKeyValueFileWriter:
    """Writes key-value batches of one bucket to as many files as their size asks for.

    Attributes:
        folder: the bucket's folder.
        new_name: gives names of new files.
        creation_time_ms: gives the local wall clock as if it were UTC, as Paimon stores it.
    """

    file_io: FileIO
    schema: TableSchema
    folder: str
    new_name: Callable[[], str]
    creation_time_ms: Callable[[], int]
    level: int
    source: FileSource
    _gathered: list[pa.RecordBatch] = field(default_factory=list)
    _gathered_bytes: int = 0
    _open: _OpenFile | None = None
    _done: list[DataFileMeta] = field(default_factory=list)

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows."""
        limit = self._row_group_bytes
        if batch.nbytes > 2 * limit and batch.num_rows > 1:
            half = batch.num_rows // 2
            self.write(batch.slice(0, half))
            self.write(batch.slice(half))
            return
        if batch.num_rows:
            self._gathered.append(batch)
            self._gathered_bytes += batch.nbytes
        if self._gathered_bytes >= limit:
            self._flush()

    def close(self) -> tuple[DataFileMeta, ...]:
        """Finish the last file; metadata of all files."""
        self._flush()
        self._roll()
        return tuple(self._done)

    def abort(self) -> None:
        """Delete all files."""
        self._gathered = []
        if self._open is not None:
            self._open.abort()
            self._open = None
        for file in self._done:
            self.file_io.delete(f"{self.folder}/{file.file_name}")
        self._done = []

    @property
    def _row_group_bytes(self) -> int:
        options = self.schema.core_options
        # Arrow takes two to five times the room of Parquet: half the target ends near it. An
        # eighth of the buffer, for each of two writers, keeps a task near its budget.
        near_target = options.integer("target-file-size") // 2
        of_buffer = options.integer("write-buffer-size") // 8
        return max(1, min(ROW_GROUP_BYTES_MAX, near_target, of_buffer))

    def _flush(self) -> None:
        if not self._gathered:
            return
        rows = pa.Table.from_batches(self._gathered)
        self._gathered, self._gathered_bytes = [], 0
        if self._open is None:
            self._open = _OpenFile(self)
        self._open.write(rows)
        if self._open.size >= self.schema.core_options.integer("target-file-size"):
            self._roll()

    def _roll(self) -> None:
        if self._open is not None:
            self._done.append(self._open.finish())
            self._open = None


class _OpenFile:
    """One file that is being written, and what must be counted on the way."""

    def __init__(self, rolling: RollingKeyValueFileWriter) -> None:
        self._rolling = rolling
        self._schema = rolling.schema
        options = rolling.schema.core_options
        self._keys = rolling.schema.key_type
        self._thin = options.boolean("data-file.thin-mode")
        self._file_schema = key_value_file_schema(rolling.schema, thin=self._thin)
        self._name = rolling.new_name()
        self._path = f"{rolling.folder}/{self._name}"
        self._sink = rolling.file_io.open_output(self._path)
        self._writer: pq.ParquetWriter = parquet_writer(self._sink, self._file_schema, options)
        self._rows = 0
        self._deletes = 0
        self._sequence_range: tuple[int, int] | None = None
        self._min_key = b""
        self._last_rows: pa.Table | None = None
        self._nan_columns: set[str] = set()

    @property
    def size(self) -> int:
        """Bytes written so far."""
        return int(self._sink.tell())

    def write(self, rows: pa.Table) -> None:
        """Write one row group."""
        columns = [] if self._thin else [rows.column(name) for name in self._keys.names]
        table = pa.Table.from_arrays([*columns, *rows.columns], schema=self._file_schema)
        self._writer.write_table(table, row_group_size=rows.num_rows)
        self._count(rows)

    def finish(self) -> DataFileMeta:
        """Close the file, make it safe, describe it."""
        self._writer.close()
        size = self.size
        self._sink.close()
        self._rolling.file_io.sync(self._path)
        return self._describe(size, self._writer.writer.metadata)

    def abort(self) -> None:
        """Close without an end, and delete; what fails at that must not hide why."""
        for close in (self._writer.close, self._sink.close):
            with contextlib.suppress(OSError, pa.ArrowException):
                close()
        self._rolling.file_io.delete(self._path)

    def _count(self, rows: pa.Table) -> None:
        self._rows += rows.num_rows
        kinds = rows.column(VALUE_KIND)
        self._deletes += pc.sum(pc.bit_wise_and(kinds, pa.scalar(1, pa.int8()))).as_py()
        ends: dict[str, int] = pc.min_max(rows.column(SEQUENCE_NUMBER)).as_py()
        low, high = self._sequence_range or (ends["min"], ends["max"])
        self._sequence_range = (min(low, ends["min"]), max(high, ends["max"]))
        if not self._min_key:
            self._min_key = self._key(rows, 0)
        self._max_key = self._key(rows, rows.num_rows - 1)
        for column in self._schema.fields:
            is_float = column.data_type.root in FLOAT_ROOTS
            if is_float and pc.any(pc.is_nan(rows.column(column.name))).as_py():
                self._nan_columns.add(column.name)

    def _key(self, rows: pa.Table, row: int) -> bytes:
        one = rows.select(self._keys.names).slice(row, 1).combine_chunks()
        arrays = [column.chunk(0) for column in one.columns]
        return serialize_arrow_row(arrays, self._keys.types, 0)

    def _describe(self, size: int, footer: Any) -> DataFileMeta:
        prefix = "" if self._thin else KEY_PREFIX
        assert self._sequence_range is not None
        value_stats, value_stats_columns = stats_from_footer(
            footer,
            [(column.name, column.data_type) for column in self._schema.fields],
            skip=self._nan_columns,
            mode=self._schema.core_options.text("metadata.stats-mode"),
        )
        return DataFileMeta(
            file_name=self._name,
            file_size=size,
            row_count=self._rows,
            min_key=self._min_key,
            max_key=self._max_key,
            key_stats=key_stats(footer, [(prefix + key.name, key.data_type) for key in self._keys]),
            value_stats=value_stats,
            value_stats_cols=value_stats_columns,
            min_sequence_number=self._sequence_range[0],
            max_sequence_number=self._sequence_range[1],
            schema_id=self._schema.schema_id,
            level=self._rolling.level,
            creation_time_ms=self._rolling.creation_time_ms(),
            delete_row_count=self._deletes,
            file_source=self._rolling.source,
        )
