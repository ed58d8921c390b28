"""The port of a task's writer of one bucket, which each kind of table implements.

Source: Paimon `utils/RecordWriter.java`, `operation/AbstractFileStoreWrite.java`.
"""

from __future__ import annotations

from typing import Protocol

import pyarrow as pa

from stream_app.mergetree.file_access import OldRowLookup, WrittenFiles
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


class BucketWriterFactory(Protocol):
    """A factory of bucket writers."""

    def __call__(
        self,
        table: FileStoreTable,
        partition: bytes,
        bucket: int,
        *,
        next_sequence_number: int,
        old_row_lookup: OldRowLookup | None = None,
    ) -> BucketWriter:
        """Return the writer of a bucket for one epoch.

        Args:
            next_sequence_number: a number greater than any in the bucket.
            old_row_lookup: finds the values that rows omit; None to look in the latest snapshot.
                Kinds of tables whose rows omit no value ignore it.
        """
        ...
