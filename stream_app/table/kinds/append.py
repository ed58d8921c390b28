"""The parts of tables without a primary key.

A bucket keeps its rows in order. In a table without buckets each partition is one folder of files
without order.

Source: Paimon `operation/AppendFileStoreWrite.java`, `operation/BucketedAppendFileStoreWrite.java`.
"""

from __future__ import annotations

from stream_app.mergetree.file_access import OldRowLookup
from stream_app.mergetree.write.row_kinds import ignored_kinds
from stream_app.table.compact.append.append_coordinator import AppendCompactCoordinator
from stream_app.table.compact.append.append_planner import small_file_requests
from stream_app.table.compact.append.append_task import compact_append
from stream_app.table.compact.append.bucketed_append import (
    bucketed_append_manager,
    neighbour_requests,
)
from stream_app.table.compact.buckets.bucket_coordinator import BucketCoordinator
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.kinds.table_kind import TableKind, bucket_count_write_factory
from stream_app.table.write.append_only_writer import AppendOnlyWriter
from stream_app.table.write.bucket_assigner import BucketUnawareAssigner, FixedBucketAssigner


def _bucket_writer(
    table: FileStoreTable,
    partition: bytes,
    bucket: int,
    *,
    next_sequence_number: int,
    old_row_lookup: OldRowLookup | None = None,
) -> AppendOnlyWriter:
    del old_row_lookup
    return AppendOnlyWriter(
        bucket_files=table.bucket_files(partition, bucket),
        # Files of tables without buckets have no order that sequence numbers could record.
        next_sequence_number=next_sequence_number if table.kind_traits.has_buckets else 0,
        ignored_kinds=ignored_kinds(table.options),
    )


_TABLE_WRITE = bucket_count_write_factory(_bucket_writer)

APPEND_KIND = TableKind(
    make_bucket_assigner=lambda table, _: BucketUnawareAssigner(table.schema),
    make_bucket_writer=_bucket_writer,
    make_table_write=_TABLE_WRITE,
    make_coordinator=AppendCompactCoordinator,
    plan_compactions=small_file_requests,
    rewrite=compact_append,
)


BUCKETED_APPEND_KIND = TableKind(
    make_bucket_assigner=lambda table, basis: FixedBucketAssigner(
        table.schema, basis.bucket_counts
    ),
    make_bucket_writer=_bucket_writer,
    make_table_write=_TABLE_WRITE,
    make_coordinator=lambda table, executor: BucketCoordinator(
        table, executor, bucketed_append_manager
    ),
    plan_compactions=neighbour_requests,
    rewrite=compact_append,
)
