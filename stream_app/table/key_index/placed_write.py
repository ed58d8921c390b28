"""Writes rows that arrive by key share, after the key index has placed each row.

Source: Paimon `flink/sink/index/GlobalIndexAssignerOperator.java`. There a shuffle by bucket
follows. Here the task that places rows also writes them, so a bucket may get files from several
tasks. Files of different tasks have no key in common.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from stream_app.cdc.change_batch import concat_rows
from stream_app.format.bucket_hash import bucket_of
from stream_app.mergetree.file_access import OldRowLookup
from stream_app.mergetree.lookup.key_lookup import RowsOfKeys
from stream_app.model.bucket_id import BucketId
from stream_app.model.files.data_file_meta import DataFileMeta
from stream_app.model.schema.table_schema import TableSchema
from stream_app.planning.key_index.index_rule import IndexRule
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.key_index.key_indexes import KeyIndexes
from stream_app.table.key_index.key_placement import KeyPlacement
from stream_app.table.lookup.bucket_row_lookup import BucketRowLookup
from stream_app.table.write.bucket_assigner import BucketRows
from stream_app.table.write.bucket_writer import BucketWriter, BucketWriterFactory
from stream_app.table.write.table_write import TableWrite

PART_SIZE = 128 << 20
"""Arrow memory of the rows that are placed together."""


@dataclass(frozen=True, slots=True)
class KeyShareAssigner:
    """The assigner of rows to key shares, whose tasks find the rows' partitions and buckets.

    Implements `BucketAssigner`: the key share takes the place of the bucket, and the partition is
    empty.
    """

    schema: TableSchema
    rule: IndexRule

    @property
    def bucket_count(self) -> int:
        """The number of key shares, which take the place of buckets."""
        return self.rule.share_count

    @property
    def keeps_order(self) -> bool:
        """Always True, because one writer places the rows of a key share."""
        return True

    def assign(self, rows: pa.RecordBatch) -> Iterator[BucketRows]:
        """Group rows by key share, in an empty partition with the share as bucket."""
        names = self.rule.keys if self.rule.fills_buckets else self.schema.bucket_keys
        keys = self.schema.fields.project(names)
        columns = [rows.column(key.name) for key in keys]
        shares = bucket_of(columns, keys.types, self.rule.share_count)
        order = np.argsort(shares.astype(np.uint16), kind="stable")
        ordered_shares = shares[order]
        starts = np.flatnonzero(np.diff(ordered_shares, prepend=-1))
        sorted_rows = rows if len(starts) == 1 else rows.take(pa.array(order))
        for start, end in zip(starts, [*starts[1:], len(order)], strict=True):
            yield b"", int(ordered_shares[start]), sorted_rows.slice(start, end - start)


class PlacedWrite(TableWrite):
    """A `TableWrite` whose buckets are the key shares of `KeyShareAssigner`."""

    def __init__(
        self,
        table: FileStoreTable,
        make_bucket_writer: BucketWriterFactory,
        indexes: KeyIndexes,
        *,
        next_sequence_number: int,
        snapshot_id: int,
        part_size: int = PART_SIZE,
    ) -> None:
        """Begin to write a task's key shares.

        Args:
            snapshot_id: the snapshot on which the epoch is based; 0: the table has no rows.
            part_size: the approximate bytes of rows that are placed together.
        """

        def make_writer(
            table: FileStoreTable,
            partition: bytes,
            bucket: int,
            *,
            next_sequence_number: int,
            old_row_lookup: OldRowLookup | None = None,
        ) -> BucketWriter:
            return make_bucket_writer(
                table,
                partition,
                bucket,
                next_sequence_number=next_sequence_number,
                old_row_lookup=old_row_lookup or self._old_row_lookup(table, partition, bucket),
            )

        super().__init__(table, make_writer, next_sequence_number=next_sequence_number)
        base_id = 0 if table.is_emptied else snapshot_id
        self._placement = KeyPlacement(table, indexes.rule, indexes, base_id)
        self._part_size = part_size
        self._share = -1
        self._share_start = self._part_start = 0
        self._unplaced_rows: list[pa.RecordBatch] = []
        self._unplaced_size = 0

    def write(self, bucket_id: BucketId, rows: pa.RecordBatch) -> None:
        """Add rows of a key share, which takes the place of a bucket; see `TableWrite.write`."""
        share = bucket_id.bucket
        if share != self._share or self._unplaced_size > self._part_size:
            self._place()
        if share != self._share:
            self._share = share
            self._share_start = len(self._changes)
        self._unplaced_rows.append(rows)
        self._unplaced_size += rows.nbytes

    def finish_bucket(self) -> None:
        """Place and write the rows that were added; see `TableWrite.finish_bucket`."""
        self._place()
        super().finish_bucket()

    def _place(self) -> None:
        if not self._unplaced_rows:
            return
        rows = concat_rows(self._unplaced_rows)
        self._unplaced_rows.clear()
        self._unplaced_size = 0
        self._part_start = len(self._changes)
        for partition, bucket, bucket_rows in self._placement.place(self._share, rows):
            super().write(BucketId(partition, bucket), bucket_rows)
        self.refused_batches += self._placement.refused_batches
        self._placement.refused_batches.clear()
        # A later part may have newer rows of the same keys for the bucket.
        self.begin_part(rows.num_rows)

    def _old_row_lookup(self, table: FileStoreTable, partition: bytes, bucket: int) -> OldRowLookup:
        """Return the lookup of old rows in the table and in files of the share's earlier parts."""
        earlier_files = [
            file
            for change in self._changes[self._share_start : self._part_start]
            if change.bucket_id == (partition, bucket)
            for file in change.added_files
        ]
        table_lookup = BucketRowLookup(table, partition, bucket)
        return _EarlierRowLookup(table_lookup, earlier_files) if earlier_files else table_lookup


@dataclass(frozen=True, slots=True)
class _EarlierRowLookup:
    """A lookup of a bucket's rows in further files too.

    Implements `mergetree.file_access.OldRowLookup`.
    """

    table_lookup: OldRowLookup
    files: Sequence[DataFileMeta]

    def find(
        self, keys: pa.RecordBatch, columns: Sequence[str], new_files: Sequence[DataFileMeta]
    ) -> RowsOfKeys:
        """Find the rows in `files` and `new_files`, beside those of the table."""
        return self.table_lookup.find(keys, columns, [*self.files, *new_files])
