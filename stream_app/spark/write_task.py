"""Stage 2 of an epoch: blocks of one bucket after another → files → commit messages.

Runs on executors. Blocks come in the order (partition, bucket, source position), so one writer is
open at a time and its buffer is the task's memory. Commit messages go back to the driver as bytes;
bad records and counts pass through.

Source: Paimon `flink/sink/StoreSinkWriteImpl.java`.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark.sql import DataFrame

from stream_app.cdc.change_batch import change_schema
from stream_app.format.arrow_schema import arrow_schema
from stream_app.model.commit_message import CommitMessage
from stream_app.spark.route_blocks import BlockKind
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.write_bucket import BucketId, BucketWriter, bucket_writer, finish

RESULT_COLUMNS = "kind INT, payload BINARY"
_RESULT_SCHEMA = pa.schema([("kind", pa.int32()), ("payload", pa.binary())])


@dataclass(frozen=True, slots=True)
class WritePlan:
    """What a writing task must know.

    Attributes:
        next_sequence_number: greater than any sequence number in the table.
    """

    table: FileStoreTable
    next_sequence_number: int


def write_blocks(blocks: DataFrame, plan: WritePlan) -> DataFrame:
    """Write all blocks; one row for each bucket's commit message and each other block.

    Rows of kind ``CHANGES`` hold a pickled `CommitMessage`; the others hold the block.
    """

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return write_partition(batches, plan)

    return blocks.mapInArrow(run, RESULT_COLUMNS)


def write_partition(batches: Iterable[pa.RecordBatch], plan: WritePlan) -> Iterator[pa.RecordBatch]:
    """The body of a task; see `write_blocks`. What it wrote is deleted when it fails."""
    task = _WriteTask(plan)
    try:
        for batch in batches:
            for kind, payload in task.take(batch):
                yield _result(kind, payload)
        last = task.finish()
        if last is not None:
            yield _result(BlockKind.CHANGES, last)
    except BaseException:
        task.abort()
        raise


@dataclass(slots=True)
class _WriteTask:
    plan: WritePlan
    _writer: BucketWriter | None = None
    _bucket: BucketId | None = None
    _schema: pa.Schema = field(init=False)

    def __post_init__(self) -> None:
        self._schema = change_schema(arrow_schema(self.plan.table.schema.fields))

    def take(self, batch: pa.RecordBatch) -> Iterator[tuple[int, bytes]]:
        """Write a batch of blocks; what is finished or only passes through."""
        kinds = batch.column("kind").to_pylist()
        partitions = batch.column("partition").to_pylist()
        buckets = batch.column("bucket").to_pylist()
        blocks = batch.column("block")
        for index, kind in enumerate(kinds):
            if kind != BlockKind.CHANGES:
                yield kind, blocks[index].as_py()
                continue
            bucket = (partitions[index], buckets[index])
            if bucket != self._bucket:
                finished = self.finish()
                if finished is not None:
                    yield BlockKind.CHANGES, finished
                self._open(bucket)
            assert self._writer is not None
            rows = pa.ipc.read_record_batch(blocks[index].as_buffer(), self._schema)
            self._writer.write(rows)

    def finish(self) -> bytes | None:
        """Close the open writer; its commit message."""
        if self._writer is None or self._bucket is None:
            return None
        message = finish(self._writer, *self._bucket)
        self._writer = self._bucket = None
        return pickle.dumps(message)

    def abort(self) -> None:
        """Delete the open writer's files."""
        if self._writer is not None:
            self._writer.abort()
            self._writer = None

    def _open(self, bucket: BucketId) -> None:
        self._bucket = bucket
        self._writer = bucket_writer(
            self.plan.table, *bucket, next_sequence_number=self.plan.next_sequence_number
        )


def commit_message(payload: bytes) -> CommitMessage:
    """The message in a row of kind ``CHANGES``; only this job's own tasks write such rows."""
    message = pickle.loads(payload)
    assert isinstance(message, CommitMessage)
    return message


def _result(kind: int, payload: bytes) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [pa.array([int(kind)], pa.int32()), pa.array([payload], pa.binary())],
        schema=_RESULT_SCHEMA,
    )
