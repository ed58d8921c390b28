"""Stage 1 of an epoch: messages → row changes → one Arrow block for each bucket → shuffle.

A block is the record-batch message of a bucket's rows, without its schema, which both sides know.
It travels as one binary cell: a few large rows in the shuffle instead of millions of small ones.
A task gathers its input up to a bound before it cuts blocks, so that thousands of buckets do not
give blocks of ten rows.

Order: within a bucket, blocks reach the writer by (topic, Kafka partition, first offset), and rows
of a block stand as they came. So changes of one key stay in the order of their Kafka partition.

Source: Paimon `flink/sink/FixedBucketSink.java` shuffles rows by bucket; blocks are our own way.
"""

from __future__ import annotations

import pickle
import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from stream_app.cdc.change_batch import (
    BAD_RECORD_SCHEMA,
    MESSAGE_SCHEMA,
    ChangeBatch,
    change_schema,
    concat_changes,
)
from stream_app.cdc.message_format import MessageFormat
from stream_app.format.arrow_schema import arrow_schema
from stream_app.format.binary_row import serialize_arrow_row, serialize_row
from stream_app.format.bucket_hash import bucket_of, murmur_hash
from stream_app.model.table_schema import TableSchema

BLOCK_BYTES = 32 << 20
"""Arrow bytes of rows that a task gathers before it cuts blocks."""

BLOCK_COLUMNS = (
    "task INT, kind INT, partition BINARY, bucket INT, topic STRING, source_partition INT, "
    "first_offset LONG, rows INT, block BINARY"
)
"""`task` addresses the block; `partition` is the serialized row of the partition columns."""

_ADDRESS_TRIES_MAX = 1_000_000


class BlockKind(IntEnum):
    """What a block holds."""

    CHANGES = 0
    BAD_RECORDS = 1
    COUNTS = 2


@dataclass(frozen=True, slots=True)
class PartitionEnd:
    """The newest record of a Kafka partition in an epoch; the time is the record's, in ms UTC."""

    offset: int
    timestamp_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeCounts:
    """What was read: `skipped` messages mean no row, `bad` ones could not be decoded."""

    messages: int = 0
    changes: int = 0
    skipped: int = 0
    bad: int = 0
    ends: Mapping[tuple[str, int], PartitionEnd] = field(default_factory=dict)

    def plus(self, other: DecodeCounts) -> DecodeCounts:
        """Both together."""
        ends = dict(self.ends)
        for where, end in other.ends.items():
            if where not in ends or end.offset > ends[where].offset:
                ends[where] = end
        return DecodeCounts(
            messages=self.messages + other.messages,
            changes=self.changes + other.changes,
            skipped=self.skipped + other.skipped,
            bad=self.bad + other.bad,
            ends=ends,
        )

    def last_offsets(self) -> dict[str, dict[str, int]]:
        """Topic → partition → last offset that was read."""
        offsets: dict[str, dict[str, int]] = {}
        for (topic, partition), end in self.ends.items():
            offsets.setdefault(topic, {})[str(partition)] = end.offset
        return offsets


@dataclass(frozen=True, kw_only=True)
class RoutePlan:
    """What a decoding task must know; can be pickled.

    Attributes:
        tasks: number of tasks that write.
    """

    message_format: MessageFormat
    schema: TableSchema
    tasks: int
    block_bytes: int = BLOCK_BYTES


def route_blocks(messages: DataFrame, plan: RoutePlan) -> DataFrame:
    """Decode messages and bring each bucket's blocks to one task, in order.

    Args:
        messages: columns of `MESSAGE_SCHEMA`.

    Returns:
        Columns of `BLOCK_COLUMNS` in `plan.tasks` partitions.
    """

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return route_partition(batches, plan)

    order = ["partition", "bucket", "topic", "source_partition", "first_offset"]
    blocks = messages.mapInArrow(run, BLOCK_COLUMNS)
    return blocks.repartition(plan.tasks, "task").sortWithinPartitions(*order)


