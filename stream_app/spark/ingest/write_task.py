"""Stage 2 of an epoch: blocks of one bucket after another → files → commit messages.

Runs on executors. Blocks come in the order (partition, bucket, source position), so one writer is
open at a time and its buffer is the task's memory. Commit messages go back to the driver as bytes;
bad records and counts pass through.

Source: Paimon `flink/sink/StoreSinkWriteImpl.java`.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame

from stream_app.cdc.change_batch import change_schema
from stream_app.format.arrow_schema import arrow_schema
from stream_app.model.bucket_change import BucketChange
from stream_app.spark.ingest.route_blocks import BlockKind
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.kinds.tasks import table_write
from stream_app.table.storage_errors import storage_errors

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

    Rows of kind ``CHANGES`` hold a pickled `BucketChange`; the others hold the block.
    """

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return write_partition(batches, plan)

    return blocks.mapInArrow(run, RESULT_COLUMNS)


def write_partition(batches: Iterable[pa.RecordBatch], plan: WritePlan) -> Iterator[pa.RecordBatch]:
    """The body of a task; see `write_blocks`. What it wrote is deleted when it fails."""
    schema = change_schema(arrow_schema(plan.table.schema.fields))
    with (
        storage_errors(plan.table.location),
        table_write(plan.table, next_sequence_number=plan.next_sequence_number) as write,
    ):
        for batch in batches:
            kinds, partitions, buckets = (
                batch.column(name).to_pylist() for name in ("kind", "partition", "bucket")
            )
            blocks = batch.column("block")
            for index, kind in enumerate(kinds):
                if kind == BlockKind.CHANGES:
                    rows = pa.ipc.read_record_batch(blocks[index].as_buffer(), schema)
                    write.write((partitions[index], buckets[index]), rows)
                else:
                    yield _result(kind, blocks[index].as_py())
        for change in write.prepare_commit():
            yield _result(BlockKind.CHANGES, pickle.dumps(change))


def bucket_change(payload: bytes) -> BucketChange:
    """The change in a row of kind ``CHANGES``; only this job's own tasks write such rows."""
    change = pickle.loads(payload)
    assert isinstance(change, BucketChange)
    return change


def _result(kind: int, payload: bytes) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [pa.array([int(kind)], pa.int32()), pa.array([payload], pa.binary())],
        schema=_RESULT_SCHEMA,
    )
