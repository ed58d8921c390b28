"""Reads and writes the files of one bucket for the LSM tree.

Implements `mergetree.file_access`.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import count

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stream_app.clock import Clock, local_wall_clock_ms
from stream_app.fileio.file_io import FileIO
from stream_app.fileio.store_registry import path_beside
from stream_app.filestore.data.data_file_reader import DataFileReader
from stream_app.filestore.data.file_index_writer import indexes_to_write
from stream_app.filestore.data.rolling_file_writer import (
    KeyValueFile,
    NewFiles,
    RollingFileWriter,
    RowDataFile,
)
from stream_app.filestore.manifests.deletion_vector_files import BucketVectors
from stream_app.format.deletion_vector import live_rows
from stream_app.format.row_hash.row_texts import PlacedColumn
from stream_app.model.checksum.sum_conditions import why_unsummed
from stream_app.model.files.data_file_meta import DataFileMeta, FileSource
from stream_app.model.options.core_options import CoreOptions
from stream_app.model.options.file_options import (
    CHANGELOG_FILE_PREFIX,
    DATA_FILE_PREFIX,
    FILE_FORMAT,
)
from stream_app.model.options.option import Option
from stream_app.model.schema.table_schema import TableSchema


@dataclass(slots=True)
class BucketFiles:
    """The writers and readers of a bucket's files.

    Attributes:
        schema: the schema of new files.
        vectors: the deletion vectors, whose rows readers omit.
    """

    file_io: FileIO
    schema: TableSchema
    folder: str
    reader: DataFileReader
    clock: Clock
    vectors: BucketVectors = field(default_factory=dict)
    _writer_id: str = field(init=False, default_factory=lambda: str(uuid.uuid4()))
    _file_numbers: Iterator[int] = field(init=False, default_factory=count)

    def data_writer(self, *, level: int, file_source: FileSource) -> RollingFileWriter:
        """Return a writer of key-value data files."""
        options = self.schema.core_options.at_level(level)
        new_files = replace(
            self._new_files(DATA_FILE_PREFIX, level, file_source, options),
            indexes=indexes_to_write(self.schema),
        )
        return RollingFileWriter(new_files, lambda _: KeyValueFile(new_files))

    def changelog_writer(self, *, level: int = 0) -> RollingFileWriter:
        """Return a writer of changelog files, whose file source Paimon always records as APPEND."""
        new_files = self._new_files(CHANGELOG_FILE_PREFIX, level, FileSource.APPEND)
        new_files = replace(new_files, summed_columns=self._summed_columns)
        return RollingFileWriter(new_files, lambda _: KeyValueFile(new_files))

    def row_writer(
        self, *, first_sequence_number: int, file_source: FileSource
    ) -> RollingFileWriter:
        """Return a writer of data files without a key.

        Args:
            first_sequence_number: the sequence number of the first row, from which the others count
                on.
        """
        new_files = replace(
            self._new_files(DATA_FILE_PREFIX, 0, file_source),
            indexes=indexes_to_write(self.schema),
            summed_columns=self._summed_columns if file_source is FileSource.APPEND else (),
        )
        return RollingFileWriter(
            new_files, lambda rows: RowDataFile(new_files, first_sequence_number + rows)
        )

    def index_writer(self, prefix: str) -> RollingFileWriter:
        """Return a writer of index files that have the rows of a data file.

        Args:
            prefix: the beginning of their names.
        """
        data_files = self._new_files(DATA_FILE_PREFIX, 0, FileSource.APPEND)
        new_files = replace(data_files, new_name=lambda: prefix + data_files.new_name())
        return RollingFileWriter(new_files, lambda _: KeyValueFile(new_files))

    def read(self, file: DataFileMeta) -> Iterator[pa.RecordBatch]:
        """Yield the live rows of a file."""
        vector = self.vectors.get(file.file_name)
        if vector is None:
            return self.reader.read(self.path(file), file)
        return live_rows(self.reader.read_numbered(self.path(file), file), vector, file.row_count)

    def read_with_positions(
        self, file: DataFileMeta
    ) -> Iterator[tuple[pa.RecordBatch, npt.NDArray[np.int64]]]:
        """Yield the live rows of a file with their positions in it.

        Rows of skipped parts still count for positions and deletion vectors.
        """
        vector = self.vectors.get(file.file_name)
        for start, batch in self.reader.read_numbered(self.path(file), file):
            positions = np.arange(start, start + batch.num_rows, dtype=np.int64)
            if vector is None:
                yield batch, positions
            else:
                is_live = vector.keep_mask(start, batch.num_rows)
                yield batch.filter(pa.array(is_live)), positions[is_live]

    def delete(self, file: DataFileMeta) -> None:
        """Delete a file that no snapshot names."""
        path = self.path(file)
        for name in file.extra_files:
            self.file_io.delete(f"{path.rpartition('/')[0]}/{name}")
        self.file_io.delete(path)

    def path(self, file: DataFileMeta) -> str:
        """Return the path of a file."""
        if file.external_path is not None:
            return path_beside(self.folder, file.external_path)
        return f"{self.folder}/{file.file_name}"

    @property
    def _summed_columns(self) -> tuple[PlacedColumn, ...]:
        return () if why_unsummed(self.schema) else tuple(enumerate(self.schema.fields))

    def _new_files(
        self,
        prefix_option: Option[str],
        level: int,
        file_source: FileSource,
        options: CoreOptions | None = None,
    ) -> NewFiles:
        """Return the factory of a level's files, with the options or else the schema's own."""
        options = options or self.schema.core_options
        prefix, suffix = options[prefix_option], options[FILE_FORMAT]
        return NewFiles(
            file_io=self.file_io,
            schema=self.schema,
            options=options,
            folder=self.folder,
            new_name=lambda: f"{prefix}{self._writer_id}-{next(self._file_numbers)}.{suffix}",
            wall_clock_ms=lambda: local_wall_clock_ms(self.clock),
            level=level,
            file_source=file_source,
        )
