"""Stage 1 of an epoch: a task decodes messages, and makes a block for each bucket.

A task gathers its input up to a limit, so that blocks become large enough. Otherwise thousands of
buckets would produce blocks of ten rows.

Order: a task reads one range of offsets of a Kafka partition, or whole partitions. So a block has
changes of one Kafka partition in the order of its offsets. No other block of its table has offsets
between them. Within a bucket, blocks reach the writer by (topic, Kafka partition, first offset). So
the changes of one key keep the order of their Kafka partition, however the work is split into
tasks. A repeated task may cut its blocks elsewhere, but sends each writing task the same rows in
the same order.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from stream_app.cdc.change_batch import MESSAGE_SCHEMA, concat_rows
from stream_app.clock import Clock, SystemClock
from stream_app.epochs.stages.blocks import (
    NEWCOMERS_INDEX,
    STATEMENTS_INDEX,
    UNREADABLE_INDEX,
    Block,
    BlockKind,
)
from stream_app.epochs.stages.decode_counts import DecodeCounts, counts_of_batch
from stream_app.epochs.stages.epoch_plan import EpochPlan
from stream_app.epochs.stages.epoch_seconds import TaskSeconds
from stream_app.epochs.stages.incomplete_changes import is_incomplete, with_messages
from stream_app.epochs.task_errors import failure_bytes
from stream_app.kafka.offset_ranges import KafkaPartition

_WORTHWHILE_BLOCK_SIZE = 256 << 10
"""A task stops gathering when its blocks have this size on average."""
_NEWCOMERS_SIZE_MAX = 4 << 20
"""Bytes of new tables' messages that a task passes on; a later round brings the rest."""


def route_in_task(
    batches: Iterable[pa.RecordBatch], plan: EpochPlan, clock: Clock | None = None
) -> Iterator[Block]:
    """Yield the blocks of a task's messages.

    Args:
        batches: columns of `MESSAGE_SCHEMA`.
        clock: measures the seconds of reading and decoding.
    """
    router = _Router(plan, clock or SystemClock())
    for batch in router.measure_reading(batches):
        for kafka_partition, messages in split_by_partition(batch):
            for table_index, table_messages, sources in plan.settings.splitter.split(messages):
                if not table_messages.num_rows:
                    continue
                if table_index == NEWCOMERS_INDEX:
                    yield from router.forward_newcomers(kafka_partition, table_messages)
                elif table_index == UNREADABLE_INDEX:
                    yield _block_of(
                        BlockKind.BAD_RECORDS, UNREADABLE_INDEX, kafka_partition, table_messages
                    )
                elif table_index == STATEMENTS_INDEX:
                    yield _block_of(
                        BlockKind.STATEMENTS, STATEMENTS_INDEX, kafka_partition, table_messages
                    )
                elif table_index in plan.table_plans:
                    yield from router.decode(table_index, kafka_partition, table_messages, sources)
    yield from router.finish()


@dataclass(slots=True)
class _GatheredRows:
    """The gathered changes of one Kafka partition for one table."""

    first_offset: int
    last_offset: int
    rows: list[pa.RecordBatch] = field(default_factory=list)


