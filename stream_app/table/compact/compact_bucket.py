"""Runs one decided compaction, in a task.

Source: Paimon `operation/KeyValueFileStoreWrite.java#createCompactManager`, `#createRewriter`.
"""

from __future__ import annotations

from dataclasses import replace

from stream_app.mergetree.compact.compact_executor import CompactExecutor, CompactRequest
from stream_app.mergetree.compact.compact_rewriter import CompactRewriter
from stream_app.mergetree.compact.compact_task import CompactTask
from stream_app.model.bucket_change import BucketChange
from stream_app.model.merge_engine import traits_of
from stream_app.table.compact.append_task import compact_append
from stream_app.table.compact.record_expiry import has_expired_rows, record_level_expire
from stream_app.table.file_store_table import FileStoreTable

__all__ = ["CompactExecutor", "CompactRequest", "compact_bucket"]


def compact_bucket(table: FileStoreTable, request: CompactRequest) -> BucketChange:
    """Merge the request's files, or without keys join them.

    Nothing that was written stays when it fails.

    Raises:
        CorruptFileError: a file to merge cannot be read.
    """
    began = table.clock.steady_seconds()
    if not table.schema.has_primary_key:
        change = compact_append(table, request)
        return replace(change, seconds=table.clock.steady_seconds() - began)
    rewriter = CompactRewriter(
        layout=table.layout(),
        merge_function=table.merge_function,
        files=table.bucket_files(request.partition, request.bucket),
        expire=record_level_expire(table),
        fan_in=table.options.sort_spill_threshold,
        keeps_deletes=traits_of(table.options.merge_engine).keeps_deletes,
    )
    change = CompactTask(
        request=request,
        rewriter=rewriter,
        key_of=table.key_of,
        min_file_size=table.schema.compaction_file_size,
        must_rewrite=has_expired_rows(table),
    ).run()
    return replace(change, seconds=table.clock.steady_seconds() - began)
