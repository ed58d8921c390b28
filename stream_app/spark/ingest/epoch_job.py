"""An epoch as a Spark job: decode and route, one shuffle for all tables, write.

All that is Spark's of an epoch's work; what a task does stands in `route_task` and `write_task`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from stream_app.cdc.change_batch import BAD_RECORD_SCHEMA, MESSAGE_SCHEMA
from stream_app.spark.ingest.blocks import BLOCK_COLUMNS, BLOCK_ORDER
from stream_app.spark.ingest.epoch_plan import EpochPlan
from stream_app.spark.ingest.epoch_runner import TableOutput, outputs_of
from stream_app.spark.ingest.route_task import route_partition
from stream_app.spark.ingest.write_task import RESULT_COLUMNS, write_partition

INGEST_POOL = "ingest"
_POSITION = ["topic", "partition", "offset"]


@dataclass(frozen=True, slots=True)
class SparkEpochs:
    """Implements `epoch_runner.EpochRunner` for the DataFrame of a micro-batch."""

    spark: SparkSession

    def run(self, epoch: int, messages: DataFrame, plan: EpochPlan) -> Sequence[TableOutput]:
        """See `EpochRunner.run`."""
        context = self.spark.sparkContext
        context.setLocalProperty("spark.scheduler.pool", INGEST_POOL)
        context.setJobDescription(f"epoch {epoch}: decode, route, write")
        rows = write_blocks(route_blocks(messages, plan), plan).collect()
        return outputs_of(plan, ((table, kind, payload) for table, kind, payload in rows))

    def with_keys(self, messages: DataFrame, bad: pa.Table) -> pa.Table:
        """See `EpochRunner.with_keys`."""
        return with_keys(messages, bad)


def route_blocks(messages: DataFrame, plan: EpochPlan) -> DataFrame:
    """Decode messages and bring each bucket's blocks to one task, in order.

    Args:
        messages: columns of `MESSAGE_SCHEMA`. Keys that no format reads are left behind: Spark
            copies each three times on its way (see `with_keys`).

    Returns:
        Columns of `BLOCK_COLUMNS` in `plan.shape.tasks` partitions.
    """

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return route_partition(batches, plan)

    shape = plan.shape
    if shape.sort_messages:
        messages = messages.repartition(shape.tasks, "topic", "partition")
        messages = messages.sortWithinPartitions("topic", "partition", "offset")
    unneeded = set() if plan.reads_keys else {"key"}
    if shape.topic is not None:
        unneeded.add("topic")
    messages = messages.select(*(name for name in MESSAGE_SCHEMA.names if name not in unneeded))
    blocks = messages.mapInArrow(run, BLOCK_COLUMNS)
    return blocks.repartition(shape.tasks, "task").sortWithinPartitions(*BLOCK_ORDER)


def write_blocks(blocks: DataFrame, plan: EpochPlan) -> DataFrame:
    """Write all blocks; columns of `RESULT_COLUMNS`."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return write_partition(batches, plan)

    return blocks.mapInArrow(run, RESULT_COLUMNS)


def with_keys(messages: DataFrame, bad: pa.Table) -> pa.Table:
    """Bad records with their keys, for which the epoch's messages are read once more.

    Spark gives a micro-batch the same messages each time.

    Args:
        messages: those of the epoch; columns of `MESSAGE_SCHEMA`.
        bad: columns of `BAD_RECORD_SCHEMA`.

    Returns:
        A table of `BAD_RECORD_SCHEMA`, in no order.
    """
    positions = messages.sparkSession.createDataFrame(bad.select(_POSITION))
    wanted = messages.select(*_POSITION, "key").join(F.broadcast(positions), _POSITION, "left_semi")
    # Files may say a position twice; a topic does not.
    found = wanted.toArrow().group_by(_POSITION, use_threads=False)
    keys = found.aggregate([("key", "first")]).rename_columns([*_POSITION, "key"])
    records = bad.drop_columns("key").join(keys, _POSITION)
    return records.select(BAD_RECORD_SCHEMA.names).cast(BAD_RECORD_SCHEMA)
