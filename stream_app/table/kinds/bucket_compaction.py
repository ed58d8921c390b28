"""Compacts one bucket of a table of any kind, by a request.

The rewrite of the table's kind does the work. This module measures its time, names the bucket in
errors, and records in which files the compaction has looked up rows.
"""

from __future__ import annotations

from dataclasses import replace

from stream_app.model.files.bucket_change import BucketChange, LookupFiles
from stream_app.model.files.compact_request import CompactRequest
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.kinds.table_kind_registry import table_kind_of
from stream_app.table.merge_errors import merge_errors


def compact_bucket(table: FileStoreTable, request: CompactRequest) -> BucketChange:
    """Merge the request's files, or join them if the table has no key.

    A failure deletes the new files.

    Raises:
        CorruptFileError: a file to merge cannot be read.
    """
    start_s = table.clock.steady_seconds()
    with merge_errors(table.paths.bucket_folder(*request.bucket_id)):
        change = table_kind_of(table.schema).rewrite(table, request)
    if table.kind_traits.merges_by_key and table.options.looks_up:
        names = frozenset(file.file_name for file in request.files_above)
        lookup_files = LookupFiles(output_level=request.unit.output_level, names=names)
        change = replace(change, lookup_files=lookup_files)
    return replace(change, run_s=table.clock.steady_seconds() - start_s)
