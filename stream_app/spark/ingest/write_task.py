"""Stage 2 of an epoch, the body of a task: blocks of one bucket after another → files → changes.

Blocks come in the order (table, partition, bucket, source position), so one writer is open at a
time and its buffer is the task's memory. The changes of buckets go back to the driver as bytes; bad
records and counts pass through.

Source: Paimon `flink/sink/StoreSinkWriteImpl.java`.
"""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from typing import NamedTuple

import pyarrow as pa

from stream_app.cdc.change_batch import change_schema
from stream_app.format.arrow_schema import arrow_schema
from stream_app.spark.ingest.blocks import BlockKind
from stream_app.spark.ingest.epoch_plan import EpochPlan
from stream_app.table.kinds.tasks import table_write
from stream_app.table.storage_errors import storage_errors
from stream_app.table.write.table_write import TableWrite

RESULT_COLUMNS = "table INT, kind INT, payload BINARY"
"""A row for each bucket's change and for each other block.

Rows of kind ``CHANGES`` hold a pickled `BucketChange`; the others hold the block.
"""
_RESULT_SCHEMA = pa.schema([("table", pa.int32()), ("kind", pa.int32()), ("payload", pa.binary())])


class _Block(NamedTuple):
    table: int
    kind: int
    partition: bytes
    bucket: int
    data: pa.Scalar


def write_partition(batches: Iterable[pa.RecordBatch], plan: EpochPlan) -> Iterator[pa.RecordBatch]:
    """Write a task's blocks; batches of `RESULT_COLUMNS`.

    What the task has written, in whichever table, is deleted when it fails.
    """
    writes: list[tuple[int, TableWrite]] = []
    with ExitStack() as stack:
        for index, blocks in itertools.groupby(_blocks(batches), key=lambda block: block.table):
            table = plan.table(index).table
            schema = change_schema(arrow_schema(table.schema.fields))
            stack.enter_context(storage_errors(table.location))
            first = plan.table(index).next_sequence_number
            write = stack.enter_context(table_write(table, next_sequence_number=first))
            writes.append((index, write))
            for block in blocks:
                if block.kind == BlockKind.CHANGES:
                    rows = pa.ipc.read_record_batch(block.data.as_buffer(), schema)
                    write.write((block.partition, block.bucket), rows)
                else:
                    yield _result(index, block.kind, block.data.as_py())
            write.finish_bucket()
        for index, write in writes:
            with storage_errors(plan.table(index).table.location):
                changes = write.prepare_commit()
            for change in changes:
                yield _result(index, BlockKind.CHANGES, pickle.dumps(change))


def _blocks(batches: Iterable[pa.RecordBatch]) -> Iterator[_Block]:
    for batch in batches:
        columns = (batch.column(name).to_pylist() for name in _Block._fields[:-1])
        yield from map(_Block, *columns, batch.column("block"))


def _result(table: int, kind: int, payload: bytes) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [
            pa.array([table], pa.int32()),
            pa.array([int(kind)], pa.int32()),
            pa.array([payload], pa.binary()),
        ],
        schema=_RESULT_SCHEMA,
    )