def route_partition(batches: Iterable[pa.RecordBatch], plan: RoutePlan) -> Iterator[pa.RecordBatch]:
    """The body of a task; see `route_blocks`."""
    router = _Router(plan)
    for batch in batches:
        for messages in _by_source_partition(batch):
            yield from router.take(messages)
    yield from router.finish()


def task_addresses(tasks: int) -> list[int]:
    """For each task an integer that Spark's hash partitioning sends to it.

    Spark takes Murmur3 with seed 42 of the four bytes modulo the number of partitions, which is
    the hash that Paimon uses for buckets.
    """
    found: dict[int, int] = {}
    for number in range(_ADDRESS_TRIES_MAX):
        found.setdefault(murmur_hash(struct.pack("<i", number)) % tasks, number)
        if len(found) == tasks:
            return [found[task] for task in range(tasks)]
    raise AssertionError(f"no addresses for {tasks} tasks")


def counts_of(block: bytes) -> DecodeCounts:
    """The counts in a block of kind ``COUNTS``; only this job's own tasks make such blocks."""
    counts = pickle.loads(block)
    assert isinstance(counts, DecodeCounts)
    return counts


def bad_records_of(block: bytes) -> pa.RecordBatch:
    """The records in a block of kind ``BAD_RECORDS``."""
    return pa.ipc.read_record_batch(pa.py_buffer(block), BAD_RECORD_SCHEMA)


