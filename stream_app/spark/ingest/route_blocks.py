"""Stage 1 of an epoch: messages → row changes → one Arrow block for each bucket → shuffle.

A block is the record-batch message of a bucket's rows, without its schema, which both sides know.
It travels as one binary cell: a few large rows in the shuffle instead of millions of small ones.
A task gathers its input, up to a bound, until blocks are worth cutting, so that thousands of
buckets do not give blocks of ten rows.

Order: a task reads one range of offsets of a Kafka partition, or whole partitions. So a block holds
changes of one Kafka partition in the order of its offsets, and no other block has offsets between
them. Within a bucket, blocks reach the writer by (topic, Kafka partition, first offset). So changes
of one key stay in the order of their Kafka partition, however Spark cuts it into tasks, and a task
that is done again gives the same blocks.

Balance: a bucket goes to the task (hash of its partition + bucket) modulo tasks. Buckets of one
partition are dealt out in turn; partitions begin at different tasks. Without buckets, a Kafka
partition takes the bucket's place: any task may write any row, and each Kafka partition has one
task for its rows, so they lie in its order.

Source: Paimon `flink/sink/FixedBucketSink.java` shuffles rows by bucket; blocks are our own way.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from stream_app.cdc.change_batch import BAD_RECORD_SCHEMA, MESSAGE_SCHEMA
from stream_app.cdc.message_format import MessageFormat
from stream_app.format.binary_row import serialize_arrow_row
from stream_app.format.bucket_hash import murmur_hash
from stream_app.model.schema.table_schema import TableSchema
from stream_app.spark.ingest.decode_counts import (
    ColumnSighting,
    DecodeCounts,
    PartitionEnd,
    Where,
)
from stream_app.table.kinds.registry import kind_of

BLOCK_BYTES = 32 << 20
"""Arrow bytes of rows that a task gathers at most before it cuts blocks."""
_WORTHWHILE_BLOCK_BYTES = 256 << 10
"""A task gathers no further when its blocks have this size on average."""
_OUTPUT_BYTES = 4 << 20
"""Blocks handed to Spark at once."""

BLOCK_COLUMNS = (
    "task INT, kind INT, partition BINARY, bucket INT, topic STRING, source_partition INT, "
    "first_offset LONG, rows INT, block BINARY"
)
"""A row for each block.

