"""The ports by which the LSM tree writes and reads its files.

Implemented by `filestore`, which knows paths and formats; the tree knows neither.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from stream_app.mergetree.key_value_batch import Indices
from stream_app.mergetree.lookup.key_lookup import RowsOfKeys
from stream_app.model.files.data_file_meta import DataFileMeta, FileSource


@dataclass(frozen=True, slots=True)
class WrittenFiles:
    """The files that a flush or a rewrite made: data files, and changelog files.

    Attributes:
        refused: rows that could not be written, and why; see `fill_unchanged`.
    """

    data: tuple[DataFileMeta, ...]
    changelog: tuple[DataFileMeta, ...] = ()
    refused: tuple[pa.RecordBatch, ...] = ()


class KeyValueFileWriter(Protocol):
    """Writes sorted key-value batches; begins a new file at the target size."""

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows, in key order over all calls."""
        ...

    def close(self) -> tuple[DataFileMeta, ...]:
        """Finish; return the metadata of every written file, none when there were no rows."""
        ...

    def abort(self) -> None:
        """Delete all written files."""
        ...


class OldRows(Protocol):
    """Finds rows that the table has in a bucket."""

    def find(
        self, keys: pa.RecordBatch, columns: Sequence[str], newer: Sequence[DataFileMeta]
    ) -> RowsOfKeys:
        """The rows of some keys; see `lookup.key_lookup.KeyLookup.rows`.

        Args:
            columns: those that the rows must have, beside the key.
            newer: files of the bucket that no snapshot names yet.
        """
        ...


class KeyValueFileReader(Protocol):
    """Reads the files of one bucket."""

    def read(self, file: DataFileMeta) -> Iterator[pa.RecordBatch]:
        """The rows of a data file in key order, in the layout's schema.

        Raises:
            CorruptFileError: the file is missing, unreadable, or not what its metadata says.
        """
        ...


class RowPlaceReader(Protocol):
    """Reads the rows of one bucket with their places."""

    def read_places(self, file: DataFileMeta) -> Iterator[tuple[pa.RecordBatch, Indices]]:
        """The rows of a data file that no deletion vector marks, and their places in the file.

        Rows whose keys are not looked up may be missing.

        Returns:
            Batches of n rows in key order, in the layout's schema, and int64 [n], counted from 0.

        Raises:
            CorruptFileError: as `KeyValueFileReader.read`.
        """
        ...


class KeyValueFileAccess(KeyValueFileReader, Protocol):
    """The files of one bucket."""

    def data_writer(self, *, level: int, source: FileSource) -> KeyValueFileWriter:
        """A writer of data files of one level; keys must be unique and ascending."""
        ...

    def changelog_writer(self, *, level: int = 0) -> KeyValueFileWriter:
        """A writer of changelog files; keys may repeat, in order of sequence.

        Args:
            level: the level of the data files beside them, for the metadata. No reader needs it.
        """
        ...

    def delete(self, file: DataFileMeta) -> None:
        """Delete a file that no snapshot names."""
        ...