class _Router:
    """Gathers the changes of one Kafka partition at a time and cuts them into blocks."""

    def __init__(self, plan: RoutePlan) -> None:
        self._plan = plan
        schema = plan.schema
        self._changes = change_schema(arrow_schema(schema.fields))
        self._addresses = task_addresses(plan.tasks)
        self._where: tuple[str, int] = ("", 0)
        self._gathered: list[ChangeBatch] = []
        self._gathered_bytes = 0
        self._first_offset = 0
        self._counts = DecodeCounts()

    def take(self, messages: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Decode messages of one Kafka partition."""
        where = (messages.column("topic")[0].as_py(), messages.column("partition")[0].as_py())
        if where != self._where or self._gathered_bytes >= self._plan.block_bytes:
            yield from self._cut()
            self._where = where
        decoded = self._plan.message_format.decode(messages)
        if not self._gathered:
            self._first_offset = messages.column("offset")[0].as_py()
        if decoded.changes.rows.num_rows:
            self._gathered.append(decoded.changes)
            self._gathered_bytes += decoded.changes.rows.nbytes
        if decoded.bad.num_rows:
            yield self._block(BlockKind.BAD_RECORDS, decoded.bad.serialize(), decoded.bad.num_rows)
        timestamp = messages.column("timestamp")[messages.num_rows - 1]
        end = PartitionEnd(
            messages.column("offset")[messages.num_rows - 1].as_py(),
            timestamp.value // 1000 if timestamp.is_valid else None,
        )
        self._counts = self._counts.plus(
            DecodeCounts(
                messages=messages.num_rows,
                changes=decoded.changes.rows.num_rows,
                skipped=decoded.skipped,
                bad=decoded.bad.num_rows,
                ends={where: end},
            )
        )

    def finish(self) -> Iterator[pa.RecordBatch]:
        """The last blocks, and the counts."""
        yield from self._cut()
        if self._counts.messages:
            yield self._block(BlockKind.COUNTS, pa.py_buffer(pickle.dumps(self._counts)), 0)

    def _cut(self) -> Iterator[pa.RecordBatch]:
        if not self._gathered:
            return
        rows = concat_changes(self._changes, self._gathered).rows
        self._gathered, self._gathered_bytes = [], 0
        for partition, bucket, part in split_by_bucket(rows, self._plan.schema):
            yield self._block(BlockKind.CHANGES, part.serialize(), part.num_rows, partition, bucket)

    def _block(
        self,
        kind: BlockKind,
        block: pa.Buffer,
        rows: int,
        partition: bytes = b"",
        bucket: int = 0,
    ) -> pa.RecordBatch:
        # Neighbouring buckets go to different tasks, and partitions do not all begin at task 0.
        task = (murmur_hash(partition + bytes(-len(partition) % 4)) + bucket) % self._plan.tasks
        values = [
            (self._addresses[task], pa.int32()),
            (int(kind), pa.int32()),
            (partition, pa.binary()),
            (bucket, pa.int32()),
            (self._where[0], pa.string()),
            (self._where[1], pa.int32()),
            (self._first_offset, pa.int64()),
            (rows, pa.int32()),
        ]
        arrays = [pa.array([value], kind_of_column) for value, kind_of_column in values]
        arrays.append(
            pa.Array.from_buffers(
                pa.binary(), 1, [None, pa.py_buffer(struct.pack("<ii", 0, block.size)), block]
            )
        )
        return pa.RecordBatch.from_arrays(arrays, names=_BLOCK_NAMES)


_BLOCK_NAMES = [column.split()[0] for column in BLOCK_COLUMNS.split(", ")]


def split_by_bucket(
    rows: pa.RecordBatch, schema: TableSchema
) -> Iterator[tuple[bytes, int, pa.RecordBatch]]:
    """Rows by (serialized partition, bucket); inside a bucket in the order in which they came."""
    keys = schema.fields.project(schema.bucket_keys)
    buckets = bucket_of(
        [rows.column(key.name) for key in keys], keys.types, schema.core_options.bucket
    )
    partitions, codes = _partition_codes(rows, schema)
    groups = codes * schema.core_options.bucket + buckets
    present, counts = np.unique(groups, return_counts=True)
    if len(present) > 1:
        order = np.argsort(_narrow(groups, int(present[-1])), kind="stable")
        rows = rows.take(pa.array(order))
    start = 0
    for group, count in zip(present.tolist(), counts.tolist(), strict=True):
        code, bucket = divmod(group, schema.core_options.bucket)
        yield partitions[code], bucket, rows.slice(start, count)
        start += count


def _partition_codes(
    rows: pa.RecordBatch, schema: TableSchema
) -> tuple[list[bytes], np.ndarray[tuple[int], np.dtype[np.int64]]]:
    """The distinct partitions, and for each row which of them it is in."""
    types = schema.partition_type.types
    if not types:
        return [serialize_row((), ())], np.zeros(rows.num_rows, np.int64)
    codes = np.zeros(rows.num_rows, np.int64)
    columns = [rows.column(name) for name in schema.partition_keys]
    for column in columns:
        encoded = column.dictionary_encode(null_encoding="encode")
        codes = codes * len(encoded.dictionary) + encoded.indices.to_numpy()
    _, first, codes = np.unique(codes, return_index=True, return_inverse=True)
    partitions = [serialize_arrow_row(columns, types, int(row)) for row in first]
    return partitions, codes.astype(np.int64)


def _narrow(
    groups: np.ndarray[tuple[int], np.dtype[np.int64]], largest: int
) -> np.ndarray[tuple[int], np.dtype[np.integer]]:
    """Small numbers in two bytes, which NumPy sorts by radix."""
    return groups.astype(np.uint16) if largest < 1 << 16 else groups


def _by_source_partition(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The batch in parts of one Kafka partition each, each in the order of its offsets."""
    if not batch.num_rows:
        return
    batch = pa.RecordBatch.from_arrays(
        [_as_type(batch.column(field.name), field.type) for field in MESSAGE_SCHEMA],
        schema=MESSAGE_SCHEMA,
    )
    topics = batch.column("topic").dictionary_encode()
    partitions = batch.column("partition").to_numpy()
    codes = topics.indices.to_numpy().astype(np.int64) << 32 | partitions
    if (codes == codes[0]).all():
        yield batch
        return
    for code in np.unique(codes):
        yield batch.take(pa.array(np.flatnonzero(codes == code)))


def _as_type(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    return column if column.type == wanted else column.cast(wanted)
