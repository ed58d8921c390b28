"""Joins the columns of files that hold the same rows (``data-evolution.enabled``).

1. Each column comes from the files that have it, the newest first. Columns with the same files are
   read together.
2. Of several files, a row's value is that of the newest one that has it.
3. The columns are put side by side, in batches as small as the smallest of them.

Source: Paimon `operation/DataEvolutionSplitRead.java`, `operation/BlobFallbackRecordReader.java`,
`reader/DataEvolutionFileReader.java`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stream_app.errors import RESTORE_FIX, CorruptFileError, UnsupportedTableError
from stream_app.filestore.data.bucket_files import BucketFiles
from stream_app.filestore.data.data_file_reader import DataFileReader
from stream_app.format.data_files.blob_file_format import BlobIndex, blob_windows, read_blob_index
from stream_app.format.deletion_vector import live_rows
from stream_app.model.files.data_file_meta import DataFileMeta
from stream_app.model.files.joined_files import JoinedFiles, first_row_number, holds_blobs
from stream_app.model.schema.data_type import DataField, RowType

_NONE = -1
_Owners = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class JoinedFilesReader:
    """A reader of groups of files of one bucket.

    Attributes:
        bucket_files: the access to single files, of which it may skip parts. It reads all rows of
            joined files, so that their columns stay side by side.
    """

    bucket_files: BucketFiles

    def read(self, group: JoinedFiles) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a group that are not deleted.

        Raises:
            CorruptFileError: a file cannot be read, or no file has a column's value of some row.
            UnsupportedTableError: as `DataFileReader.read_numbered`.
        """
        if len(group.files) == 1:
            yield from self.bucket_files.read(group.files[0])
            return
        vector = self.bucket_files.vectors.get(group.anchor.file_name)
        if vector is None:
            yield from (batch for _, batch in self._join_columns(group))
        else:
            yield from live_rows(self._join_columns(group), vector, group.row_count)

    def _join_columns(self, group: JoinedFiles) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield first row → batch of a group of files, each of which has other columns."""
        reader = self.bucket_files.reader
        fields_by_files: dict[tuple[DataFileMeta, ...], list[DataField]] = {}
        for column in reader.columns:
            files_with_column = tuple(
                file for file in group.files if reader.has_column(file, column)
            )
            fields_by_files.setdefault(_files_to_open(files_with_column, group), []).append(column)
        streams = [
            self._read_columns(group, files, RowType(tuple(columns)))
            for files, columns in fields_by_files.items()
        ]
        start = 0
        names = reader.layout_schema.names
        for batches in _zip_batches(streams, group.row_count):
            values_by_name = {
                name: values
                for batch in batches
                for name, values in zip(batch.schema.names, batch.columns, strict=True)
            }
            joined_columns = [values_by_name[name] for name in names]
            yield start, pa.RecordBatch.from_arrays(joined_columns, schema=reader.layout_schema)
            start += batches[0].num_rows

    def _read_columns(
        self, group: JoinedFiles, files: Sequence[DataFileMeta], columns: RowType
    ) -> Iterator[pa.RecordBatch]:
        """Yield all rows of columns that the same files have."""
        whole_reader = self.bucket_files.reader
        fields = [whole_reader.layout_schema.field(name) for name in columns.names]
        reader = replace(
            whole_reader, columns=columns, layout_schema=pa.schema(fields), part_filter=None
        )
        if not files:
            for count in _batch_sizes(group.row_count, reader.batch_rows_max):
                nulls = [pa.nulls(count, field.type) for field in fields]
                yield pa.RecordBatch.from_arrays(nulls, schema=reader.layout_schema)
        elif any(map(holds_blobs, files)):
            _check_all_blobs(files, columns)
            yield from self._read_blobs(group, files, reader)
        else:
            owners = _owners(group, files, {}, columns)
            yield from self._read_from_owners(group, files, owners, reader)

    def _read_from_owners(
        self,
        group: JoinedFiles,
        files: Sequence[DataFileMeta],
        owners: _Owners,
        reader: DataFileReader,
    ) -> Iterator[pa.RecordBatch]:
        later_starts = np.flatnonzero(np.diff(owners)) + 1
        bounds = [0, *later_starts.tolist(), group.row_count]
        for start, end in pairwise(bounds):
            file = files[owners[start]]
            skipped_count = group.first_row_number + start - first_row_number(file)
            for batch_start, batch in reader.read_numbered(self.bucket_files.path(file), file):
                low = max(skipped_count - batch_start, 0)
                high = min(skipped_count + end - start - batch_start, batch.num_rows)
                if low < high:
                    yield batch.slice(low, high - low)

    def _read_blobs(
        self, group: JoinedFiles, files: Sequence[DataFileMeta], reader: DataFileReader
    ) -> Iterator[pa.RecordBatch]:
        """Yield a column of BLOBs; skip records of older files if a newer file has the row."""
        with ExitStack() as open_files:
            sources = [open_files.enter_context(self._open(file, reader)) for file in files]
            blob_indexes: dict[int, BlobIndex] = {}
            for file_index, (file, source) in enumerate(zip(files, sources, strict=True)):
                with reader.errors_at(self.bucket_files.path(file)):
                    blob_indexes[file_index] = read_blob_index(source, file.row_count)
            owners = _owners(group, files, blob_indexes, reader.columns)
            row_indices = np.arange(group.row_count)
            offsets = np.array([group.first_row_number - first_row_number(file) for file in files])
            indices_in_files = row_indices + offsets[owners]
            sizes = np.zeros(group.row_count, np.int64)
            for file_index, index in blob_indexes.items():
                is_owned = owners == file_index
                sizes[is_owned] = index.sizes()[indices_in_files[is_owned]]
            for start, end in blob_windows(sizes, reader.batch_rows_max):
                window_owners, window_indices = owners[start:end], indices_in_files[start:end]
                # Index 0 of the parts is null, for rows without a file: `order` points there.
                parts = [pa.nulls(1, pa.binary())]
                order = np.zeros(end - start, np.int64)
                for file_index in np.unique(window_owners[window_owners != _NONE]).tolist():
                    is_owned = window_owners == file_index
                    with reader.errors_at(self.bucket_files.path(files[file_index])):
                        values = blob_indexes[file_index].values(
                            sources[file_index], window_indices[is_owned]
                        )
                    order[is_owned] = sum(map(len, parts)) + np.arange(len(values))
                    parts.append(values)
                values = pa.concat_arrays(parts).take(pa.array(order))
                yield pa.RecordBatch.from_arrays([values], schema=reader.layout_schema)

    def _open(self, file: DataFileMeta, reader: DataFileReader) -> pa.NativeFile:
        path = self.bucket_files.path(file)
        reader.check_size(path, file)
        return reader.file_io.open_input(path)


def _check_all_blobs(files: Sequence[DataFileMeta], columns: RowType) -> None:
    other_files = [file.file_name for file in files if not holds_blobs(file)]
    if other_files:
        raise UnsupportedTableError(
            f"BLOBs of {', '.join(columns.names)} are in files of BLOBs, and in {other_files[0]}",
            fix="read the table with Paimon's own readers",
        )


def _files_to_open(files: tuple[DataFileMeta, ...], group: JoinedFiles) -> tuple[DataFileMeta, ...]:
    """Return the newest files, up to the first that has all rows."""
    for file_index, file in enumerate(files):
        if not holds_blobs(file) and file.row_count == group.row_count:
            return files[: file_index + 1]
    return files


def _owners(
    group: JoinedFiles,
    files: Sequence[DataFileMeta],
    blob_indexes: dict[int, BlobIndex],
    columns: RowType,
) -> _Owners:
    """Return the index of the file with each row's value: int32 [n].

    It is -1 for a row of which each file says that an older file has the value.

    Raises:
        CorruptFileError: a row is in no file, or in two of the same age.
    """
    owners = np.full(group.row_count, _NONE, np.int32)
    is_in_a_file = np.zeros(group.row_count, np.bool_)
    ages = np.full(group.row_count, _NONE, np.int64)
    for file_index, file in enumerate(files):
        start = first_row_number(file) - group.first_row_number
        rows = slice(start, start + file.row_count)
        if (ages[rows] == file.max_sequence_number).any():
            raise CorruptFileError(
                f"{file.file_name} has {', '.join(columns.names)} of rows that another file has "
                f"too, both with sequence number {file.max_sequence_number}: none is the newer one",
                fix="write these rows again. PyPaimon 2.1 makes such files when it updates BLOBs "
                "that an earlier write has cut into several files (blob.target-file-size)",
            )
        ages[rows] = file.max_sequence_number
        is_free = owners[rows] == _NONE
        if file_index in blob_indexes:
            is_free &= ~blob_indexes[file_index].is_older
        owners[rows][is_free] = file_index
        is_in_a_file[rows] = True
    if not is_in_a_file.all():
        missing_row = group.first_row_number + int(np.flatnonzero(~is_in_a_file)[0])
        raise CorruptFileError(
            f"no file has {', '.join(columns.names)} of row number {missing_row}",
            fix="roll the table back to a snapshot or tag before this one",
        )
    return owners


def _batch_sizes(row_count: int, size_max: int) -> Iterator[int]:
    for start in range(0, row_count, size_max):
        yield min(size_max, row_count - start)


def _zip_batches(
    streams: Sequence[Iterator[pa.RecordBatch]], row_count: int
) -> Iterator[list[pa.RecordBatch]]:
    """Yield batches of all streams with the same rows; `row_count` rows together.

    Raises:
        CorruptFileError: a stream ends before.
    """
    current_batches: list[pa.RecordBatch | None] = [None] * len(streams)
    remaining_rows = row_count
    while remaining_rows:
        batches = [
            batch if batch is not None and batch.num_rows else _next_rows(stream)
            for batch, stream in zip(current_batches, streams, strict=True)
        ]
        count = min(batch.num_rows for batch in batches)
        yield [batch.slice(0, count) for batch in batches]
        current_batches = [batch.slice(count) for batch in batches]
        remaining_rows -= count


def _next_rows(stream: Iterator[pa.RecordBatch]) -> pa.RecordBatch:
    for batch in stream:
        if batch.num_rows:
            return batch
    raise CorruptFileError(
        "a data file has fewer rows than its manifest says",
        fix=RESTORE_FIX,
    )