``task``: an integer that Spark's hash partitioning sends to the wanted task. ``partition``: the
serialized row of the partition columns. ``topic``, ``source_partition``, ``first_offset``: where
the first message that the block may hold changes of stands. ``rows``: changes or bad records.
Blocks that are not of kind ``CHANGES`` have an empty ``partition``, so they come before the others.
"""

Codes = npt.NDArray[np.int64]

_ADDRESS_TRIES_MAX = 1_000_000


class BlockKind(IntEnum):
    """What a block holds."""

    CHANGES = 0
    BAD_RECORDS = 1
    COUNTS = 2


@dataclass(frozen=True, kw_only=True)
class RoutePlan:
    """What a decoding task must know; can be pickled.

    Attributes:
        tasks: number of tasks that write.
        topic: of all messages, when there is only one; then it need not come with each of them.
        block_bytes: Arrow bytes of rows that a task gathers at most; a single batch of Spark's
            may be larger.
        sort_messages: bring the messages of each Kafka partition to one task, by offset, before
            they are decoded: for sources whose tasks do not read ranges of offsets.
    """

    message_format: MessageFormat
    schema: TableSchema
    tasks: int
    topic: str | None = None
    block_bytes: int = BLOCK_BYTES
    sort_messages: bool = False


def route_blocks(messages: DataFrame, plan: RoutePlan) -> DataFrame:
    """Decode messages and bring each bucket's blocks to one task, in order.

    Args:
        messages: columns of `MESSAGE_SCHEMA`. Keys that the format does not read are left behind:
            Spark copies each three times on its way (see `bad_record_keys`).

    Returns:
        Columns of `BLOCK_COLUMNS` in `plan.tasks` partitions.
    """

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return route_partition(batches, plan)

    if plan.sort_messages:
        messages = messages.repartition(plan.tasks, "topic", "partition")
        messages = messages.sortWithinPartitions("topic", "partition", "offset")
    order = ["partition", "bucket", "topic", "source_partition", "first_offset"]
    unneeded = set() if plan.message_format.reads_keys else {"key"}
    if plan.topic is not None:
        unneeded.add("topic")
    messages = messages.select(*(name for name in MESSAGE_SCHEMA.names if name not in unneeded))
    blocks = messages.mapInArrow(run, BLOCK_COLUMNS)
    return blocks.repartition(plan.tasks, "task").sortWithinPartitions(*order)


def route_partition(batches: Iterable[pa.RecordBatch], plan: RoutePlan) -> Iterator[pa.RecordBatch]:
    """The body of a task; see `route_blocks`."""
    router = _Router(plan)
    for batch in batches:
        for where, messages in by_source_partition(batch, plan.topic):
            yield from router.take(where, messages)
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


def bad_records_of(block: bytes) -> pa.RecordBatch:
    """The records in a block of kind ``BAD_RECORDS``."""
    return pa.ipc.read_record_batch(pa.py_buffer(block), BAD_RECORD_SCHEMA)


@dataclass(slots=True)
class _Gathered:
    """Changes of one Kafka partition, waiting to be cut."""

    first_offset: int
    last_offset: int
    rows: list[pa.RecordBatch] = field(default_factory=list)


class _Router:
    """Gathers changes by Kafka partition and cuts them into blocks."""

    def __init__(self, plan: RoutePlan) -> None:
        self._plan = plan
        self._blocks = _BlockRows(plan.tasks, by_source=not plan.schema.kind.has_buckets)
        self._gathered: dict[Where, _Gathered] = {}
        self._gathered_bytes = 0
        self._enough_bytes = len(plan.schema.bucket_numbers) * _WORTHWHILE_BLOCK_BYTES
        self._counts = DecodeCounts()

    def take(self, where: Where, messages: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Decode messages of one Kafka partition, in the order of their offsets."""
        offsets = messages.column("offset")
        first, last = offsets[0].as_py(), offsets[-1].as_py()
        gathered = self._gathered.get(where)
        assert gathered is None or first >= gathered.last_offset, "a task reads in order of offsets"
        decoded = self._plan.message_format.decode(messages)
        rows = decoded.changes.rows
        if rows.num_rows:
            gathered = self._gathered.setdefault(where, _Gathered(first, last))
            gathered.rows.append(rows)
            gathered.last_offset = last
            self._gathered_bytes += rows.nbytes
        if decoded.bad.num_rows:
            self._blocks.add(
                BlockKind.BAD_RECORDS, where, first, decoded.bad.num_rows, decoded.bad.serialize()
            )
        self._counts = self._counts.plus(
            DecodeCounts(
                messages=messages.num_rows,
                changes=rows.num_rows,
                skipped=decoded.skipped,
                bad=decoded.bad.num_rows,
                decoder_errors=decoded.decoder_errors,
                ends={where: PartitionEnd(last, _newest_ms(messages.column("timestamp")))},
                tables={
                    (where[0], name): (where[1], offsets[at].as_py())
                    for name, at in decoded.tables.items()
                },
                columns={
                    column: ColumnSighting(
                        sighting.records, *where, offsets[sighting.first].as_py()
                    )
                    for column, sighting in decoded.columns.items()
                },
            )
        )
        if self._gathered_bytes >= min(self._plan.block_bytes, self._enough_bytes):
            yield from self._cut()

    def finish(self) -> Iterator[pa.RecordBatch]:
        """The last blocks, and the counts."""
        yield from self._cut()
        if self._counts.messages:
            counts = pa.py_buffer(self._counts.to_bytes())
            self._blocks.add(BlockKind.COUNTS, ("", 0), 0, 0, counts)
        yield from self._blocks.drain()

    def _cut(self) -> Iterator[pa.RecordBatch]:
        blocks = 0
        for where, gathered in self._gathered.items():
            rows = pa.concat_batches(gathered.rows)
            first = gathered.first_offset
            gathered.rows.clear()
            for partition, bucket, part in split_by_bucket(rows, self._plan.schema):
                blocks += 1
                self._blocks.add(
                    BlockKind.CHANGES,
                    where,
                    first,
                    part.num_rows,
                    part.serialize(),
                    partition,
                    bucket,
                )
                if self._blocks.size >= _OUTPUT_BYTES:
                    yield from self._blocks.drain()
        yield from self._blocks.drain()
        self._gathered.clear()
        self._gathered_bytes = 0
        self._enough_bytes = max(self._enough_bytes, blocks * _WORTHWHILE_BLOCK_BYTES)


class _BlockRows:
    """Blocks that wait to be handed to Spark together, as columns."""

    def __init__(self, tasks: int, *, by_source: bool) -> None:
        self._tasks = tasks
        self._by_source = by_source
        self._addresses = task_addresses(tasks)
        self._first_tasks: dict[bytes, int] = {}
        self._columns: list[list[Any]] = [[] for _ in _BLOCK_TYPES]
        self._buffers: list[pa.Buffer] = []
        self.size = 0

    def add(
        self,
        kind: BlockKind,
        where: Where,
        first_offset: int,
        rows: int,
        block: pa.Buffer,
        partition: bytes = b"",
        bucket: int = 0,
    ) -> None:
        """Append a block."""
        member = self._first_task(where[0].encode()) + where[1] if self._by_source else bucket
        task = self._addresses[(self._first_task(partition) + member) % self._tasks]
        row = (task, int(kind), partition, bucket, *where, first_offset, rows)
        for column, value in zip(self._columns, row, strict=True):
            column.append(value)
        self._buffers.append(block)
        self.size += block.size

    def drain(self) -> Iterator[pa.RecordBatch]:
        """All blocks, if there are any, in a batch of `BLOCK_COLUMNS`."""
        if not self._buffers:
            return
        arrays = [
            pa.array(column, kind) for column, kind in zip(self._columns, _BLOCK_TYPES, strict=True)
        ]
        arrays.append(_binary_array(self._buffers))
        self._columns = [[] for _ in _BLOCK_TYPES]
        self._buffers, self.size = [], 0
        yield pa.RecordBatch.from_arrays(arrays, names=_BLOCK_NAMES)

    def _first_task(self, partition: bytes) -> int:
        if partition not in self._first_tasks:
            padded = partition + bytes(-len(partition) % 4)
            self._first_tasks[partition] = murmur_hash(padded) % self._tasks
        return self._first_tasks[partition]


