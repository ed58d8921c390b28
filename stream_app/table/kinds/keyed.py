"""The parts of tables with a primary key, which have an LSM tree in each bucket.

The number of buckets is fixed, or with ``bucket = -1`` it grows with the keys, whose hashes an
index has. `key_indexed` and `postponed_keyed` assign buckets in other ways. `keyed_compaction`
compacts all of these tables.

Source: Paimon `operation/KeyValueFileStoreWrite.java#createWriter`, `#createCompactManager`,
`index/DynamicBucketIndexMaintainer.java`.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from functools import partial

from stream_app.clock import local_wall_clock_ms
from stream_app.mergetree.file_access import OldRowLookup
from stream_app.mergetree.write.history_versions import HistoryRule
from stream_app.mergetree.write.merge_tree_writer import MergeTreeWriter
from stream_app.mergetree.write.row_kinds import ignored_kinds
from stream_app.mergetree.write.write_buffer import SortBufferWriteBuffer
from stream_app.model.bucket_id import BucketId
from stream_app.model.files.compact_request import CompactRequest
from stream_app.model.options.merge_options import ROWKIND_FIELD
from stream_app.model.options.write_options import (
    WRITE_BUFFER_SIZE,
    WRITE_BUFFER_SPILL_MAX_DISK_SIZE,
    WRITE_BUFFER_SPILLABLE,
)
from stream_app.model.snapshot import Snapshot
from stream_app.table.compact.buckets.bucket_coordinator import BucketCoordinator, read_live_buckets
from stream_app.table.compact.keyed.keyed_compaction import rewrite_keyed
from stream_app.table.compact.keyed.keyed_manager import keyed_manager
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.kinds.table_kind import TableKind, bucket_count_write_factory
from stream_app.table.lookup.bucket_row_lookup import BucketRowLookup
from stream_app.table.versions.bucket_basis import BucketBasis
from stream_app.table.write.bucket_assigner import FixedBucketAssigner
from stream_app.table.write.dynamic_buckets import DynamicBucketAssigner, HashIndexWriter
from stream_app.table.write.hidden_changes import HiddenChangesOfBucket
from stream_app.table.write.table_write import TableWrite


def _bucket_writer(
    table: FileStoreTable,
    partition: bytes,
    bucket: int,
    *,
    next_sequence_number: int,
    old_row_lookup: OldRowLookup | None = None,
) -> MergeTreeWriter:
    """Return the writer of one bucket, with the buffer and the rules of the table's options."""
    options = table.options
    layout = table.layout()
    merge_function = table.merge_function
    history_columns = table.schema.history
    return MergeTreeWriter(
        layout=layout,
        buffer=SortBufferWriteBuffer(
            layout=layout,
            bytes_max=options[WRITE_BUFFER_SIZE],
            # A changelog records every change, so the writer must not merge rows of a key in
            # advance.
            chunk_merge=merge_function
            if merge_function.merges_in_parts and not options.flushes_changelog
            else None,
            may_spill=options[WRITE_BUFFER_SPILLABLE],
            spilled_bytes_max=options[WRITE_BUFFER_SPILL_MAX_DISK_SIZE],
            spill_parent=None,
        ),
        merge_function=merge_function,
        file_access=table.bucket_files(partition, bucket),
        next_sequence_number=next_sequence_number,
        writes_changelog=options.flushes_changelog,
        ignored_kinds=ignored_kinds(options),
        refusal_rules=table.schema.refusal_rules,
        kind_column=options[ROWKIND_FIELD],
        history_rule=None
        if history_columns is None
        else HistoryRule(history_columns, layout, keeps_old_rows=options.flushes_changelog),
        hidden_changes=HiddenChangesOfBucket.of_table(table, partition, bucket),
        old_row_lookup=old_row_lookup or BucketRowLookup(table, partition, bucket),
    )


def _due_compactions(
    table: FileStoreTable,
    snapshot: Snapshot | None,
    buckets: Collection[BucketId] | None = None,
    *,
    is_full: bool = False,
) -> list[CompactRequest]:
    local_time_ms = local_wall_clock_ms(table.clock)
    requests = (
        keyed_manager(table, bucket_id, live_bucket).pick_next_compaction(
            local_time_ms=local_time_ms, is_full=is_full
        )
        for bucket_id, live_bucket in read_live_buckets(table, snapshot, buckets).items()
    )
    return [request for request in requests if request is not None]


KEYED_KIND = TableKind(
    make_bucket_assigner=lambda table, basis: FixedBucketAssigner(
        table.schema, basis.bucket_counts
    ),
    make_bucket_writer=_bucket_writer,
    make_table_write=bucket_count_write_factory(_bucket_writer),
    make_coordinator=lambda table, executor: BucketCoordinator(table, executor, keyed_manager),
    plan_compactions=_due_compactions,
    rewrite=rewrite_keyed,
)


def _indexed_write(
    table: FileStoreTable, next_sequence_number: int, basis: BucketBasis
) -> TableWrite:
    return TableWrite(
        table,
        _bucket_writer,
        next_sequence_number=next_sequence_number,
        make_bucket_index=partial(HashIndexWriter, index_manifest_name=basis.written_on),
    )


DYNAMIC_KEYED_KIND = replace(
    KEYED_KIND,
    make_bucket_assigner=lambda table, basis: DynamicBucketAssigner(table, basis.routed_on),
    make_table_write=_indexed_write,
)
