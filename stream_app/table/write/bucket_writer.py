"""The port of a task's writer of one bucket, which each kind of table implements.

Source: Paimon `utils/RecordWriter.java`, `operation/AbstractFileStoreWrite.java`.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

import numpy as np
import pyarrow as pa

from stream_app.arrow_buffers import Bools
from stream_app.mergetree.file_access import OldRows, WrittenFiles
from stream_app.model.files.bucket_change import BucketChange
from stream_app.model.options.core_options import CoreOptions
from stream_app.model.options.merge_options import IGNORE_DELETE, IGNORE_UPDATE_BEFORE
from stream_app.model.row_kind import RowKind
from stream_app.model.schema.table_schema import VALUE_KIND
from stream_app.table.file_store_table import FileStoreTable


class BucketWriter(Protocol):
    """A writer of one bucket's rows of one epoch."""

    def write(self, rows: pa.RecordBatch) -> None:
        """Add rows (`_VALUE_KIND` and the table's columns) in their order of arrival.

        Rows of a keyed table may omit values; see `model.schema.unchanged_values`.
        """
        ...

    def prepare_commit(self) -> WrittenFiles:
        """Finish, and return all files."""
        ...

    def abort(self) -> None:
        """Delete the files that `prepare_commit` has not returned."""
        ...


class MakesBucketWriter(Protocol):
    """A maker of bucket writers."""

    def __call__(
        self,
        table: FileStoreTable,
        partition: bytes,
        bucket: int,
        *,
        next_sequence_number: int,
        old_rows: OldRows | None = None,
    ) -> BucketWriter:
        """Return the writer of a bucket for one epoch.

        Args:
            next_sequence_number: a number greater than any in the bucket.
            old_rows: finds the values that rows omit; None: look in the newest snapshot. Kinds
                of tables whose rows omit no value ignore it.
        """
        ...


def ignored_kinds(options: CoreOptions) -> frozenset[RowKind]:
    """Return the row kinds that writers drop (``ignore-delete``, ``ignore-update-before``)."""
    ignored: set[RowKind] = set()
    if options[IGNORE_DELETE]:
        ignored = {RowKind.DELETE, RowKind.UPDATE_BEFORE}
    if options[IGNORE_UPDATE_BEFORE]:
        ignored.add(RowKind.UPDATE_BEFORE)
    return frozenset(ignored)


def accepted_mask(rows: pa.RecordBatch, ignored: Collection[RowKind]) -> Bools:
    """Return whether each row is of a kind that is not ignored: bool [n]."""
    return ~np.isin(rows.column(VALUE_KIND).to_numpy(), [int(kind) for kind in ignored])


def flushed_files(writer: BucketWriter, partition: bytes, bucket: int) -> BucketChange:
    """Flush a writer whose rows omit no value, and return the change of its bucket."""
    files = writer.prepare_commit()
    assert not files.refused, "whole rows are not refused"
    return change_of(files, partition, bucket)


def change_of(
    files: WrittenFiles, partition: bytes, bucket: int, total_buckets: int | None = None
) -> BucketChange:
    """Return the change of a bucket by its writer; see `BucketChange` for the arguments."""
    return BucketChange(
        partition=partition,
        bucket=bucket,
        total_buckets=total_buckets,
        added=files.data,
        changelog=files.changelog,
        index=files.index,
    )
