"""The port of a data file format, which `data_file_registry` lists by name.

`filestore.data` calls it with open files, and does not know which format a file has.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO, Protocol, TypeAlias

import pyarrow as pa

from stream_app.format.arrow_schema import stored_fields
from stream_app.format.column_stats import StatsSource
from stream_app.format.file_parts import PartChoice
from stream_app.model.options.core_options import CoreOptions
from stream_app.model.schema.data_type import DataField

FileStream: TypeAlias = BinaryIO | pa.NativeFile


@dataclass(frozen=True)
class DataFileRead:
    """The request to read a data file of any format.

    Attributes:
        system_fields: the fields that come first; with a key, the sequence number and the row kind.
        columns: the columns that follow, as in the file's schema; see `conformed_batch` for how a
            file may differ.
        row_count: the number of rows in the manifest.
        batch_rows_max: the maximum number of rows of a batch.
        part_choice: chooses the parts to read; None: all. Only Parquet has parts.
    """

    system_fields: Sequence[pa.Field]
    columns: Sequence[DataField]
    row_count: int
    batch_rows_max: int
    part_choice: PartChoice | None

    @property
    def fields(self) -> list[pa.Field]:
        """All columns, in the order of the batches."""
        return [*self.system_fields, *stored_fields(self.columns)]


class DataFileSink(Protocol):
    """A data file that is being written."""

    def write(self, rows: pa.Table) -> None:
        """Write one row group.

        Raises:
            UnsupportedTableError: the format cannot hold a value exactly.
        """
        ...

    def close(self) -> None:
        """Write the end of the file's content. The caller closes the file itself."""
        ...

    def statistics(self) -> StatsSource:
        """Return the statistics of the whole file, after `close`."""
        ...


class DataFileFormat(Protocol):
    """A reader and writer of one format's data files."""

    def open_sink(self, sink: FileStream, schema: pa.Schema, options: CoreOptions) -> DataFileSink:
        """Begin a file.

        Raises:
            UnsupportedTableError: stream_app does not write this format.
        """
        ...

    def numbered_batches(
        self, source: FileStream, request: DataFileRead
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield batches of a file's columns, and the position of each batch's first row.

        Raises:
            CorruptFileError: the bytes are not such a file, or contradict its metadata.
            UnsupportedTableError: the reader cannot read a value exactly.
            OSError: the file system refused; the file may be intact.
        """
        ...
