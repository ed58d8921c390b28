"""Writes one task's share of an epoch, one bucket after another.

The writing stage of an epoch calls it, and so do overwrites and single appends. One writer is open
at a time, so its buffer bounds the task's memory. Files are synced while the next ones are written.

Source: Paimon `table/sink/TableWriteImpl.java`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import TracebackType
from typing import Protocol, cast

import pyarrow as pa

from stream_app.fileio.background_sync import BackgroundSync
from stream_app.fileio.file_io import FileIO
from stream_app.model.bucket_id import BucketId
from stream_app.model.files.bucket_change import BucketChange
from stream_app.model.files.index_file_meta import IndexManifestEntry
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.merge_errors import merge_errors
from stream_app.table.write.bucket_writer import BucketWriter, BucketWriterFactory


class BucketIndex(Protocol):
    """The index of one bucket's keys, beside the bucket's writer."""

    def add(self, rows: pa.RecordBatch) -> None:
        """Add the keys of rows (`_VALUE_KIND` and the table's columns)."""
        ...

    def finish(self) -> tuple[IndexManifestEntry, ...]:
        """Write the new keys, and return the DELETE of the old index file and the ADD of the new.

        Without a new key the result is empty.
        """
        ...


class BucketIndexFactory(Protocol):
    """A factory of bucket indexes."""

    def __call__(self, table: FileStoreTable, partition: bytes, bucket: int) -> BucketIndex:
        """Return the index of a bucket for one epoch."""
        ...


class TableWrite:
    """A task's writer, for use in ``with``. If the body fails, it deletes the files."""

    def __init__(
        self,
        table: FileStoreTable,
        make_bucket_writer: BucketWriterFactory,
        *,
        next_sequence_number: int,
        make_bucket_index: BucketIndexFactory | None = None,
        bucket_counts: Mapping[bytes, int] | None = None,
    ) -> None:
        """Begin a task's share.

        Args:
            bucket_counts: partition → its number of buckets, if that differs from the table's.
        """
        self._sync = BackgroundSync(table.file_io)
        self._table = replace(table, file_io=cast(FileIO, self._sync))
        self._make_bucket_writer = make_bucket_writer
        self._make_bucket_index = make_bucket_index
        self._bucket_counts = bucket_counts or {}
        self._index: BucketIndex | None = None
        self._next_sequence_number = next_sequence_number
        self._bucket_id: BucketId | None = None
        self._writer: BucketWriter | None = None
        self._changes: list[BucketChange] = []
        self.refused_batches: list[pa.RecordBatch] = []
        """Rows of finished buckets that could not be written, with `fill_unchanged.REASON`."""
        self.late_change_count = 0
        """The number of changes to finished buckets that came too late for their place."""

    def write(self, bucket_id: BucketId, rows: pa.RecordBatch) -> None:
        """Write rows (`_VALUE_KIND` and the table's columns) of a bucket.

        All rows of a bucket must be consecutive, because rows of another bucket finish it.
        """
        if bucket_id != self._bucket_id:
            self.finish_bucket()
            self._bucket_id = bucket_id
            self._writer = self._make_bucket_writer(
                self._table, *bucket_id, next_sequence_number=self._next_sequence_number
            )
            if self._make_bucket_index is not None:
                self._index = self._make_bucket_index(self._table, *bucket_id)
        assert self._writer is not None
        with merge_errors(self._table.paths.bucket_folder(*bucket_id)):
            self._writer.write(rows)
        if self._index is not None:
            self._index.add(rows)

    def begin_part(self, row_count: int) -> None:
        """Begin a newer part, whose sequence numbers exceed those of the last `row_count` rows."""
        self.finish_bucket()
        self._next_sequence_number += row_count

    def finish_bucket(self) -> None:
        """Finish the current bucket, so that its writer frees its memory."""
        if self._writer is not None and self._bucket_id is not None:
            with merge_errors(self._table.paths.bucket_folder(*self._bucket_id)):
                files = self._writer.prepare_commit()
            total_buckets = self._bucket_counts.get(self._bucket_id.partition)
            self._changes.append(files.bucket_change(*self._bucket_id, total_buckets))
            self.refused_batches += files.refused_batches
            self.late_change_count += files.late_change_count
            if self._index is not None:
                index_entries = (*self._changes[-1].index_entries, *self._index.finish())
                self._changes[-1] = replace(self._changes[-1], index_entries=index_entries)
        self._writer = self._bucket_id = None

    def prepare_commit(self) -> list[BucketChange]:
        """Finish, wait until each file is synced, and return a change for each bucket.

        If the body fails afterwards, the files are still deleted.

        Raises:
            OSError: a file could not be written.
        """
        self.finish_bucket()
        self._sync.wait()
        return list(self._changes)

    def __enter__(self) -> TableWrite:
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is not None:
            self._abort()
        self._sync.close()

    def _abort(self) -> None:
        if self._writer is not None:
            self._writer.abort()
        self._table.discard(self._changes)
