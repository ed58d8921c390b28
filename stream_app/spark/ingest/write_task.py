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
_RESULT_TYPES = (pa.int32(), pa.int32(), pa.binary())
_RESULT_SCHEMA = pa.schema(list(zip(("table", "kind", "payload"), _RESULT_TYPES, strict=True)))


class ShuffledBlock(NamedTuple):
    """What of a block a writing task needs; see `blocks.BLOCK_COLUMNS`."""

    table: int
    kind: int
    partition: bytes
    bucket: int
    data: pa.Buffer


Result = tuple[int, int, bytes]
"""A row of `RESULT_COLUMNS`."""


def write_partition(batches: Iterable[pa.RecordBatch], plan: EpochPlan) -> Iterator[pa.RecordBatch]:
    """`written_blocks` for batches of `blocks.BLOCK_COLUMNS`; batches of `RESULT_COLUMNS`."""
    for result in written_blocks(_blocks(batches), plan):
        columns = [
            pa.array([value], kind) for value, kind in zip(result, _RESULT_TYPES, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=_RESULT_SCHEMA)


def written_blocks(blocks: Iterable[ShuffledBlock], plan: EpochPlan) -> Iterator[Result]:
    """Write a task's blocks, which come in the order of `blocks.BLOCK_ORDER`.

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


def _blocks(batches: Iterable[pa.RecordBatch]) -> Iterator[ShuffledBlock]:
    for batch in batches:
        columns = (batch.column(name).to_pylist() for name in ShuffledBlock._fields[:-1])
        data = (cell.as_buffer() for cell in batch.column("block"))
        yield from map(ShuffledBlock, *columns, data)
