"""Runs an epoch as Spark jobs without SQL: tasks read shares of a source, decode, shuffle, write.

Spark schedules, shuffles and repeats tasks. A block is a pair of its sort key and its bytes, for
which Spark compiles no code. The tasks before the shuffle are a separate job, so they can run while
the previous epoch is written and committed.

This job ends at a partition after the shuffle that contains no block. Each reading task sends it
the number of its messages, and the tables that have blocks. A second job computes the other
partitions, and reuses the finished shuffle.

`range_epochs` uses it to read ranges of Kafka's offsets, and `load_epochs` to read rows of a
database.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import pyarrow as pa
from pyspark import RDD
from pyspark.sql import SparkSession

from stream_app.epochs.stages.blocks import TaskAssigner
from stream_app.epochs.stages.epoch_plan import EpochPlan
from stream_app.epochs.stages.epoch_runner import EpochOutput, RoutedEpoch, output_of
from stream_app.epochs.stages.route_task import route_in_task
from stream_app.epochs.stages.write_task import TaskBlock, TaskResult, write_in_task
from stream_app.spark.jobs.dataframe_epochs import INGEST_POOL

Share = TypeVar("Share")
Pair = tuple[tuple[Any, ...], tuple[int, Any]]
"""A pair in the shuffle: a block's task and sort key, with its kind and bytes. The last partition
has pairs of a reading task: its number of messages, and the tables that have blocks."""


@dataclass(slots=True)
class CountedBatches:
    """Batches of messages, and the number of messages that were read."""

    batches: Iterable[pa.RecordBatch]
    message_count: int = 0

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for batch in self.batches:
            self.message_count += batch.num_rows
            yield batch


@dataclass(frozen=True, slots=True)
class ShareEpochRunner(Generic[Share]):
    """The runner of epochs whose messages are read in shares, one by each task.

    Attributes:
        read: reads shares in a task, as batches of `MESSAGE_SCHEMA`; can be pickled.
    """

    spark: SparkSession
    read: Callable[[Iterable[Share]], Iterator[pa.RecordBatch]]

    def route(self, epoch: int, shares: Sequence[Share], plan: EpochPlan) -> RoutedEpoch:
        """Read and route the shares; the blocks wait in the files of Spark's shuffle."""
        context = self.spark.sparkContext
        context.setLocalProperty("spark.scheduler.pool", INGEST_POOL)
        context.setJobDescription(f"epoch {epoch}: read, decode, route")
        if not shares:
            return RoutedEpoch(0, lambda _: output_of(()), frozenset())
        routed_pairs = self._route(shares, plan)
        message_count, table_indices = self._run_before_shuffle(
            routed_pairs, plan.settings.task_count
        )

        def write(plan: EpochPlan) -> EpochOutput:
            context.setLocalProperty("spark.scheduler.pool", INGEST_POOL)
            context.setJobDescription(f"epoch {epoch}: write")
            return output_of(self._write(routed_pairs, plan))

        return RoutedEpoch(message_count, write, table_indices)

    def warm_up(self, shares: Sequence[Share], plan: EpochPlan) -> None:
        """Run an epoch of shares without messages, which starts the workers and their readers."""
        routed_pairs = self._route(shares, plan)
        self._run_before_shuffle(routed_pairs, plan.settings.task_count)
        self._write(routed_pairs, plan)

    def _route(self, shares: Sequence[Share], plan: EpochPlan) -> RDD[Pair]:
        """Read the shares in tasks, and shuffle their blocks to the writing tasks.

        The last partition, which belongs to no writing task, receives the counts and the tables.
        """
        read, task_count = self.read, plan.settings.task_count

        def route(task_shares: Iterable[Share]) -> Iterator[Pair]:
            batches = CountedBatches(read(task_shares))
            table_indices = set[int]()
            assigner = TaskAssigner(task_count)
            for block in route_in_task(batches, plan):
                table_indices.add(block.table_index)
                pair_key = (assigner.task(block), *block.sort_key)
                yield pair_key, (int(block.kind), block.data.to_pybytes())
            yield (task_count,), (batches.message_count, table_indices)

        routed_pairs = self.spark.sparkContext.parallelize(shares, len(shares)).mapPartitions(route)
        return routed_pairs.partitionBy(task_count + 1, _task_number)

    def _run_before_shuffle(
        self, routed_pairs: RDD[Pair], last_partition: int
    ) -> tuple[int, set[int]]:
        """Run the tasks before the shuffle; return a number of messages, and tables with blocks."""
        counts = self.spark.sparkContext.runJob(routed_pairs, _counts_of_pairs, [last_partition])
        return sum(count for count, _ in counts), set[int]().union(
            *(table_indices for _, table_indices in counts)
        )

    def _write(self, routed_pairs: RDD[Pair], plan: EpochPlan) -> Iterable[TaskResult]:
        """Write each task's blocks in order."""

        def write(pairs: Iterable[Pair]) -> Iterator[TaskResult]:
            return write_in_task(map(_task_block, pairs), plan)

        task_count = plan.settings.task_count
        # This partitions by the same function, so Spark shuffles nothing again.
        sorted_pairs = routed_pairs.repartitionAndSortWithinPartitions(
            task_count + 1, partitionFunc=_task_number, keyfunc=_sort_key
        )
        return self.spark.sparkContext.runJob(sorted_pairs, write, list(range(task_count)))


def _counts_of_pairs(pairs: Iterable[Pair]) -> Iterator[tuple[int, set[int]]]:
    return (counts for _, counts in pairs)


def _task_number(key: tuple[Any, ...]) -> int:
    task: int = key[0]
    return task


def _sort_key(key: tuple[Any, ...]) -> Any:
    return key


def _task_block(pair: Pair) -> TaskBlock:
    (_, table_index, partition, bucket, *_), (kind, data) = pair
    return TaskBlock(table_index, kind, partition, bucket, pa.py_buffer(data))
