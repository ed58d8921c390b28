"""Rewrites files of a table without keys into fewer ones, in a task, in the order of their rows.

Called by `table.kinds.registry`.

Source: Paimon `append/AppendCompactTask.java`,
`operation/BaseAppendFileStoreWrite.java#compactRewrite`.
"""

from __future__ import annotations

from stream_app.format.deletion_vector import live_rows
from stream_app.model.bucket_change import BucketChange
from stream_app.model.compact_request import CompactRequest, CompactUnit
from stream_app.model.data_file_meta import DataFileMeta, FileSource
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.versions.deletion_vectors import deletion_vectors


def append_request(
    partition: bytes, bucket: int, files: tuple[DataFileMeta, ...], reason: str
) -> CompactRequest:
    """The request to rewrite these files, in this order."""
    return CompactRequest(
        partition=partition,
        bucket=bucket,
        unit=CompactUnit(0, files, reason),
        drop_deletes=False,
        max_level=0,
    )


def compact_append(table: FileStoreTable, request: CompactRequest) -> BucketChange:
    """Rewrite the rows of the request's files; on failure it deletes its files.

    It leaves out rows that the latest snapshot deletes; the commit checks that no more were deleted
    since. The other rows take sequence numbers from the first file's on, so they stay before the
    rows of later files.

    Raises:
        CorruptFileError: a file cannot be read.
    """
    files = request.unit.files
    bucket = request.partition, request.bucket
    latest = table.snapshots.latest()
    vectors = deletion_vectors(table, latest, [bucket]).get(bucket, {}) if latest else {}
    access = table.bucket_files(request.partition, request.bucket)
    writer = access.row_writer(
        first_sequence_number=files[0].min_sequence_number, source=FileSource.COMPACT
    )
    try:
        for file in files:
            batches, vector = access.read(file), vectors.get(file.file_name)
            for batch in batches if vector is None else live_rows(batches, vector):
                writer.write(batch)
        return request.change(removed=files, added=writer.close())
    except BaseException:
        writer.abort()
        raise
