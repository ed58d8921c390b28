"""Joins files of a table without keys in a task, and keeps the order of their rows.

Called by `table.kinds.append`.

Source: Paimon `append/AppendCompactTask.java`,
`operation/BaseAppendFileStoreWrite.java#compactRewrite`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import partial

import pyarrow as pa

from stream_app.errors import UnsupportedTableError, UsageError
from stream_app.filestore.data.bucket_files import BucketFiles
from stream_app.filestore.manifests.deletion_vector_files import BucketVectors
from stream_app.model.bucket_id import BucketId
from stream_app.model.files.bucket_change import BucketChange
from stream_app.model.files.compact_request import CompactRequest, CompactUnit
from stream_app.model.files.data_file_meta import DataFileMeta, FileSource
from stream_app.model.files.manifest_entry import files_of_buckets
from stream_app.model.files.row_order import RowOrder
from stream_app.model.near_names import did_you_mean
from stream_app.model.options.write_options import WRITE_BUFFER_SIZE
from stream_app.model.snapshot import Snapshot
from stream_app.table.compact.append.row_sorter import RowSorter
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.versions.compact_refusals import compactable_entries
from stream_app.table.versions.deletion_vectors import deletion_vectors

SMALL_FILES = "small files"
"""The reason of a compaction that joins small files."""


def append_request(
    partition: bytes, bucket: int, files: tuple[DataFileMeta, ...], reason: str
) -> CompactRequest:
    """Return the request to rewrite these files in this order."""
    return CompactRequest(
        partition=partition,
        bucket=bucket,
        unit=CompactUnit(0, files, reason),
        drops_deletes=False,
        max_level=0,
    )


def compact_append(table: FileStoreTable, request: CompactRequest) -> BucketChange:
    """Rewrite the rows of the request's files; a failure deletes the new files.

    It omits rows that the latest snapshot's deletion vectors mark. The commit checks that no later
    snapshot has marked more of them. The other rows get sequence numbers from the first file's
    lowest number on, so they precede the rows of later files. A request with an order sorts its
    rows.

    Raises:
        CorruptFileError: a file cannot be read.
    """
    files = request.unit.files
    bucket_id = request.bucket_id
    latest_snapshot = table.snapshots.latest()
    vectors = (
        deletion_vectors(table, latest_snapshot, [bucket_id]).get(bucket_id, {})
        if latest_snapshot
        else {}
    )
    bucket_files = table.bucket_files(*bucket_id)
    writer = bucket_files.row_writer(
        first_sequence_number=files[0].min_sequence_number, file_source=FileSource.COMPACT
    )
    rows = _live_rows(bucket_files, files, vectors)
    if request.order is not None:
        columns = table.schema.fields.project(request.order.columns)
        sort_column_files = table.bucket_files(*bucket_id, columns=columns)
        sorter = RowSorter(request.order, table.schema.fields, table.options[WRITE_BUFFER_SIZE])
        rows = sorter.rows(
            partial(_live_rows, bucket_files, files, vectors),
            partial(_live_rows, sort_column_files, files, vectors),
            request.unit.total_size,
        )
    try:
        for batch in rows:
            writer.write(batch)
        return request.change(removed_files=files, added_files=writer.close())
    except BaseException:
        writer.abort()
        raise


def _live_rows(
    bucket_files: BucketFiles, files: Sequence[DataFileMeta], vectors: BucketVectors
) -> Iterator[pa.RecordBatch]:
    live_files = replace(bucket_files, vectors=vectors)
    for file in files:
        yield from live_files.read(file)


def sorted_requests(
    table: FileStoreTable,
    snapshot: Snapshot | None,
    order: RowOrder,
    buckets: Collection[BucketId],
) -> list[CompactRequest]:
    """Return requests to sort the rows of each partition.

    Raises:
        UsageError: the order names no column, or a column that cannot be sorted.
        UnsupportedTableError: the table has a key or buckets, which determine the order of rows.
    """
    _check_order(table, order)
    if snapshot is None:
        return []
    entries = compactable_entries(table, snapshot, buckets)
    reason = f"{order.strategy.value} by {', '.join(order.columns)}"
    return [
        replace(append_request(*bucket_id, tuple(files), reason), order=order)
        for bucket_id, files in files_of_buckets(entries).items()
    ]


def _check_order(table: FileStoreTable, order: RowOrder) -> None:
    """Check that the table's rows can be sorted by these columns."""
    if table.kind_traits.merges_by_key or table.kind_traits.has_buckets:
        raise UnsupportedTableError(
            "rows of a primary key or of a bucket have an order already: only a table without both "
            "can be sorted",
            where=table.location,
            fix="leave --order-strategy out",
        )
    fields = table.schema.fields
    for name in order.columns:
        if name not in fields.names:
            problem = f"there is no column {name!r}{did_you_mean(name, fields.names)}"
        elif name in table.schema.partition_keys:
            problem = f"{name!r} is a partition column, which all rows of a partition share"
        elif fields.field(name).data_type.is_nested:
            problem = f"{name!r} is nested, and has no order"
        elif order.columns.count(name) > 1:
            problem = f"{name!r} is named twice"
        else:
            continue
        raise UsageError(f"--order-by: {problem}", where=table.location, fix="correct --order-by")
