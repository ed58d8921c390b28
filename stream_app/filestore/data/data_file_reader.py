"""Reads data files of any of the table's schemas.

The reader locates a column by its name in the file's schema, and maps it to a current column by
field id. Columns that the file's schema lacks are null.

Source: Paimon `io/KeyValueFileReaderFactory.java`, `operation/RawFileSplitRead.java`,
`schema/SchemaEvolutionUtil.java`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from stream_app.errors import RESTORE_FIX, CorruptFileError, StreamAppError, UnsupportedTableError
from stream_app.fileio.file_io import FileIO
from stream_app.filestore.data.part_filter import PartFilter
from stream_app.format.arrow_schema import stored_fields
from stream_app.format.casting.arrays import CastError
from stream_app.format.casting.rules import can_be_read_as, read_as
from stream_app.format.data_files.data_file_format import DataFileRead
from stream_app.format.data_files.data_file_registry import DATA_FILE_FORMATS, format_of_file
from stream_app.format.data_files.file_batches import conformed_batch
from stream_app.format.file_parts import PartChoice
from stream_app.mergetree.file_access import KeyValueFileReader
from stream_app.model.files.data_file_meta import DataFileMeta, FileSource
from stream_app.model.schema.data_type import DataField, RowType
from stream_app.model.schema.table_schema import SEQUENCE_NUMBER, TableSchema

READ_BATCH_ROWS_MAX = 65_536
_READ_AGAIN = (
    "read again: the snapshot may have expired during the read, and a longer "
    "'snapshot.time-retained' or a tag prevents that; else restore the file from a backup, or "
    "roll the table back to a tag"
)
_CHANGE_BACK = "give the column a type again that fits its values (ALTER TABLE), then read again"


@dataclass(frozen=True)
class DataFileReader:
    """A reader of columns of data files in one layout.

    Attributes:
        columns: the table's columns to read, in the layout's order.
        layout_schema: `columns` in Arrow; with a primary key, after `_SEQUENCE_NUMBER` and
            `_VALUE_KIND`.
        schema_of: returns the schema with a given number.
        part_filter: chooses the parts of files to read; None: all.
        changelog_prefix: with ``sequence.snapshot-ordering``, the name prefix of changelog files.
            Rows of other appended files have their snapshot's number, which the file's metadata
            has. None if all rows have their own numbers.
    """

    file_io: FileIO
    columns: RowType
    layout_schema: pa.Schema
    schema_of: Callable[[int], TableSchema]
    batch_rows_max: int = READ_BATCH_ROWS_MAX
    part_filter: PartFilter | None = None
    changelog_prefix: str | None = None

    def read(self, path: str, file: DataFileMeta) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a file in order; it raises the errors of `read_numbered`."""
        return (batch for _, batch in self.read_numbered(path, file))

    def read_numbered(self, path: str, file: DataFileMeta) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield batches of rows, with the position of each batch's first row in the file.

        Raises:
            CorruptFileError: the file is missing, unreadable, or its size differs from its
                metadata.
            UnsupportedTableError: the format is unknown, or a column's new type cannot hold a
                value.
        """
        file_format = format_of_file(file.file_name)
        if file_format is None:
            raise UnsupportedTableError(
                f"data file {file.file_name} is not one of {', '.join(DATA_FILE_FORMATS)}",
                where=path,
                fix="compact the table with the engine that wrote it, after setting "
                "'file.format' = 'parquet'",
            )
        self.check_size(path, file)
        with self.errors_at(path):
            stored_columns = self._stored_columns(file)
            columns = [column for column in stored_columns if column]
            file_read = DataFileRead(
                system_fields=self._system_fields,
                columns=columns,
                row_count=file.row_count,
                batch_rows_max=self.batch_rows_max,
                part_choice=self._parts_of_file(stored_columns),
            )
            with self.file_io.open_input(path) as source:
                for start, batch in file_format.numbered_batches(source, file_read):
                    rows = self._with_current_types(batch, stored_columns)
                    yield start, self._with_sequence_numbers(rows, file)

    @contextmanager
    def errors_at(self, path: str) -> Iterator[None]:
        """Add the path of a file to the errors about it."""
        try:
            yield
        except StreamAppError as error:
            raise type(error)(error.problem, where=path, fix=error.fix) from error

    def has_column(self, file: DataFileMeta, column: DataField) -> bool:
        """Return whether a file holds a current column.

        Raises: as `read_numbered`.
        """
        return self._stored_column(self._columns_by_id(file), column) is not None

    def _with_sequence_numbers(self, batch: pa.RecordBatch, file: DataFileMeta) -> pa.RecordBatch:
        if self.changelog_prefix is None or file.file_name.startswith(self.changelog_prefix):
            return batch
        if file.file_source is None:
            raise UnsupportedTableError(
                f"data file {file.file_name} does not say whether it was appended or compacted, "
                "and sequence.snapshot-ordering cannot order its rows",
                fix="write the rows into a new table: the option is for tables that begin with it",
            )
        index = batch.schema.get_field_index(SEQUENCE_NUMBER)
        if index < 0 or file.file_source is not FileSource.APPEND:
            return batch
        sequence_number = pa.scalar(file.min_sequence_number, pa.int64())
        return batch.set_column(
            index, batch.schema.field(index), pa.repeat(sequence_number, batch.num_rows)
        )

    def _parts_of_file(self, stored_columns: Sequence[DataField | None]) -> PartChoice | None:
        if self.part_filter is None:
            return None
        return self.part_filter.of_file(zip(self.columns, stored_columns, strict=True))

    @property
    def _system_fields(self) -> list[pa.Field]:
        return list(self.layout_schema)[: len(self.layout_schema) - len(self.columns)]

    def check_size(self, path: str, file: DataFileMeta) -> None:
        """Check that a file exists, with the size that its manifest says.

        Raises:
            CorruptFileError: the file is missing, or has another size.
        """
        try:
            size = self.file_io.size(path)
        except FileNotFoundError:
            raise CorruptFileError(
                "a data file that a snapshot names is missing", where=path, fix=_READ_AGAIN
            ) from None
        if size != file.file_size:
            raise CorruptFileError(
                f"a data file has {size} bytes, its manifest says {file.file_size}",
                where=path,
                fix=RESTORE_FIX,
            )

    def _columns_by_id(self, file: DataFileMeta) -> dict[int, DataField]:
        """Return the columns of a file by id: all of its schema's, or those in `write_cols`."""
        schema_id = file.schema_id
        try:
            schema_columns = self.schema_of(schema_id).fields
        except (FileNotFoundError, StreamAppError) as error:
            raise CorruptFileError(
                f"schema {schema_id}, with which a data file was written, cannot be read: {error}",
                fix=f"restore the file schema/schema-{schema_id}",
            ) from error
        return {
            column.field_id: column
            for column in schema_columns
            if file.write_cols is None or column.name in file.write_cols
        }

    def _stored_columns(self, file: DataFileMeta) -> list[DataField | None]:
        """Return the stored column for each column to read; None when the file lacks it."""
        by_id = self._columns_by_id(file)
        return [self._stored_column(by_id, column) for column in self.columns]

    @staticmethod
    def _stored_column(
        column_by_id: Mapping[int, DataField], column: DataField
    ) -> DataField | None:
        stored_column = column_by_id.get(column.field_id)
        if stored_column is None or can_be_read_as(stored_column.data_type, column.data_type):
            return stored_column
        raise UnsupportedTableError(
            f"a file holds column {column.name!r} as {stored_column.data_type.as_nullable()}, "
            f"which Paimon does not turn into {column.data_type.as_nullable()}",
            fix=_CHANGE_BACK,
        )

    def _with_current_types(
        self, batch: pa.RecordBatch, stored_columns: Sequence[DataField | None]
    ) -> pa.RecordBatch:
        """Convert values to the type in the file's schema, then to the current type."""
        system_fields = self._system_fields
        stored_schema = stored_fields(column for column in stored_columns if column)
        batch = conformed_batch(batch, pa.schema([*system_fields, *stored_schema]))
        system_columns = batch.columns[: len(system_fields)]
        stored_values = iter(batch.columns[len(system_fields) :])
        fields = list(self.layout_schema)[len(system_fields) :]
        columns = [
            pa.nulls(batch.num_rows, field.type)
            if stored_column is None
            else _cast(next(stored_values), stored_column, column)
            for stored_column, column, field in zip(
                stored_columns, self.columns, fields, strict=True
            )
        ]
        return pa.RecordBatch.from_arrays([*system_columns, *columns], schema=self.layout_schema)


def _cast(values: pa.Array, stored_column: DataField, column: DataField) -> pa.Array:
    try:
        return read_as(values, stored_column.data_type, column.data_type)
    except CastError as error:
        raise UnsupportedTableError(
            f"a file holds column {column.name!r} as {stored_column.data_type.as_nullable()}: "
            f"{error}",
            fix=_CHANGE_BACK,
        ) from error


@dataclass(frozen=True, slots=True)
class FilteredRowsReader:
    """A reader that filters rows before their versions are merged.

    Implements `KeyValueFileReader`.

    Attributes:
        condition: a condition on only key columns, so all versions of a key pass or none does.
    """

    file_reader: KeyValueFileReader
    condition: pc.Expression

    def read(self, file: DataFileMeta) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a file that pass, in order."""
        return (batch.filter(self.condition) for batch in self.file_reader.read(file))
