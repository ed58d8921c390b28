"""Gives each row to the share of its key, whose task finds the row's partition and bucket.

Source: Paimon `crosspartition/…`, `flink/sink/index/GlobalDynamicBucketSink.java`: there a second
shuffle follows. Here the task of a share also writes what it assigns: keys of one bucket may come
from several tasks, which write files of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from stream_app.format.bucket_hash import bucket_of
from stream_app.model.schema.table_schema import TableSchema
from stream_app.planning.key_index.index_rule import IndexRule
from stream_app.table.write.bucket_assigner import BucketRows


@dataclass(frozen=True, slots=True)
class KeyShares:
    """Implements `BucketAssigner`: a share stands for a bucket, and the partition stays open."""

    schema: TableSchema
    rule: IndexRule

    @property
    def buckets(self) -> int:
        """See `BucketAssigner.buckets`."""
        return self.rule.shares

    @property
    def keeps_order(self) -> bool:
        """See `BucketAssigner.keeps_order`."""
        return True

    def assign(self, rows: pa.RecordBatch) -> Iterator[BucketRows]:
        """See `BucketAssigner.assign`."""
        names = self.rule.keys if self.rule.fills_buckets else self.schema.bucket_keys
        keys = self.schema.fields.project(names)
        columns = [rows.column(key.name) for key in keys]
        shares = bucket_of(columns, keys.types, self.rule.shares)
        order = np.argsort(shares.astype(np.uint16), kind="stable")
        ordered = shares[order]
        starts = np.flatnonzero(np.diff(ordered, prepend=-1))
        sorted_rows = rows if len(starts) == 1 else rows.take(pa.array(order))
        for start, stop in zip(starts, [*starts[1:], len(order)], strict=True):
            yield b"", int(ordered[start]), sorted_rows.slice(start, stop - start)
