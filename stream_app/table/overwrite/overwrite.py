"""Runs INSERT OVERWRITE, which replaces partitions by new rows in one OVERWRITE snapshot.

An overwrite may run beside the table's jobs, and also replaces rows that the jobs have committed to
the partitions before. As in Paimon, no changelog has the change, and a partition gets the number of
buckets that the option has. With ``bucket = -2`` the number follows from the partition's rows, or
``postpone.batch-write-fixed-bucket`` lets the rows wait. New files of a bucket that do not overlap
are on the highest level, so that every reader sees their rows at once.

Source: Paimon `operation/FileStoreCommitImpl.java#overwritePartition`,
`table/sink/PostponeFixedBucketWriteBuilder.java`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pyarrow as pa

from stream_app.errors import CommitError, UnsupportedTableError, UsageError
from stream_app.model.bucket_id import BucketId
from stream_app.model.files.bucket_change import BucketChange
from stream_app.model.files.manifest_committable import ManifestCommittable
from stream_app.model.options.bucket_options import POSTPONE_BATCH_WRITE_FIXED_BUCKET
from stream_app.model.options.merge_options import CHANGELOG_PRODUCER
from stream_app.model.options.write_options import DYNAMIC_PARTITION_OVERWRITE, OVERWRITE_UPGRADE
from stream_app.model.row_kind import RowKind
from stream_app.model.schema.table_schema import VALUE_KIND
from stream_app.model.snapshot import BATCH_COMMIT_IDENTIFIER, Snapshot
from stream_app.planning.buckets.postponed_counts import FirstBucketRules, batch_bucket_count
from stream_app.table.commit.batch_commit import batch_commit
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.kinds.keyed import KEYED_KIND
from stream_app.table.kinds.table_kind_registry import table_kind_of
from stream_app.table.overwrite.python_rows import rows_of_table
from stream_app.table.versions.bucket_basis import NO_BASIS, BucketBasis
from stream_app.table.versions.file_store_scan import FileStoreScan
from stream_app.table.versions.partition_filter import PartitionFilter
from stream_app.table.write.bucket_assigner import indices_by_partition


def overwrite(
    table: FileStoreTable, rows: pa.Table, partition: Mapping[str, str] | None = None
) -> Snapshot | None:
    """Replace rows of a table, and return the snapshot; None if there is nothing to replace.

    Args:
        rows: the new rows. A missing column is null, or has the value of `partition`.
        partition: column → value as text, which selects the replaced partitions. None: the
            partitions of the rows, or the whole table, as ``dynamic-partition-overwrite`` says.

    Raises:
        UsageError: rows do not fit the table, or belong to another partition.
        UnsupportedTableError: a key's row may be in another partition.
        CommitError: other writers won every race; nothing has changed.
    """
    _check_overwritable(table)
    partition_values = dict(partition or {})
    partition_filter = PartitionFilter(partitions=(partition_values,) if partition_values else ())
    _check_named(table, partition_values)
    batch = rows_of_table(table, rows, partition_values)
    changes = _write_rows(table, batch)
    try:
        partitions = _replaced_partitions(
            table, partition_filter, {change.partition for change in changes}
        )
        commit = batch_commit(table)
    except BaseException:
        table.discard(changes)
        raise
    if partitions is not None and not partitions:
        return None
    committable = ManifestCommittable(identifier=BATCH_COMMIT_IDENTIFIER, changes=tuple(changes))
    try:
        return commit.overwrite(committable, partitions)
    except CommitError:
        # Only this error proves that no snapshot names the files; after any other error they stay.
        table.discard(changes)
        raise


def _check_overwritable(table: FileStoreTable) -> None:
    if table.kind_traits.crosses_partitions or table.kind_traits.looks_up_partition:
        raise UnsupportedTableError(
            "a new row's key may be in a partition that stays: stream_app overwrites tables whose "
            "primary key has the partition columns",
            where=table.location,
            fix="let Paimon's engines INSERT OVERWRITE it",
        )


def _check_named(table: FileStoreTable, partition_values: Mapping[str, str]) -> None:
    keys = table.schema.partition_keys
    for name in partition_values:
        if name not in keys:
            raise UsageError(
                f"{name!r} is not a partition column: whole partitions are overwritten",
                where=table.location,
                fix=f"name some of {', '.join(keys)}" if keys else "leave 'partition' out",
            )


def _replaced_partitions(
    table: FileStoreTable, partition_filter: PartitionFilter, written_partitions: set[bytes]
) -> set[bytes] | None:
    """Return the partitions to replace; None: the whole table.

    Raises:
        UsageError: a row belongs to none of the named partitions.
    """
    if partition_filter.partitions:
        for partition in written_partitions:
            if not partition_filter.is_named(table, partition):
                raise UsageError(
                    f"rows of {table.paths.partition_path(partition)} do not belong to the "
                    "partition that is overwritten",
                    where=table.location,
                    fix="give only rows of this partition, or omit 'partition'",
                )
        live_entries = FileStoreScan(table).live(table.snapshots.latest())
        live_partitions = {entry.partition for entry in live_entries}
        return written_partitions.union(
            partition
            for partition in live_partitions
            if partition_filter.is_named(table, partition)
        )
    is_dynamic: bool = table.options[DYNAMIC_PARTITION_OVERWRITE]
    return written_partitions if table.schema.partition_keys and is_dynamic else None


def _write_rows(table: FileStoreTable, rows: pa.RecordBatch) -> list[BucketChange]:
    """Write the new rows, as into an empty table without a changelog, and return the changes."""
    if not rows.num_rows:
        return []
    options = {**table.schema.options, CHANGELOG_PRODUCER.key: "none"}
    schema = replace(table.schema, options=options)
    emptied_table = replace(table, schema=schema, is_emptied=True)
    row_kinds = pa.array(np.full(rows.num_rows, int(RowKind.INSERT), np.int8))
    batch = rows.add_column(0, pa.field(VALUE_KIND, pa.int8(), nullable=False), row_kinds)
    kind = table_kind_of(schema)
    basis = NO_BASIS
    if schema.kind_traits.postpones and table.options[POSTPONE_BATCH_WRITE_FIXED_BUCKET]:
        kind = KEYED_KIND
        basis = BucketBasis(bucket_counts=_bucket_counts(table, rows))
    with kind.make_table_write(emptied_table, 0, basis) as write:
        assigner = kind.make_bucket_assigner(emptied_table, basis)
        for partition, bucket, bucket_rows in assigner.assign(batch):
            write.write(BucketId(partition, bucket), bucket_rows)
        changes = write.prepare_commit()
    upgrades: bool = table.options[OVERWRITE_UPGRADE]
    if table.kind_traits.merges_by_key and upgrades:
        return [_upgrade(table, change) for change in changes]
    return changes


def _bucket_counts(table: FileStoreTable, rows: pa.RecordBatch) -> dict[bytes, int]:
    """Return the number of buckets of each partition, for a table with ``bucket = -2``."""
    rules = FirstBucketRules.of_options(table.options)
    bytes_of_row = rows.nbytes / rows.num_rows
    return {
        partition: batch_bucket_count(len(indices), int(len(indices) * bytes_of_row), rules)
        for partition, indices in indices_by_partition(rows, table.schema)
    }


def _upgrade(table: FileStoreTable, change: BucketChange) -> BucketChange:
    """Return the change with its files on the highest level, if they form one sorted run."""
    key_of = table.key_of
    files = sorted(change.added_files, key=lambda file: key_of(file.min_key))
    is_run = all(key_of(left.max_key) < key_of(right.min_key) for left, right in pairwise(files))
    if change.bucket < 0 or not is_run:
        return change
    level = table.options.num_levels - 1
    return replace(change, added_files=tuple(replace(file, level=level) for file in files))
