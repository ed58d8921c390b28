"""Finds the partition and bucket of each new row.

`BucketAssigner` is the port. A table without buckets has one bucket in each partition. A table with
a fixed number hashes the bucket key. `dynamic_buckets` uses an index of hashes. Rows stay columnar:
they are sorted by a code for (partition, bucket), and sliced where the code changes.

Source: Paimon `table/sink/FixedBucketRowKeyExtractor.java`, `UnawareBucketRowKeyExtractor.java`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stream_app.arrow_buffers import Int64s
from stream_app.format.binary_row import serialize_arrow_row
from stream_app.format.bucket_hash import bucket_of
from stream_app.model.schema.table_schema import TableSchema

BucketRows = tuple[bytes, int, pa.RecordBatch]
"""Serialized partition, bucket, and rows of both."""


class BucketAssigner(Protocol):
    """An assigner that finds the partition and bucket of rows. Can be pickled."""

    @property
    def bucket_count(self) -> int:
        """The number of buckets to expect in a partition."""
        ...

    @property
    def keeps_order(self) -> bool:
        """Whether all rows of a bucket must reach one writer; otherwise any writer may add rows."""
        ...

    def assign(self, rows: pa.RecordBatch) -> Iterator[BucketRows]:
        """Group rows by partition and bucket; inside a bucket they keep the order of arrival.

        Args:
            rows: the table's columns, with at least one row.
        """
        ...


@dataclass(frozen=True, slots=True)
class FixedBucketAssigner:
    """The assigner for ``bucket`` ≥ 1: the hash of the bucket key modulo the number of buckets.

    Attributes:
        counts: partition → its number of buckets, if that differs from the table's.
    """

    schema: TableSchema
    counts: Mapping[bytes, int] = field(default_factory=dict)

    @property
    def bucket_count(self) -> int:
        """See `BucketAssigner.bucket_count`; that of the partition with the most buckets."""
        return max(len(self.schema.bucket_numbers), *self.counts.values(), 1)

    @property
    def keeps_order(self) -> bool:
        """Always True, because one writer numbers the rows of a bucket."""
        return True

    def assign(self, rows: pa.RecordBatch) -> Iterator[BucketRows]:
        """Assign by the hash of the bucket key, modulo the partition's number of buckets."""
        schema = self.schema
        table_count = len(schema.bucket_numbers)
        if not self.counts:
            buckets = key_buckets(rows, schema, table_count)
            return rows_by_bucket(rows, schema, buckets, table_count)
        buckets = np.empty(rows.num_rows, np.int64)
        for partition, indices in indices_by_partition(rows, schema):
            partition_rows = rows.take(pa.array(indices))
            partition_count = self.counts.get(partition, table_count)
            buckets[indices] = key_buckets(partition_rows, schema, partition_count)
        return rows_by_bucket(rows, schema, buckets, self.bucket_count)


@dataclass(frozen=True, slots=True)
class BucketUnawareAssigner:
    """The assigner for ``bucket = -1`` without a primary key: partitions have only ``bucket-0``."""

    schema: TableSchema

    @property
    def bucket_count(self) -> int:
        """Always 1: each partition is one folder of files."""
        return 1

    @property
    def keeps_order(self) -> bool:
        """Always False, because files of a partition have no order."""
        return False

    def assign(self, rows: pa.RecordBatch) -> Iterator[BucketRows]:
        """Group rows by partition, all in bucket 0."""
        return rows_by_bucket(rows, self.schema, np.zeros(rows.num_rows, np.int64), 1)


def key_buckets(rows: pa.RecordBatch, schema: TableSchema, bucket_count: int) -> Int64s:
    """Return each row's bucket, below `bucket_count`, by the hash of its bucket key: int64 [n]."""
    keys = schema.fields.project(schema.bucket_keys)
    columns = [rows.column(key.name) for key in keys]
    return bucket_of(columns, keys.types, bucket_count).astype(np.int64)


def indices_by_partition(
    rows: pa.RecordBatch, schema: TableSchema
) -> Iterator[tuple[bytes, Int64s]]:
    """Yield each serialized partition with the indices of its rows in order of arrival."""
    columns = [rows.column(name) for name in schema.partition_keys]
    types = schema.partition_type.types
    codes = row_codes(columns, rows.num_rows)
    order = np.argsort(codes, kind="stable")
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    for indices in np.split(order, starts[1:]):  # the loop is over partitions
        yield serialize_arrow_row(columns, types, int(indices[0])), indices


def rows_by_bucket(
    rows: pa.RecordBatch, schema: TableSchema, buckets: Int64s, bucket_count: int
) -> Iterator[BucketRows]:
    """Group rows by (partition, bucket), given the bucket of each row.

    Four rows of partitions a, b, b, a and buckets 1, 0, 0, 1 of 2. The partitions' codes are 0, 1,
    1, 0. The groups are 1, 2, 2, 1, the order is 0, 3, 1, 2, and the cuts are at 0, 2 and 4.
    """
    partition_columns = [rows.column(name) for name in schema.partition_keys]
    groups = buckets + row_codes(partition_columns, rows.num_rows) * bucket_count
    order = np.argsort(_narrowed(groups), kind="stable")
    groups = groups[order]
    starts = [0, *(np.flatnonzero(groups[1:] != groups[:-1]) + 1).tolist(), len(groups)]
    if len(starts) > 2:
        rows = rows.take(pa.array(order))
        partition_columns = [rows.column(name) for name in schema.partition_keys]
    types = schema.partition_type.types
    partitions: dict[int, bytes] = {}
    for start, end in itertools.pairwise(starts):
        code, bucket = divmod(int(groups[start]), bucket_count)
        if code not in partitions:
            partitions[code] = serialize_arrow_row(partition_columns, types, start)
        yield partitions[code], bucket, rows.slice(start, end - start)


def row_codes(columns: list[pa.Array], row_count: int) -> Int64s:
    """Return a code for each row: int64 [n], at most n, and equal for rows with equal values."""
    codes = np.zeros(row_count, np.int64)
    for column in columns:
        encoded_column = column.dictionary_encode(null_encoding="encode")
        codes = codes * len(encoded_column.dictionary) + encoded_column.indices.to_numpy()
        if codes.max(initial=0) > row_count:
            codes = np.unique(codes, return_inverse=True)[1]
    return codes


def _narrowed(groups: Int64s) -> npt.NDArray[np.integer[Any]]:
    """Return small numbers in two bytes each, which NumPy sorts by radix."""
    return groups.astype(np.uint16) if groups.max(initial=0) < 1 << 16 else groups
