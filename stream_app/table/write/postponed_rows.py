"""Writes a table's rows into ``bucket-postpone`` (``bucket = -2``); a compaction assigns buckets.

Files hold rows in their order of arrival, unsorted and unmerged. A compaction writes them again, so
the rows of a key need an order among their files. Paimon orders the files of one writer, whose
names contain it, by their creation; files of different writers have no order. So each key
permanently belongs to one key share, and in an epoch one task writes a key share.

Source: Paimon `postpone/PostponeBucketFileStoreWrite.java`, `postpone/PostponeBucketWriter.java`,
`table/sink/PostponeBucketRowKeyExtractor.java`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from stream_app.errors import MergeError
from stream_app.mergetree.file_access import (
    KeyValueFileAccess,
    KeyValueFileWriter,
    OldRowLookup,
    WrittenFiles,
)
from stream_app.mergetree.key_value_batch import rows_at
from stream_app.mergetree.write.mergeable_rows import check_mergeable
from stream_app.mergetree.write.row_kinds import accepted_mask, ignored_kinds, with_kinds_of
from stream_app.model.bucket_id import POSTPONED
from stream_app.model.files.data_file_meta import FileSource
from stream_app.model.options.file_options import DATA_FILE_PREFIX
from stream_app.model.options.merge_options import ROWKIND_FIELD
from stream_app.model.schema.table_schema import TableSchema
from stream_app.model.schema.unchanged_values import UNCHANGED
from stream_app.planning.buckets.postponed_order import WRITER
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.write.bucket_assigner import BucketRows, key_buckets, rows_by_bucket
from stream_app.table.write.table_write import TableWrite

SHARE_COUNT = 4
"""The number of key shares, and so of the tasks that write a partition in an epoch."""


@dataclass(frozen=True, slots=True)
class PostponedShareAssigner:
    """The assigner of rows to key shares, which take the place of buckets.

    Implements `BucketAssigner`.
    """

    schema: TableSchema

    @property
    def bucket_count(self) -> int:
        """The number of key shares."""
        return SHARE_COUNT

    @property
    def keeps_order(self) -> bool:
        """Always True, because one writer keeps the order of a key's rows."""
        return True

    def assign(self, rows: pa.RecordBatch) -> Iterator[BucketRows]:
        """Group rows by partition and by key share, the hash of the key modulo `SHARE_COUNT`."""
        return rows_by_bucket(
            rows, self.schema, key_buckets(rows, self.schema, SHARE_COUNT), SHARE_COUNT
        )


class PostponedWrite(TableWrite):
    """A `TableWrite` of key shares, whose files are all in ``bucket-postpone``."""

    def finish_bucket(self) -> None:
        """Finish a key share, whose changes name ``bucket-postpone`` as their bucket."""
        change_count = len(self._changes)
        super().finish_bucket()
        self._changes[change_count:] = [
            replace(change, bucket=POSTPONED, total_buckets=POSTPONED)
            for change in self._changes[change_count:]
        ]


@dataclass(slots=True)
class PostponedWriter:
    """The writer of a partition's key share for one epoch. Implements `BucketWriter`.

    Attributes:
        table: the table, with the key share's file names.
        next_sequence_number: the sequence number of the first row, which orders the files of
            stream_app's writers.
    """

    table: FileStoreTable
    file_access: KeyValueFileAccess
    next_sequence_number: int
    _writer: KeyValueFileWriter | None = field(init=False, default=None)

    def write(self, rows: pa.RecordBatch) -> None:
        """See `BucketWriter.write`.

        Raises:
            MergeError: a row omits values, or is a retraction that the merge engine does not
                accept.
        """
        schema, options = self.table.schema, self.table.options
        if UNCHANGED in rows.schema.names:
            raise MergeError(
                "a row omits unchanged values, and bucket-postpone has no older row with them",
                fix="let the source send whole rows, or use a table with another 'bucket' than -2",
            )
        if options[ROWKIND_FIELD]:
            rows = with_kinds_of(rows, options[ROWKIND_FIELD])
        if kinds := ignored_kinds(options):
            rows = rows_at(rows, np.flatnonzero(accepted_mask(rows, kinds)))
        if not rows.num_rows:
            return
        check_mergeable(rows, schema.refusal_rules, schema.trimmed_primary_keys)
        if self._writer is None:
            self._writer = self.file_access.data_writer(level=0, file_source=FileSource.APPEND)
        first_sequence_number = self.next_sequence_number
        self.next_sequence_number += rows.num_rows
        sequence_numbers = pa.array(
            np.arange(first_sequence_number, self.next_sequence_number, dtype=np.int64)
        )
        self._writer.write(
            pa.RecordBatch.from_arrays(
                [sequence_numbers, *rows.columns], schema=self.table.layout().schema
            )
        )

    def prepare_commit(self) -> WrittenFiles:
        """Close the current file; no row is merged or looked up."""
        files = () if self._writer is None else self._writer.close()
        self._writer = None
        return WrittenFiles(files)

    def abort(self) -> None:
        """See `BucketWriter.abort`."""
        if self._writer is not None:
            self._writer.abort()


def postponed_writer(
    table: FileStoreTable,
    partition: bytes,
    bucket: int,
    *,
    next_sequence_number: int,
    old_row_lookup: OldRowLookup | None = None,
) -> PostponedWriter:
    """Return the writer of a key share; see `BucketWriterFactory`."""
    del old_row_lookup
    options = table.schema.options
    prefix = f"{table.options[DATA_FILE_PREFIX]}-u-{WRITER}-s-{bucket}-w-"
    schema = replace(table.schema, options={**options, DATA_FILE_PREFIX.key: prefix})
    bucket_files = replace(table, schema=schema).bucket_files(partition, POSTPONED)
    return PostponedWriter(table, bucket_files, next_sequence_number)
