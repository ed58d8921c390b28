"""Makes the writer of one bucket, in a task.

Source: Paimon `operation/KeyValueFileStoreWrite.java#createWriter`,
`operation/BaseAppendFileStoreWrite.java#createWriter`.
"""

from __future__ import annotations

from typing import Protocol

import pyarrow as pa

from stream_app.mergetree.file_access import WrittenFiles
from stream_app.mergetree.merge_tree_writer import MergeTreeWriter
from stream_app.mergetree.write_buffer import SortBufferWriteBuffer
from stream_app.model.bucket_change import BucketChange
from stream_app.model.options.core_options import CoreOptions
from stream_app.model.options.table_options import (
    IGNORE_DELETE,
    IGNORE_UPDATE_BEFORE,
    WRITE_BUFFER_SIZE,
    WRITE_BUFFER_SPILL_MAX_DISK_SIZE,
    WRITE_BUFFER_SPILLABLE,
)
from stream_app.model.row_kind import RowKind
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.write.append_only_writer import AppendOnlyWriter


class BucketWriter(Protocol):
    """Writes one bucket's rows of one epoch."""

    def write(self, rows: pa.RecordBatch) -> None:
        """Take in rows (`_VALUE_KIND` and the table's columns) in their order of arrival."""
        ...

    def prepare_commit(self) -> WrittenFiles:
        """Finish, and hand over all files."""
        ...

    def abort(self) -> None:
        """Give up: delete whatever was not handed over."""
        ...


def bucket_writer(
    table: FileStoreTable,
    partition: bytes,
    bucket: int,
    *,
    next_sequence_number: int,
    spill_folder: str | None = None,
) -> BucketWriter:
    """The writer of a bucket for one epoch.

    Args:
        next_sequence_number: greater than any in the bucket.
        spill_folder: folder for spill files; None for the system's.
    """
    if not table.schema.has_primary_key:
        return AppendOnlyWriter(
            files=table.bucket_files(partition, bucket),
            # Without buckets there is no order between files that sequence numbers could tell.
            next_sequence_number=0 if table.schema.is_bucket_unaware else next_sequence_number,
            ignored_kinds=_ignored_kinds(table.options),
        )
    options = table.options
    layout = table.layout()
    merge_function = table.merge_function
    return MergeTreeWriter(
        layout=layout,
        buffer=SortBufferWriteBuffer(
            layout=layout,
            memory_limit=options[WRITE_BUFFER_SIZE],
            # A changelog tells every change, so rows of one key must not be merged before.
            merge_early=None if options.writes_changelog else merge_function,
            spillable=options[WRITE_BUFFER_SPILLABLE],
            spill_limit=options[WRITE_BUFFER_SPILL_MAX_DISK_SIZE],
            spill_parent=spill_folder,
        ),
        merge_function=merge_function,
        files=table.bucket_files(partition, bucket),
        next_sequence_number=next_sequence_number,
        writes_changelog=options.writes_changelog,
        ignored_kinds=_ignored_kinds(options),
    )


def _ignored_kinds(options: CoreOptions) -> frozenset[RowKind]:
    ignored: set[RowKind] = set()
    if options[IGNORE_DELETE]:
        ignored = {RowKind.DELETE, RowKind.UPDATE_BEFORE}
    if options[IGNORE_UPDATE_BEFORE]:
        ignored.add(RowKind.UPDATE_BEFORE)
    return frozenset(ignored)


def finish(writer: BucketWriter, partition: bytes, bucket: int) -> BucketChange:
    """Flush a writer and tell the committer of its files."""
    files = writer.prepare_commit()
    return BucketChange(
        partition=partition,
        bucket=bucket,
        added=files.data,
        changelog=files.changelog,
    )
