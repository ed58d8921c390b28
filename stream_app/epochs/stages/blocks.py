"""Defines the blocks that decoding tasks send through the shuffle, and chooses their writing tasks.

A block is an Arrow record batch of a bucket's rows, without the schema, which both sides know. In
the shuffle it is one binary cell, so the shuffle has a few large rows instead of millions of small
ones.

Balance: a bucket goes to the task (hash of its partition + table + bucket) modulo the number of
tasks. So the buckets of a partition go to successive tasks; partitions and tables begin at
different tasks. When any writer may add to a bucket, a Kafka partition replaces the bucket in the
formula. Then one task writes the rows of each Kafka partition, in its order.

Source: Paimon `flink/sink/FixedBucketSink.java` shuffles rows by bucket; blocks are stream_app's
own design.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
import pyarrow as pa

from stream_app.cdc.change_batch import BAD_RECORD_SCHEMA, MESSAGE_SCHEMA
from stream_app.format.bucket_hash import murmur_hash
from stream_app.kafka.offset_ranges import KafkaPartition

BLOCK_COLUMNS = (
    "task INT, table_index INT, kind INT, partition BINARY, bucket INT, topic STRING, "
    "source_partition INT, first_offset LONG, rows INT, block BINARY"
)
"""Columns of the shuffle; each row is one block.

``task``: an integer that Spark's hash partitioning sends to the wanted task. ``table_index``: index
into the tables of the epoch's plan. ``partition``: the serialized row of the partition columns.
``topic``, ``source_partition``, ``first_offset``: a lower bound of the block's messages in the
source. ``rows``: changes or bad records. Blocks without changes have an empty
``partition``, so they precede the table's other blocks.
"""
BLOCK_ORDER = ("table_index", "partition", "bucket", "topic", "source_partition", "first_offset")
"""The order in which a writing task gets its blocks."""
BlockSortKey = tuple[int, bytes, int, str, int, int]
"""The values of one block in the columns `BLOCK_ORDER`."""

NEWCOMERS_INDEX = -1
"""Stands in for a table's index: messages of tables that the job must still create."""
UNREADABLE_INDEX = -2
"""Stands in for a table's index: messages whose table cannot be determined."""
STATEMENTS_INDEX = -3
"""Stands in for a table's index: messages that may carry statements of the source."""

_ADDRESS_TRIES_MAX = 1_000_000
_BATCH_SIZE = 4 << 20
"""Bytes of blocks from which on a batch for Spark is complete."""
_BLOCK_NAMES = [column.split()[0] for column in BLOCK_COLUMNS.split(", ")]
_BLOCK_TYPES = (
    *(pa.int32(), pa.int32(), pa.int32(), pa.binary(), pa.int32()),
    *(pa.string(), pa.int32(), pa.int64(), pa.int32()),
)


class BlockKind(IntEnum):
    """The content of a block."""

    CHANGES = 0
    BAD_RECORDS = 1
    COUNTS = 2
    NEWCOMERS = 3
    """Messages of tables that the job must still create; the index is `NEWCOMERS_INDEX`."""
    FAILURE = 4
    """The error that excludes one table from its epoch."""
    INCOMPLETE_CHANGES = 5
    """Changes of which some omit values; see `incomplete_changes`."""
    STATEMENTS = 6
    """Messages that may carry statements of the source; the index is `STATEMENTS_INDEX`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A block and its destination; see `BLOCK_COLUMNS`.

    Attributes:
        keeps_order: whether all rows of the bucket must reach one writer.
    """

    table_index: int
    kind: BlockKind
    kafka_partition: KafkaPartition
    data: pa.Buffer
    first_offset: int = 0
    row_count: int = 0
    partition: bytes = b""
    bucket: int = 0
    keeps_order: bool = True

    @property
    def sort_key(self) -> BlockSortKey:
        """The sort key of a writing task's blocks."""
        return (
            self.table_index,
            self.partition,
            self.bucket,
            *self.kafka_partition,
            self.first_offset,
        )


class TaskAssigner:
    """The assigner of blocks to writing tasks."""

    def __init__(self, task_count: int) -> None:
        self._task_count = task_count
        self._first_tasks: dict[bytes, int] = {}

    def task(self, block: Block) -> int:
        """Return the number of the task that writes a block."""
        topic, source_partition = block.kafka_partition
        slot = block.bucket
        if not block.keeps_order:
            slot = self._first_task(topic.encode()) + source_partition
        return (self._first_task(block.partition) + block.table_index + slot) % self._task_count

    def _first_task(self, name: bytes) -> int:
        if name not in self._first_tasks:
            padded_name = name + bytes(-len(name) % 4)
            self._first_tasks[name] = murmur_hash(padded_name) % self._task_count
        return self._first_tasks[name]


def block_rows(blocks: Iterable[Block], task_count: int) -> Iterator[pa.RecordBatch]:
    """Pack blocks into batches of `BLOCK_COLUMNS`, a few megabytes each."""
    assigner, addresses = TaskAssigner(task_count), task_addresses(task_count)
    rows: list[tuple[Any, ...]] = []
    buffers: list[pa.Buffer] = []
    size = 0
    for block in blocks:
        address = addresses[assigner.task(block)]
        table_index, *sort_key = block.sort_key
        rows.append((address, table_index, int(block.kind), *sort_key, block.row_count))
        buffers.append(block.data)
        size += block.data.size
        if size >= _BATCH_SIZE:
            yield _batch(rows, buffers)
            rows, buffers, size = [], [], 0
    if buffers:
        yield _batch(rows, buffers)


def _batch(rows: list[tuple[Any, ...]], buffers: list[pa.Buffer]) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    arrays = [
        pa.array(column, arrow_type)
        for column, arrow_type in zip(columns, _BLOCK_TYPES, strict=True)
    ]
    return pa.RecordBatch.from_arrays([*arrays, _binary_array(buffers)], names=_BLOCK_NAMES)


def task_addresses(task_count: int) -> list[int]:
    """Return for each task an integer that Spark's hash partitioning sends to this task.

    Spark computes Murmur3 with seed 42 over the four bytes, modulo the number of partitions. Paimon
    uses the same hash for buckets.
    """
    addresses: dict[int, int] = {}
    for address in range(_ADDRESS_TRIES_MAX):
        addresses.setdefault(murmur_hash(struct.pack("<i", address)) % task_count, address)
        if len(addresses) == task_count:
            return [addresses[task] for task in range(task_count)]
    raise AssertionError(f"no addresses for {task_count} tasks")


def bad_records_of(payload: bytes) -> pa.RecordBatch:
    """Return the records in a block of kind ``BAD_RECORDS``."""
    return pa.ipc.read_record_batch(pa.py_buffer(payload), BAD_RECORD_SCHEMA)


def messages_of(payload: bytes) -> pa.RecordBatch:
    """Return the messages in a block of kind ``NEWCOMERS`` or ``STATEMENTS``: `MESSAGE_SCHEMA`."""
    return pa.ipc.read_record_batch(pa.py_buffer(payload), MESSAGE_SCHEMA)


def _binary_array(values: list[pa.Buffer]) -> pa.Array:
    offsets = np.zeros(len(values) + 1, np.int64)
    np.cumsum([value.size for value in values], out=offsets[1:])
    assert offsets[-1] < 1 << 31, "a batch of blocks has less than 2 GiB"
    data = values[0] if len(values) == 1 else pa.py_buffer(b"".join(values))
    bounds = pa.py_buffer(offsets.astype(np.int32))
    return pa.Array.from_buffers(pa.binary(), len(values), [None, bounds, data])
