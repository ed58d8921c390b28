"""Compares the rows of a table with those of its source, bucket by bucket.

A table with an index of all keys has one row of a key in all partitions. So its rows are compared
by key alone, in a table without partitions, whose buckets are the shares of the index. With
``bucket = -2`` a key may have rows in a bucket, and newer ones in ``bucket-postpone``. So the rows
are written again, to a table whose buckets are the key shares of the writers. Such a table is on
local disk for as long as the comparison takes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
import pyarrow as pa

from stream_app.cdc.change_batch import concat_rows
from stream_app.mergetree.key_differences import differences, rows_of_keys
from stream_app.model.bucket_id import POSTPONED, BucketId
from stream_app.model.files.data_file_meta import DataFileMeta
from stream_app.model.options.bucket_options import BUCKET, PARTITION_LOOKUP
from stream_app.model.options.merge_options import CHANGELOG_PRODUCER
from stream_app.model.row_kind import RowKind
from stream_app.model.schema.data_type import RowType
from stream_app.model.schema.table_schema import SEQUENCE_NUMBER, VALUE_KIND
from stream_app.model.snapshot import Snapshot
from stream_app.planning.buckets.postponed_order import files_in_write_order
from stream_app.planning.key_index.index_rule import index_rule
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.kinds.table_kind_registry import bucket_assigner, bucket_writer
from stream_app.table.lookup.bucket_row_lookup import BucketRowLookup
from stream_app.table.read.diff_read import merged_rows
from stream_app.table.versions.file_store_scan import FileStoreScan
from stream_app.table.write.bucket_assigner import BucketRows
from stream_app.table.write.postponed_rows import SHARE_COUNT

RUN_ROWS_MAX = 200_000
"""Rows in memory before they become a sorted run of each bucket."""
FORGOTTEN_DELETES = (
    "rows that only the table has: with sequence.field an older row comes back when a compaction "
    "has forgotten the delete that was newer"
)
"""The rows that a check cannot judge because ``sequence.field`` orders the changes.

The table is right then.
"""
NUMBERS_GO_BACK = (
    "rows that only the table has, in buckets where sequence numbers go back: two jobs write them, "
    "or a job began again after a compaction had dropped the delete with the highest number"
)
"""The rows that a check cannot judge because a compaction may have dropped a newer delete.

