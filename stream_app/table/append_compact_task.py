"""Rewrites files of a table without keys into fewer, in a task: row after row, as they lie.

Called by `table.compact_bucket`.

Source: Paimon `append/AppendCompactTask.java`,
`operation/BaseAppendFileStoreWrite.java#compactRewrite`.
"""

from __future__ import annotations

from stream_app.mergetree.compact.compact_executor import CompactRequest
from stream_app.mergetree.compact.compact_unit import CompactResult, CompactUnit
from stream_app.model.data_file_meta import DataFileMeta, FileSource
from stream_app.table.file_store_table import FileStoreTable


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


def compact_append(table: FileStoreTable, request: CompactRequest) -> CompactResult:
    """Write the rows of the request's files anew; nothing that was written stays when it fails.

    The rows take the sequence numbers from the first file's on, so that what lies behind the files
    stays behind.

    Raises:
        CorruptFileError: a file cannot be read.
    """
    files = request.unit.files
    access = table.bucket_files(request.partition, request.bucket)
    writer = access.row_writer(
        first_sequence_number=files[0].min_sequence_number, source=FileSource.COMPACT
    )
    try:
        for file in files:
            for batch in access.read(file):
                writer.write(batch)
        return CompactResult(files, writer.close())
    except BaseException:
        writer.abort()
        raise
