"""Reads data files, also those that were written with an older schema of the table.

A column is found in a file by the name that it had in the file's schema, whose id says which
column of today it is. What the file's schema did not know yet is null.

Source: Paimon `io/KeyValueFileReaderFactory.java`, `schema/SchemaEvolutionUtil.java`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from stream_app.errors import CorruptFileError, StreamAppError, UnsupportedTableError
from stream_app.fileio.file_io import FileIO
from stream_app.format.key_value_parquet import conform, read_batches
from stream_app.model.data_file_meta import DataFileMeta
from stream_app.model.data_type import RowType
from stream_app.model.table_schema import SEQUENCE_NUMBER, VALUE_KIND, TableSchema

BATCH_ROWS = 65_536
_RESTORE = "restore the file from a backup, or roll the table back to a tag"


@dataclass(frozen=True)
class KeyValueFileReader:
    """Reads chosen columns of data files in one layout.

    Attributes:
        columns: the table's columns to read, in the layout's order.
        layout_schema: `_SEQUENCE_NUMBER`, `_VALUE_KIND` and `columns`, in Arrow.
        schema_of: gives the schema of a number.
    """

    file_io: FileIO
    columns: RowType
    layout_schema: pa.Schema
    schema_of: Callable[[int], TableSchema]
    batch_rows: int = BATCH_ROWS

    def read(self, path: str, file: DataFileMeta) -> Iterator[pa.RecordBatch]:
        """The rows of a file in its order.

        Raises:
            CorruptFileError: missing, of another size than its metadata says, or unreadable.
            UnsupportedTableError: no Parquet file.
        """
        if not file.file_name.endswith(".parquet"):
            raise UnsupportedTableError(
                f"data file {file.file_name} is no Parquet file",
                where=path,
                fix="compact the table with the engine that wrote it, after setting "
                "'file.format' = 'parquet'",
            )
        self._check_size(path, file)
        names_in_file = self._names_in_file(file.schema_id)
        stored = [name for name in names_in_file if name is not None]
        try:
            with self.file_io.open_input(path) as source:
                for batch in read_batches(source, stored, self.batch_rows):
                    yield conform(self._with_absent(batch, names_in_file), self.layout_schema)
        except CorruptFileError as error:
            raise CorruptFileError(error.what, where=path, fix=error.fix) from error

    def _check_size(self, path: str, file: DataFileMeta) -> None:
        try:
            size = self.file_io.size(path)
        except FileNotFoundError:
            raise CorruptFileError(
                "a data file that a snapshot names is missing", where=path, fix=_RESTORE
            ) from None
        if size != file.file_size:
            raise CorruptFileError(
                f"a data file has {size} bytes, its manifest says {file.file_size}",
                where=path,
                fix=_RESTORE,
            )

    def _names_in_file(self, schema_id: int) -> list[str | None]:
        """For each column of the layout its name in the file; None when the file lacks it."""
        try:
            written_with = self.schema_of(schema_id).fields
        except (FileNotFoundError, StreamAppError) as error:
            raise CorruptFileError(
                f"schema {schema_id}, with which a data file was written, cannot be read: {error}",
                fix="restore the file schema/schema-" + str(schema_id),
            ) from error
        name_of = {column.field_id: column.name for column in written_with}
        return [
            SEQUENCE_NUMBER,
            VALUE_KIND,
            *(name_of.get(column.field_id) for column in self.columns),
        ]

    def _with_absent(
        self, batch: pa.RecordBatch, names_in_file: list[str | None]
    ) -> pa.RecordBatch:
        if None not in names_in_file:
            return batch
        stored = iter(batch.columns)
        return pa.RecordBatch.from_arrays(
            [
                pa.nulls(batch.num_rows, field.type) if name is None else next(stored)
                for name, field in zip(names_in_file, self.layout_schema, strict=True)
            ],
            names=self.layout_schema.names,
        )