_BLOCK_NAMES = [column.split()[0] for column in BLOCK_COLUMNS.split(", ")]
_BLOCK_TYPES = (
    *(pa.int32(), pa.int32(), pa.binary(), pa.int32()),
    *(pa.string(), pa.int32(), pa.int64(), pa.int32()),
)


def _binary_array(values: list[pa.Buffer]) -> pa.Array:
    offsets = np.zeros(len(values) + 1, np.int64)
    np.cumsum([value.size for value in values], out=offsets[1:])
    assert offsets[-1] < 1 << 31, "a batch of blocks has less than 2 GiB"
    data = values[0] if len(values) == 1 else pa.py_buffer(b"".join(values))
    bounds = pa.py_buffer(offsets.astype(np.int32))
    return pa.Array.from_buffers(pa.binary(), len(values), [None, bounds, data])


def _newest_ms(timestamps: pa.Array) -> int | None:
    newest = pc.max(timestamps)
    return newest.value // 1000 if newest.is_valid else None


def split_by_bucket(
    rows: pa.RecordBatch, schema: TableSchema
) -> Iterator[tuple[bytes, int, pa.RecordBatch]]:
    """Rows by (serialized partition, bucket); inside a bucket in the order in which they came."""
    assigner = kind_of(schema).bucket_assigner(schema)
    groups, buckets_count = assigner.assign(rows), assigner.count
    partition_columns = [rows.column(name) for name in schema.partition_keys]
    groups += _partition_codes(partition_columns, rows.num_rows) * buckets_count
    order = np.argsort(_narrow(groups), kind="stable")
    groups = groups[order]
    starts = [0, *(np.flatnonzero(groups[1:] != groups[:-1]) + 1).tolist(), len(groups)]
    if len(starts) > 2:
        rows = rows.take(pa.array(order))
        partition_columns = [rows.column(name) for name in schema.partition_keys]
    types = schema.partition_type.types
    known: dict[int, bytes] = {}
    for start, stop in itertools.pairwise(starts):
        code, bucket = divmod(int(groups[start]), buckets_count)
        if code not in known:
            known[code] = serialize_arrow_row(partition_columns, types, start)
        yield known[code], bucket, rows.slice(start, stop - start)


def _partition_codes(columns: list[pa.Array], rows: int) -> Codes:
    """A small number for each row: the same for the same partition."""
    codes = np.zeros(rows, np.int64)
    for column in columns:
        encoded = column.dictionary_encode(null_encoding="encode")
        codes = codes * len(encoded.dictionary) + encoded.indices.to_numpy()
        if codes.max(initial=0) > rows:
            codes = np.unique(codes, return_inverse=True)[1]
    return codes


def _narrow(groups: Codes) -> npt.NDArray[np.integer[Any]]:
    """Small numbers in two bytes, which NumPy sorts by radix."""
    return groups.astype(np.uint16) if groups.max(initial=0) < 1 << 16 else groups


def by_source_partition(
    batch: pa.RecordBatch, topic: str | None = None
) -> Iterator[tuple[Where, pa.RecordBatch]]:
    """The batch in parts of one Kafka partition each.

    Args:
        topic: of all messages, when the batch has no such column.
    """
    if not batch.num_rows:
        return
    if topic is not None:
        batch = batch.append_column("topic", pa.repeat(topic, batch.num_rows))
    fields = [field for field in MESSAGE_SCHEMA if field.name in batch.schema.names]
    batch = pa.RecordBatch.from_arrays(
        [_as_type(batch.column(field.name), field.type) for field in fields],
        schema=pa.schema(fields),
    )
    codes = batch.column("partition").to_numpy().astype(np.int64)
    if topic is None:
        codes |= batch.column("topic").dictionary_encode().indices.to_numpy().astype(np.int64) << 32
    offsets = batch.column("offset").to_numpy()
    same = codes[1:] == codes[:-1]
    assert (offsets[1:] >= offsets[:-1])[same].all(), "a task reads in order of offsets"
    starts = [0, *(np.flatnonzero(~same) + 1).tolist(), len(codes)]
    for start, stop in itertools.pairwise(starts):
        where = batch.column("topic")[start].as_py(), batch.column("partition")[start].as_py()
        yield where, batch.slice(start, stop - start)


def _as_type(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    return column if column.type == wanted else column.cast(wanted)
