"""Writes rows that come by the share of their key: each is placed first, by the index of keys.

Source: Paimon `flink/sink/index/GlobalIndexAssignerOperator.java`. There a shuffle by bucket
follows. Here the task that places rows writes them, so a bucket may get files of several tasks.
They have no key in common.
"""

from __future__ import annotations

import pyarrow as pa

from stream_app.cdc.change_batch import concat_rows
from stream_app.model.bucket_id import BucketId
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.key_index.key_indexes import KeyIndexes
from stream_app.table.key_index.key_placement import KeyPlacement
from stream_app.table.write.bucket_writer import BucketWriters
from stream_app.table.write.table_write import TableWrite

PART_BYTES = 128 << 20
"""Arrow memory of the rows that are placed together."""


class PlacedWrite(TableWrite):
    """A `TableWrite` of the shares that `KeyShares` gives for buckets."""

    def __init__(
        self,
        table: FileStoreTable,
        bucket_writer: BucketWriters,
        indexes: KeyIndexes,
        *,
        next_sequence_number: int,
        snapshot_id: int,
    ) -> None:
        """Begin.

        Args:
            snapshot_id: see `KeyPlacement`.
        """
        super().__init__(table, bucket_writer, next_sequence_number=next_sequence_number)
        known = 0 if table.is_emptied else snapshot_id
        self._placement = KeyPlacement(table, indexes.rule, indexes, known)
        self._share = -1
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_bytes = 0

    def write(self, bucket: BucketId, rows: pa.RecordBatch) -> None:
        """Take in rows of a share, which stands for a bucket; see `TableWrite.write`."""
        _, share = bucket
        if share != self._share or self._waiting_bytes > PART_BYTES:
            self._place()
        self._share = share
        self._waiting.append(rows)
        self._waiting_bytes += rows.nbytes

    def finish_bucket(self) -> None:
        """Place and write what waits; see `TableWrite.finish_bucket`."""
        self._place()
        super().finish_bucket()

    def _place(self) -> None:
        if not self._waiting:
            return
        rows = concat_rows(self._waiting)
        self._waiting.clear()
        self._waiting_bytes = 0
        for partition, number, part in self._placement.place(self._share, rows):
            super().write((partition, number), part)
        self.refused += self._placement.refused
        self._placement.refused.clear()
        # A bucket may come again with newer rows of the same keys.
        self.begin_part(rows.num_rows)
