"""Files of one bucket in memory, with the metadata that real ones have; and metadata alone.

`MemoryFiles` implements `mergetree.file_access`: it refuses what a reader of real files would be
hurt by (keys out of order, a key twice in a data file), and forgets deleted files.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stream_app.errors import CorruptFileError
from stream_app.format.arrow_schema import arrow_schema
from stream_app.format.binary_row import key_order, serialize_arrow_row, serialize_row
from stream_app.mergetree.key_value_batch import KeyValueLayout
from stream_app.model.files.data_file_meta import EMPTY_STATS, DataFileMeta, FileSource
from stream_app.model.schema.data_type import DataType, parse_columns
from stream_app.model.schema.table_schema import SEQUENCE_NUMBER, VALUE_KIND

INT_KEY = (parse_columns("k INT NOT NULL").fields[0].data_type,)


def a_layout(columns: str, *keys: str, **settings: Any) -> KeyValueLayout:
    """Return a table's layout: `a_layout("k INT NOT NULL, v STRING", "k")`."""
    return KeyValueLayout(
        schema=pa.schema(
            [
                pa.field(SEQUENCE_NUMBER, pa.int64(), nullable=False),
                pa.field(VALUE_KIND, pa.int8(), nullable=False),
                *arrow_schema(parse_columns(columns)),
            ]
        ),
        key_names=keys,
        **settings,
    )


int_key_of = key_order(INT_KEY)
"""The order of keys of one INT column."""


def a_file(name: str = "f", **fields: Any) -> DataFileMeta:
    """Return the metadata of a file of a table whose key is one INT; `keys=(1, 9)` are its ends."""
    first, last = fields.pop("keys", (1, 9))
    number = fields.pop("sequence", 0)
    defaults: dict[str, Any] = {
        "file_size": 100,
        "row_count": 1,
        "min_sequence_number": number,
        "max_sequence_number": number,
        "schema_id": 0,
        "level": 0,
        "delete_row_count": 0,
    }
    return DataFileMeta(
        file_name=name,
        min_key=serialize_row([first], INT_KEY),
        max_key=serialize_row([last], INT_KEY),
        key_stats=EMPTY_STATS,
        value_stats=EMPTY_STATS,
        **{**defaults, **fields},
    )


@dataclass
class MemoryFiles:
    """The files of one bucket.

    Attributes:
        rows_per_file: a writer begins a new file at this many rows.
        read_rows: rows of a batch when a file is read.
        open_writers: writers that were neither closed nor aborted.
    """

    layout: KeyValueLayout
    key_types: tuple[DataType, ...]
    rows_per_file: int = 1000
    read_rows: int = 1000
    stored_batches: dict[str, pa.RecordBatch] = field(default_factory=dict)
    file_count: int = 0
    open_writers: int = 0

    def data_writer(self, *, level: int, file_source: FileSource) -> MemoryFileWriter:
        self.open_writers += 1
        return MemoryFileWriter(self, level, file_source, unique_keys=True)

    def changelog_writer(self, *, level: int = 0) -> MemoryFileWriter:
        self.open_writers += 1
        return MemoryFileWriter(self, level, FileSource.APPEND, unique_keys=False)

    def read(self, file: DataFileMeta) -> Iterator[pa.RecordBatch]:
        rows = self.stored_batches.get(file.file_name)
        if rows is None:
            raise CorruptFileError(f"no file {file.file_name}")
        for start in range(0, rows.num_rows, self.read_rows):
            yield rows.slice(start, self.read_rows)

    def read_with_positions(
        self, file: DataFileMeta
    ) -> Iterator[tuple[pa.RecordBatch, npt.NDArray[np.int64]]]:
        start = 0
        for batch in self.read(file):
            yield batch, np.arange(start, start + batch.num_rows)
            start += batch.num_rows

    def delete(self, file: DataFileMeta) -> None:
        del self.stored_batches[file.file_name]

    def key_of(self, data: bytes) -> tuple[object, ...]:
        return key_order(self.key_types)(data)

    def store(
        self, name: str, rows: pa.RecordBatch, level: int, file_source: FileSource
    ) -> DataFileMeta:
        """Keep rows (in key order) as a file."""
        assert name not in self.stored_batches, name
        self.stored_batches[name] = rows
        numbers = rows.column(SEQUENCE_NUMBER).to_pylist()
        return DataFileMeta(
            file_name=name,
            file_size=rows.nbytes,
            row_count=rows.num_rows,
            min_key=self.key_at(rows, 0),
            max_key=self.key_at(rows, rows.num_rows - 1),
            key_stats=EMPTY_STATS,
            value_stats=EMPTY_STATS,
            min_sequence_number=min(numbers),
            max_sequence_number=max(numbers),
            schema_id=0,
            level=level,
            delete_row_count=sum(kind & 1 for kind in rows.column(VALUE_KIND).to_pylist()),
            file_source=file_source,
        )

    def key_at(self, rows: pa.RecordBatch, index: int) -> bytes:
        columns = [rows.column(name) for name in self.layout.key_names]
        return serialize_arrow_row(columns, self.key_types, index)

    def rows_of(self, files: Sequence[DataFileMeta]) -> list[dict[str, Any]]:
        """Return all rows of files, one file after the other."""
        return [row for file in files for row in self.stored_batches[file.file_name].to_pylist()]


@dataclass
class MemoryFileWriter:
    """A writer whose rows become files when it is closed."""

    files: MemoryFiles
    level: int
    file_source: FileSource
    unique_keys: bool
    gathered_batches: list[pa.RecordBatch] = field(default_factory=list)
    done: list[DataFileMeta] = field(default_factory=list)
    last_key: Any = None
    has_ended: bool = False

    def write(self, batch: pa.RecordBatch) -> None:
        assert batch.schema.equals(self.files.layout.schema), batch.schema
        for row in range(batch.num_rows):
            key = self.files.key_of(self.files.key_at(batch, row))
            if self.last_key is not None:
                assert key >= self.last_key, f"{key} after {self.last_key}"
                assert key > self.last_key or not self.unique_keys, f"{key} twice"
            self.last_key = key
        self.gathered_batches.append(batch)

    def close(self) -> tuple[DataFileMeta, ...]:
        self._end()
        rows = pa.Table.from_batches(self.gathered_batches, self.files.layout.schema)
        rows_max = self.files.rows_per_file if self.unique_keys else max(1, rows.num_rows)
        for start in range(0, rows.num_rows, rows_max):
            part = rows.slice(start, rows_max).combine_chunks().to_batches()[0]
            self.files.file_count += 1
            name = f"{'data' if self.unique_keys else 'changelog'}-{self.files.file_count}"
            self.done.append(self.files.store(name, part, self.level, self.file_source))
        return tuple(self.done)

    def abort(self) -> None:
        self._end()
        for file in self.done:
            self.files.delete(file)
        self.gathered_batches, self.done = [], []

    def _end(self) -> None:
        self.files.open_writers -= not self.has_ended
        self.has_ended = True