class _Router:
    """The router of a task: it gathers changes by table and Kafka partition, and cuts blocks."""

    def __init__(self, plan: EpochPlan, clock: Clock) -> None:
        self._plan = plan
        self._clock = clock
        self._start_s = clock.steady_seconds()
        self._read_s = 0.0
        self._gathered_rows: dict[tuple[int, KafkaPartition], _GatheredRows] = {}
        self._gathered_size = 0
        self._enough_size = _WORTHWHILE_BLOCK_SIZE
        self._counts: dict[int, DecodeCounts] = defaultdict(DecodeCounts)
        self._failed_tables: set[int] = set()
        self._newcomers_size = 0

    def measure_reading(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the batches, and measure how long the task waits for them."""
        start_s = self._clock.steady_seconds()
        for batch in batches:
            self._read_s += self._clock.steady_seconds() - start_s
            yield batch
            start_s = self._clock.steady_seconds()
        self._read_s += self._clock.steady_seconds() - start_s

    def decode(
        self,
        table_index: int,
        kafka_partition: KafkaPartition,
        messages: pa.RecordBatch,
        sources: Sequence[str] = (),
    ) -> Iterator[Block]:
        """Decode a table's messages of one Kafka partition, in the order of their offsets.

        Args:
            sources: names of the messages' source tables.
        """
        if table_index in self._failed_tables:
            return
        try:
            if len(
                messages := self._drop_truncated_messages(table_index, kafka_partition, messages)
            ):
                yield from self._decode(table_index, kafka_partition, messages, sources)
        except Exception as error:
            if not self._plan.settings.holds_tables:
                raise
            yield self._fail_table(table_index, kafka_partition, error)
        if self._gathered_size >= min(self._plan.settings.block_bytes_max, self._enough_size):
            yield from self._cut_blocks()

    def _drop_truncated_messages(
        self, table_index: int, kafka_partition: KafkaPartition, messages: pa.RecordBatch
    ) -> pa.RecordBatch:
        """Return the messages at or after the TRUNCATE that begins the table's epoch."""
        first_offset = self._plan.table_plans[table_index].first_offsets.get(kafka_partition)
        if first_offset is None:
            return messages
        truncated_count = int(np.searchsorted(messages.column("offset").to_numpy(), first_offset))
        counts = DecodeCounts(message_count=truncated_count, skipped_count=truncated_count)
        self._counts[table_index] = self._counts[table_index].plus(counts)
        return messages.slice(truncated_count)

    def forward_newcomers(
        self, kafka_partition: KafkaPartition, messages: pa.RecordBatch
    ) -> Iterator[Block]:
        """Forward a few messages of tables that the job must still create."""
        if self._newcomers_size < _NEWCOMERS_SIZE_MAX:
            self._newcomers_size += messages.nbytes
            yield _block_of(BlockKind.NEWCOMERS, NEWCOMERS_INDEX, kafka_partition, messages)

    def _fail_table(
        self, table_index: int, kafka_partition: KafkaPartition, error: Exception
    ) -> Block:
        """End the work for a table and drop its rows; the other tables continue."""
        self._failed_tables.add(table_index)
        for key in [key for key in self._gathered_rows if key[0] == table_index]:
            del self._gathered_rows[key]
        return Block(
            table_index=table_index,
            kind=BlockKind.FAILURE,
            kafka_partition=kafka_partition,
            data=pa.py_buffer(failure_bytes(error)),
        )

    def _decode(
        self,
        table_index: int,
        kafka_partition: KafkaPartition,
        messages: pa.RecordBatch,
        sources: Sequence[str],
    ) -> Iterator[Block]:
        """Decode messages of a partition for one table; gather the rows, and yield bad records."""
        offsets = messages.column("offset")
        first_offset, last_offset = offsets[0].as_py(), offsets[-1].as_py()
        gathered_rows = self._gathered_rows.get((table_index, kafka_partition))
        assert gathered_rows is None or first_offset >= gathered_rows.last_offset, (
            "a task reads in order of offsets"
        )
        table_plan = self._plan.table_plans[table_index]
        if gathered_rows is None:
            needed_size = table_plan.assigner().bucket_count * _WORTHWHILE_BLOCK_SIZE
            self._enough_size = max(self._enough_size, needed_size)
        start_s = self._clock.steady_seconds()
        decoded_batch = table_plan.pipeline.decode(messages)
        decode_s = self._clock.steady_seconds() - start_s
        rows = with_messages(decoded_batch.changes, messages)
        bad_records = decoded_batch.bad_records
        if rows.num_rows:
            gathered_rows = self._gathered_rows.setdefault(
                (table_index, kafka_partition), _GatheredRows(first_offset, last_offset)
            )
            gathered_rows.rows.append(rows)
            gathered_rows.last_offset = last_offset
            self._gathered_size += rows.nbytes
        if bad_records.num_rows:
            yield _block_of(BlockKind.BAD_RECORDS, table_index, kafka_partition, bad_records)
        counts = replace(
            counts_of_batch(kafka_partition, messages, decoded_batch, sources), decode_s=decode_s
        )
        self._counts[table_index] = self._counts[table_index].plus(counts)

    def finish(self) -> Iterator[Block]:
        """Yield the last blocks, and the counts of each table."""
        yield from self._cut_blocks()
        total_s = self._clock.steady_seconds() - self._start_s
        decode_s = sum(counts.decode_s for counts in self._counts.values())
        task_seconds = TaskSeconds(total_s, self._read_s, decode_s)
        for table_index, table_counts in self._counts.items():
            # Reading serves all tables of the task, so the first table's counts include it.
            counts = replace(table_counts, read_s=self._read_s, slowest_task=task_seconds)
            self._read_s = 0.0
            yield Block(
                table_index=table_index,
                kind=BlockKind.COUNTS,
                kafka_partition=("", 0),
                data=pa.py_buffer(counts.to_bytes()),
            )

    def _cut_blocks(self) -> Iterator[Block]:
        block_count = 0
        for table_index, kafka_partition in list(self._gathered_rows):
            gathered_rows = self._gathered_rows.pop((table_index, kafka_partition), None)
            if gathered_rows is None:
                continue  # the table has failed in the meantime
            try:
                for block in self._blocks(table_index, kafka_partition, gathered_rows):
                    block_count += 1
                    yield block
            except Exception as error:
                if not self._plan.settings.holds_tables:
                    raise
                yield self._fail_table(table_index, kafka_partition, error)
        self._gathered_size = 0
        self._enough_size = max(self._enough_size, block_count * _WORTHWHILE_BLOCK_SIZE)

    def _blocks(
        self, table_index: int, kafka_partition: KafkaPartition, gathered_rows: _GatheredRows
    ) -> Iterator[Block]:
        """Yield a block for each bucket of the gathered rows, and forget the rows."""
        assigner = self._plan.table_plans[table_index].assigner()
        rows = concat_rows(gathered_rows.rows)
        gathered_rows.rows.clear()
        kind = BlockKind.INCOMPLETE_CHANGES if is_incomplete(rows) else BlockKind.CHANGES
        for partition, bucket, bucket_rows in assigner.assign(rows):
            yield Block(
                table_index=table_index,
                kind=kind,
                kafka_partition=kafka_partition,
                first_offset=gathered_rows.first_offset,
                row_count=bucket_rows.num_rows,
                data=bucket_rows.serialize(),
                partition=partition,
                bucket=bucket,
                keeps_order=assigner.keeps_order,
            )


def _block_of(
    block_kind: BlockKind,
    table_index: int,
    kafka_partition: KafkaPartition,
    messages: pa.RecordBatch,
) -> Block:
    return Block(
        table_index=table_index,
        kind=block_kind,
        kafka_partition=kafka_partition,
        first_offset=messages.column("offset")[0].as_py(),
        row_count=messages.num_rows,
        data=messages.serialize(),
    )


def split_by_partition(batch: pa.RecordBatch) -> Iterator[tuple[KafkaPartition, pa.RecordBatch]]:
    """Split the batch into parts of one Kafka partition each."""
    if not batch.num_rows:
        return
    batch = pa.RecordBatch.from_arrays(
        [batch.column(field.name).cast(field.type) for field in MESSAGE_SCHEMA],
        schema=MESSAGE_SCHEMA,
    )
    codes = batch.column("partition").to_numpy().astype(np.int64)
    codes |= batch.column("topic").dictionary_encode().indices.to_numpy().astype(np.int64) << 32
    offsets = batch.column("offset").to_numpy()
    is_same = codes[1:] == codes[:-1]
    assert (offsets[1:] >= offsets[:-1])[is_same].all(), "a task reads in order of offsets"
    starts = [0, *(np.flatnonzero(~is_same) + 1).tolist(), len(codes)]
    for start, end in itertools.pairwise(starts):
        kafka_partition = (
            batch.column("topic")[start].as_py(),
            batch.column("partition")[start].as_py(),
        )
        yield kafka_partition, batch.slice(start, end - start)
