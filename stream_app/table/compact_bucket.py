"""Runs one decided compaction, in a task.

Source: Paimon `operation/KeyValueFileStoreWrite.java#createCompactManager`, `#createRewriter`.
"""

from __future__ import annotations

from stream_app.mergetree.compact.compact_executor import CompactExecutor, CompactRequest
from stream_app.mergetree.compact.compact_rewriter import CompactRewriter
from stream_app.mergetree.compact.compact_task import CompactTask
from stream_app.mergetree.compact.compact_unit import CompactResult
from stream_app.table.append_compact_task import compact_append
from stream_app.table.file_store_table import FileStoreTable

__all__ = ["CompactExecutor", "CompactRequest", "CompactResult", "compact_bucket"]


def compact_bucket(table: FileStoreTable, request: CompactRequest) -> CompactResult:
    """Merge the request's files, or without keys join them.

    Nothing that was written stays when it fails.

    Raises:
        CorruptFileError: a file to merge cannot be read.
    """
    if not table.schema.has_primary_key:
        return compact_append(table, request)
    rewriter = CompactRewriter(
        layout=table.layout(),
        merge_function=table.merge_function,
        files=table.bucket_files(request.partition, request.bucket),
    )
    return CompactTask(
        request=request,
        rewriter=rewriter,
        key_of=table.key_of,
        min_file_size=table.schema.compaction_file_size,
    ).run()
