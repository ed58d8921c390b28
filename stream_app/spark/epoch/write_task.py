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
from stream_app.spark.epoch.blocks import BlockKind
from stream_app.spark.epoch.epoch_plan import EpochPlan
from stream_app.table.kinds.tasks import table_write
from stream_app.table.storage_errors import storage_errors
from stream_app.table.write.table_write import TableWrite

TaskResult = tuple[int, int, bytes]
"""Table, kind of block and payload, for each bucket's change and for each other block.

The payload of the kind ``CHANGES`` is a pickled `BucketChange`, else the block itself.
"""


class TaskBlock(NamedTuple):
    """A block as a writing task gets it."""

    table: int
    kind: int
    partition: bytes
    bucket: int
    data: pa.Buffer


def write_partition(blocks: Iterable[TaskBlock], plan: EpochPlan) -> Iterator[TaskResult]:
    """Write a task's blocks.

    What the task has written, in whichever table, is deleted when it fails.
    """
    writes: list[tuple[int, TableWrite]] = []
    with ExitStack() as stack:
        for index, of_table in itertools.groupby(blocks, key=lambda block: block.table):
            table = plan.table(index).table
            schema = change_schema(arrow_schema(table.schema.fields))
            stack.enter_context(storage_errors(table.location))
            first = plan.table(index).next_sequence_number
            write = stack.enter_context(table_write(table, next_sequence_number=first))
            writes.append((index, write))
            for block in of_table:
                if block.kind == BlockKind.CHANGES:
                    rows = pa.ipc.read_record_batch(block.data, schema)
                    write.write((block.partition, block.bucket), rows)
                else:
                    yield index, block.kind, block.data.to_pybytes()
            write.finish_bucket()
        for index, write in writes:
            with storage_errors(plan.table(index).table.location):
                changes = write.prepare_commit()
            for change in changes:
                yield index, int(BlockKind.CHANGES), pickle.dumps(change)
