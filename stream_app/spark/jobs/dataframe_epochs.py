"""Runs an epoch of a DataFrame as a Spark job: decode and route, one shuffle for all tables, write.

Only this module uses Spark; `route_task` and `write_task` contain the code of the tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from stream_app.cdc.change_batch import MESSAGE_SCHEMA
from stream_app.epochs.stages.blocks import BLOCK_COLUMNS, BLOCK_ORDER, block_rows
from stream_app.epochs.stages.epoch_plan import EpochPlan
from stream_app.epochs.stages.epoch_runner import EpochOutput, RoutedEpoch, output_of
from stream_app.epochs.stages.route_task import route_in_task
from stream_app.epochs.stages.write_task import TaskBlock, TaskResult, write_in_task
from stream_app.model.job_epoch import Offsets

INGEST_POOL = "ingest"
RESULT_COLUMNS = "table_index INT, kind INT, payload BINARY"
_RESULT_SCHEMA = pa.schema(
    [("table_index", pa.int32()), ("kind", pa.int32()), ("payload", pa.binary())]
)
_TOMBSTONE = (
    "'' AS topic",
    "0 AS partition",
    "id AS offset",
    "timestamp_millis(0) AS timestamp",
    "CAST(NULL AS BINARY) AS key",
    "CAST(NULL AS BINARY) AS value",
)


@dataclass(frozen=True, slots=True)
class DataFrameEpochRunner:
    """The runner of epochs that are the DataFrame of a micro-batch. Implements `EpochRunner`.

    Attributes:
        read_between: returns the messages of `EpochRunner.messages_between`; None for a source
            without topics, of which only whole micro-batches can be read.
    """

    spark: SparkSession
    read_between: Callable[[SparkSession, Offsets, Offsets], DataFrame] | None = None
    overlaps: ClassVar[bool] = False

    def route(self, epoch: int, messages: DataFrame, plan: EpochPlan) -> RoutedEpoch:
        """See `EpochRunner.route`; here `write` does all the work, as one Spark job."""
        context = self.spark.sparkContext
        blocks = route_blocks(messages, plan)

        def write(plan: EpochPlan) -> EpochOutput:
            context.setLocalProperty("spark.scheduler.pool", INGEST_POOL)
            context.setJobDescription(f"epoch {epoch}: decode, route, write")
            rows = write_blocks(blocks, plan).collect()
            return output_of(TaskResult(*row) for row in rows)

        return RoutedEpoch(0, write)

    def messages_between(self, start_offsets: Offsets, end_offsets: Offsets) -> DataFrame:
        """See `EpochRunner.messages_between`."""
        assert self.read_between is not None, "only a job that reads topics goes back"
        return self.read_between(self.spark, start_offsets, end_offsets)

    def warm_up(self, plan: EpochPlan) -> None:
        """Run an epoch of tombstones, which writes nothing."""
        task_count = plan.settings.task_count
        messages = self.spark.range(0, task_count, 1, task_count).selectExpr(*_TOMBSTONE)
        write_blocks(route_blocks(messages, plan), plan).collect()

    def close(self) -> None:
        """Do nothing, because Spark owns the connections."""


def route_blocks(messages: DataFrame, plan: EpochPlan) -> DataFrame:
    """Decode messages, and move each bucket's blocks to one task, in order.

    Args:
        messages: columns of `MESSAGE_SCHEMA`.

    Returns:
        Columns of `BLOCK_COLUMNS` in `plan.settings.task_count` partitions.
    """

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return block_rows(route_in_task(batches, plan), plan.settings.task_count)

    settings = plan.settings
    if settings.sorts_messages:
        messages = messages.repartition(settings.task_count, "topic", "partition")
        messages = messages.sortWithinPartitions("topic", "partition", "offset")
    blocks = messages.select(*MESSAGE_SCHEMA.names).mapInArrow(run, BLOCK_COLUMNS)
    return blocks.repartition(settings.task_count, "task").sortWithinPartitions(*BLOCK_ORDER)


def write_blocks(blocks: DataFrame, plan: EpochPlan) -> DataFrame:
    """Write all blocks; return columns of `RESULT_COLUMNS`, a row for each `TaskResult`."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return map(_result_row, write_in_task(task_blocks(batches), plan))

    return blocks.mapInArrow(run, RESULT_COLUMNS)


def task_blocks(batches: Iterable[pa.RecordBatch]) -> Iterator[TaskBlock]:
    """Yield the blocks in batches of `BLOCK_COLUMNS`."""
    for batch in batches:
        columns = (batch.column(name).to_pylist() for name in TaskBlock._fields[:-1])
        buffers = (cell.as_buffer() for cell in batch.column("block"))
        yield from map(TaskBlock, *columns, buffers)


def _result_row(result: TaskResult) -> pa.RecordBatch:
    arrays = [
        pa.array([value], arrow_type)
        for value, arrow_type in zip(result, _RESULT_SCHEMA.types, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=_RESULT_SCHEMA)
