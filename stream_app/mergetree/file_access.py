"""The ports by which the LSM tree writes and reads its files.

`filestore` implements them and knows paths and formats, of which the tree knows neither.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from stream_app.arrow_buffers import Int64s
from stream_app.mergetree.lookup.key_lookup import RowsOfKeys
from stream_app.model.files.bucket_change import BucketChange
from stream_app.model.files.data_file_meta import DataFileMeta, FileSource
from stream_app.model.files.index_file_meta import IndexManifestEntry


@dataclass(frozen=True, slots=True)
class WrittenFiles:
    """The data files and changelog files that a flush or a rewrite has written.

    Attributes:
        refused_batches: rows that could not be written, with `fill_unchanged.REASON`.
        index_entries: the added and deleted index files.
        late_change_count: the number of changes that came too late for their place in a history.
    """

    added_files: tuple[DataFileMeta, ...]
    changelog_files: tuple[DataFileMeta, ...] = ()
    refused_batches: tuple[pa.RecordBatch, ...] = ()
    index_entries: tuple[IndexManifestEntry, ...] = ()
    late_change_count: int = 0

    def bucket_change(
        self, partition: bytes, bucket: int, total_buckets: int | None = None
    ) -> BucketChange:
        """Return the change of a bucket that gains these files; see `BucketChange`."""
        return BucketChange(
            partition=partition,
            bucket=bucket,
            total_buckets=total_buckets,
            added_files=self.added_files,
            changelog_files=self.changelog_files,
            index_entries=self.index_entries,
        )


class KeyValueFileWriter(Protocol):
    """A writer of sorted key-value batches, which begins a new file at the target size."""

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows, in key order over all calls."""
        ...

    def close(self) -> tuple[DataFileMeta, ...]:
        """Finish, and return the metadata of all written files; empty without rows."""
        ...

    def abort(self) -> None:
        """Delete all written files."""
        ...


class OldRowLookup(Protocol):
    """A lookup of the rows that the table has in a bucket."""

    def find(
        self, keys: pa.RecordBatch, columns: Sequence[str], new_files: Sequence[DataFileMeta]
    ) -> RowsOfKeys:
        """Return the rows of keys; see `lookup.key_lookup.KeyLookup.rows`.

        Args:
            columns: the columns that the rows must have besides the key.
            new_files: files of the bucket that no snapshot names yet.
        """
        ...


class HiddenChanges(Protocol):
    """The changes of a bucket with which no version of a row begins or ends.

    Attributes:
        late_change_count: the number of changes to which dropped hidden changes may have mattered.
    """

    late_change_count: int

    def count_late_changes(self, starts: pa.Array) -> None:
        """Add the changes that start when hidden changes may be dropped to `late_change_count`."""
        ...

    def find(self, keys: pa.RecordBatch, start_min: int | None) -> RowsOfKeys:
        """Return the hidden changes of keys, in the layout's schema.

        At one start of a key there may be several, of which the newest has the greatest sequence
        number.

        Args:
            keys: distinct source keys.
            start_min: the start before which a change may be absent, as its column's integer; None
                if no change is absent.
        """
        ...

    def add(self, rows: pa.RecordBatch) -> None:
        """Add changes, in order of key and start, at most one for each."""
        ...

    def finish(self) -> tuple[IndexManifestEntry, ...]:
        """Write the added changes, and return the added and deleted index files."""
        ...


class KeyValueFileReader(Protocol):
    """A reader of one bucket's files."""

    def read(self, file: DataFileMeta) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a data file in key order, in the layout's schema.

        Raises:
            CorruptFileError: the file is missing, unreadable, or contradicts its metadata.
        """
        ...


class RowPositionReader(Protocol):
    """A reader of one bucket's rows with their positions."""

    def read_with_positions(self, file: DataFileMeta) -> Iterator[tuple[pa.RecordBatch, Int64s]]:
        """Yield the live rows of a data file, and their positions in the file.

        Rows whose keys are not looked up may be missing.

        Returns:
            Batches of n rows in key order, in the layout's schema, and their positions from 0 on,
            int64 [n].

        Raises:
            CorruptFileError: as `KeyValueFileReader.read`.
        """
        ...


class KeyValueFileAccess(KeyValueFileReader, Protocol):
    """The files of one bucket."""

    def data_writer(self, *, level: int, file_source: FileSource) -> KeyValueFileWriter:
        """Return a writer of data files of one level, for unique and ascending keys."""
        ...

    def changelog_writer(self, *, level: int = 0) -> KeyValueFileWriter:
        """Return a writer of changelog files, in which keys may repeat in order of sequence.

        Args:
            level: the level of the accompanying data files, for the metadata; no reader needs it.
        """
        ...

    def delete(self, file: DataFileMeta) -> None:
        """Delete a file that no snapshot names."""
        ...
