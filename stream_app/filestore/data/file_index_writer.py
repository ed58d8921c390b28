"""Builds the indexes of one data file, and stores them in its metadata or in a file beside it.

`rolling_file_writer` passes the rows of each row group. Deletes and older versions are indexed too,
because an index covers all rows of its file.

Source: Paimon `io/DataFileIndexWriter.java`, `io/DataFilePathFactory.java`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from stream_app.fileio.file_io import FileIO
from stream_app.format.file_index.container import Bodies, encode_file_index, java_order
from stream_app.format.file_index.file_index_registry import FILE_INDEX_KINDS
from stream_app.format.file_index.index_kind import IndexBuilder
from stream_app.model.files.data_file_meta import DataFileMeta
from stream_app.model.options.file_options import FILE_INDEX_IN_MANIFEST_THRESHOLD
from stream_app.model.options.indexed_columns import IndexedColumn, indexed_columns
from stream_app.model.schema.file_index_problems import can_index
from stream_app.model.schema.table_schema import TableSchema

INDEX_SUFFIX = ".index"


@dataclass(slots=True)
class FileIndexWriter:
    """The indexes of one data file.

    Attributes:
        builders: the builders by column and kind, in the order of the file.
        threshold: the length beyond which an index becomes a file.
    """

    file_io: FileIO
    path: str
    builders: dict[tuple[str, str], IndexBuilder]
    threshold: int

    def add(self, rows: pa.Table) -> None:
        """Add the next rows of the file."""
        for (column, _), builder in self.builders.items():
            for values in rows.column(column).chunks:
                builder.add(values)

    def add_to(self, file: DataFileMeta) -> DataFileMeta:
        """Return the file's metadata with its index, which it may have written as a file."""
        bodies: Bodies = {}
        for (column, kind), builder in self.builders.items():
            if (body := builder.body()) is not None:
                bodies.setdefault(column, {})[kind] = body
        if not bodies:
            return file
        index = encode_file_index(bodies)
        if len(index) <= self.threshold:
            return replace(file, embedded_index=index)
        self.file_io.write_bytes(self.path, index)
        return replace(file, extra_files=(*file.extra_files, self.path.rpartition("/")[2]))


def indexes_to_write(schema: TableSchema) -> tuple[IndexedColumn, ...]:
    """Return the indexes of new data files, in Java's order.

    It omits indexes of missing columns, or of types without index. Paimon refuses to write such a
    table, and readers do not need the index.
    """
    columns = {column.name: column.data_type for column in schema.fields}
    indexes = {
        (index.column, index.kind): index
        for index in indexed_columns(schema.options)
        if index.column in columns and can_index(index.kind, columns[index.column])
    }
    return tuple(indexes[pair] for pair in java_order(tuple(indexes)))


def file_index_writer(
    file_io: FileIO, data_path: str, schema: TableSchema, indexes: Sequence[IndexedColumn]
) -> FileIndexWriter | None:
    """Return the writer of a data file's indexes; None without indexes."""
    if not indexes:
        return None
    builders = {
        (index.column, index.kind): FILE_INDEX_KINDS[index.kind].make_builder(
            schema.fields.field(index.column).data_type, index.settings
        )
        for index in indexes
    }
    threshold = schema.core_options[FILE_INDEX_IN_MANIFEST_THRESHOLD]
    return FileIndexWriter(file_io, f"{data_path}{INDEX_SUFFIX}", builders, threshold)