The dropped delete had a higher sequence number than the row that came after it.
"""


class ComparedRows(Protocol):
    """The rows of one side of a comparison."""

    @property
    def buckets(self) -> Collection[BucketId]:
        """The buckets with files."""
        ...

    def rows(self, bucket_id: BucketId) -> Iterator[pa.RecordBatch]:
        """Yield the newest row of each key; see `diff_read.merged_rows`.

        Raises:
            CorruptFileError: a file cannot be read.
        """
        ...


def compared_table(table: FileStoreTable) -> FileStoreTable:
    """Return the table whose buckets are compared: the given one, or one that the module describes.

    In a table without partitions the former partition columns are nullable, because a delete need
    not name a partition.
    """
    if table.kind_traits.postpones:
        options = {**table.schema.options, BUCKET.key: str(SHARE_COUNT)}
        return replace(table, schema=replace(table.schema, options=options))
    rule = index_rule(table.schema)
    if rule is None:
        return table
    options = {**table.schema.options, BUCKET.key: str(rule.share_count)}
    options.pop(PARTITION_LOOKUP.key, None)
    fields = tuple(
        replace(field, data_type=field.data_type.as_nullable())
        if field.name in table.schema.partition_keys
        else field
        for field in table.schema.fields
    )
    schema = replace(
        table.schema,
        fields=RowType(fields),
        primary_keys=rule.keys,
        partition_keys=(),
        options=options,
    )
    return replace(table, schema=schema)


@dataclass(slots=True)
class RowsOnDisk:
    """The source's changes in order, as sorted runs of buckets on local disk.

    Attributes:
        table: a table of `compared_table`.
        folder: an empty folder, which the caller deletes.
        refused_batches: changes that omit a value which no earlier change has; see
            `WrittenFiles.refused_batches`.
    """

    table: FileStoreTable
    folder: str
    refused_batches: list[pa.RecordBatch] = field(default_factory=list)
    _files: dict[BucketId, list[DataFileMeta]] = field(
        init=False, default_factory=lambda: defaultdict(list)
    )
    _next_sequence_number: int = field(init=False, default=0)

    def add(self, rows_of_buckets: Iterable[BucketRows]) -> None:
        """Write changes (`_VALUE_KIND` and the table's columns) to their partition and bucket."""
        row_count_max = 0
        scratch_table = self._scratch_table()
        for partition, bucket, rows in rows_of_buckets:
            files = self._files[BucketId(partition, bucket)]
            writer = bucket_writer(
                scratch_table,
                partition,
                bucket,
                next_sequence_number=self._next_sequence_number,
                old_row_lookup=BucketRowLookup(scratch_table, partition, bucket, files),
            )
            writer.write(rows)
            written_files = writer.prepare_commit()
            files += written_files.added_files
            self.refused_batches += written_files.refused_batches
            row_count_max = max(row_count_max, rows.num_rows)
        self._next_sequence_number += row_count_max

    def empty(self) -> None:
        """Forget all rows, because the source has deleted them."""
        self._files.clear()
        self.refused_batches.clear()

    @property
    def buckets(self) -> Collection[BucketId]:
        """The buckets to which `add` has written files."""
        return self._files.keys()

    def rows(self, bucket_id: BucketId, *, keeps_deletes: bool = False) -> Iterator[pa.RecordBatch]:
        """See `ComparedRows.rows`; `keeps_deletes` also keeps keys whose newest row is a delete."""
        scratch_table = self._scratch_table()
        files = self._files[bucket_id]
        return merged_rows(
            scratch_table,
            scratch_table.bucket_files(*bucket_id),
            files,
            keeps_deletes=keeps_deletes,
        )

    def _scratch_table(self) -> FileStoreTable:
        options = {**self.table.schema.options, CHANGELOG_PRODUCER.key: "none"}
        return replace(
            self.table, location=self.folder, schema=replace(self.table.schema, options=options)
        )


@dataclass(frozen=True, slots=True)
class SnapshotRows:
    """The rows of a snapshot, by the table's own buckets. Implements `ComparedRows`.

    The rows of ``bucket-postpone`` are changes in the order of their application.
    """

    table: FileStoreTable
    files: dict[BucketId, list[DataFileMeta]]

    @classmethod
    def of_snapshot(cls, table: FileStoreTable, snapshot: Snapshot | None) -> SnapshotRows:
        """Return the rows of a snapshot, or no rows if there is no snapshot."""
        files: dict[BucketId, list[DataFileMeta]] = defaultdict(list)
        for entry in FileStoreScan(table).live(snapshot):
            files[entry.bucket_id].append(entry.file)
        return cls(table, files)

    @property
    def buckets(self) -> Collection[BucketId]:
        """See `ComparedRows.buckets`."""
        return self.files.keys()

    def rows(self, bucket_id: BucketId) -> Iterator[pa.RecordBatch]:
        """Yield the newest row of each key; of ``bucket-postpone`` all rows, in replay order."""
        files = self.files.get(bucket_id, ())
        bucket_files = self.table.bucket_files(*bucket_id)
        if bucket_id.bucket == POSTPONED:
            return (
                batch for file in files_in_write_order(files) for batch in bucket_files.read(file)
            )
        return merged_rows(self.table, bucket_files, files)


def rows_by_key(
    table_rows: SnapshotRows,
    compared_table: FileStoreTable,
    folder: str,
    left_out_keys: pa.RecordBatch | None,
) -> RowsOnDisk:
    """Distribute the rows of a table to the buckets of `compared_table`, on local disk.

    Args:
        left_out_keys: keys whose rows are left out; None to distribute all rows.
    """
    rows_on_disk = RowsOnDisk(compared_table, folder)
    assigner = bucket_assigner(compared_table)
    batches: list[pa.RecordBatch] = []
    count = 0
    for bucket_id in sorted(
        table_rows.buckets, key=lambda bucket_id: bucket_id.bucket == POSTPONED
    ):
        for batch in table_rows.rows(bucket_id):
            remaining_rows = batch
            if left_out_keys is not None:
                _, remaining_rows = rows_of_keys(compared_table.layout(), left_out_keys, batch)
            batches.append(remaining_rows.drop_columns([SEQUENCE_NUMBER]))
            count += remaining_rows.num_rows
            if count >= RUN_ROWS_MAX:
                rows_on_disk.add(assigner.assign(concat_rows(batches)))
                batches, count = [], 0
    if batches:
        rows_on_disk.add(assigner.assign(concat_rows(batches)))
    return rows_on_disk


def deletes_of(
    table_rows: SnapshotRows, compared_table: FileStoreTable, keys: pa.RecordBatch
) -> Iterator[BucketRows]:
    """Yield the rows of `keys` as -D, with the table's own partition and bucket."""
    for bucket_id in table_rows.buckets:
        for batch in table_rows.rows(bucket_id):
            rows, _ = rows_of_keys(compared_table.layout(), batch, keys)
            if rows.num_rows:
                rows = rows.drop_columns([SEQUENCE_NUMBER])
                index = rows.schema.get_field_index(VALUE_KIND)
                deletes = pa.array(np.full(rows.num_rows, RowKind.DELETE, np.int8))
                yield (*bucket_id, rows.set_column(index, rows.schema.field(index), deletes))


@dataclass(frozen=True, slots=True, kw_only=True)
class RowDifferences:
    """Counts of differing rows.

    Attributes:
        missing_count: expected rows that the table lacks.
        wrong_count: rows with other values than expected.
        unexpected_count: rows that are not expected.
        example: the key of the first differing row, as text.
    """

    missing_count: int
    wrong_count: int
    unexpected_count: int
    example: str


def compare_rows(
    table: FileStoreTable,
    expected_rows: Iterator[pa.RecordBatch],
    stored_rows: Iterator[pa.RecordBatch],
    *,
    reports_unexpected: bool = True,
) -> RowDifferences | None:
    """Count the differences between expected and stored rows; None if they are equal.

    Args:
        reports_unexpected: whether unexpected rows count as differences.

    Raises:
        CorruptFileError: a file cannot be read.
    """
    missing_count = wrong_count = unexpected_count = 0
    example = ""
    for difference in differences(table.layout(), expected_rows, stored_rows):
        unexpected_rows = (
            difference.added_indices if reports_unexpected else difference.added_indices[:0]
        )
        missing_count += len(difference.removed_indices)
        wrong_count += len(difference.changed_indices)
        unexpected_count += len(unexpected_rows)
        for indices in (difference.removed_indices, difference.changed_indices, unexpected_rows):
            if len(indices) and not example:
                row = difference.batch.slice(int(difference.order[indices[0]]), 1)
                keys = row.select(list(table.schema.primary_keys)).to_pylist()[0]
                example = ", ".join(f"{name} = {value!r}" for name, value in keys.items())
    if not missing_count + wrong_count + unexpected_count:
        return None
    return RowDifferences(
        missing_count=missing_count,
        wrong_count=wrong_count,
        unexpected_count=unexpected_count,
        example=example,
    )
