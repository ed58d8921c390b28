"""An epoch as a Spark job without SQL: tasks read ranges of offsets, decode, shuffle and write.

Spark's source plans the ranges and keeps them in its checkpoint, but its DataFrame does not run.
Spark still schedules, shuffles and repeats tasks. A block travels as a pair of its place and its
bytes, and Spark compiles no code for it. The tasks before the shuffle are a job of their own, so
they can run while the epoch before is written and committed.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pyarrow as pa
from pyspark import RDD, SparkContext
from pyspark.accumulators import Accumulator, _accumulatorRegistry
from pyspark.sql import DataFrame, SparkSession

from stream_app.kafka.offset_ranges import (
    OffsetRange,
    Offsets,
    begins,
    ranges_between,
    shared_out,
)
from stream_app.kafka.range_reader import ReaderSettings, kept_reader
from stream_app.spark.epoch.blocks import Block, BlockDealer
from stream_app.spark.epoch.epoch_plan import EpochPlan
from stream_app.spark.epoch.epoch_runner import EpochOutput, Writing, output_of
from stream_app.spark.epoch.frame_epochs import INGEST_POOL
from stream_app.spark.epoch.planned_ranges import count_input_rows, planned_ranges
from stream_app.spark.epoch.route_task import route_partition
from stream_app.spark.epoch.write_task import TaskBlock, TaskResult, write_partition

Pair = tuple[tuple[Any, ...], tuple[int, bytes]]
"""A block in the shuffle: its task and its place, then its kind and bytes."""
COUNTS_KEPT = 64
"""Epochs whose counts of messages PySpark keeps.

When an executor is lost with its blocks, tasks before the shuffle run again, perhaps long after the
count was read. PySpark receives no count of any task any more after one that it does not know."""
RangeMessages = DataFrame | Sequence[OffsetRange]
"""The micro-batch that Spark has planned, or ranges that the job has chosen itself."""


@dataclass(frozen=True, slots=True)
class RangeEpochs:
    """Implements `epoch_runner.EpochRunner` for micro-batches of Spark's Kafka source.

    Attributes:
        query_id: of the streaming query; read when an epoch has arrived.
        readers: tasks that read, at most. A task reads one range after the other, and librdkafka
            fetches the next one meanwhile.
    """

    spark: SparkSession
    settings: ReaderSettings
    query_id: Callable[[], str]
    readers: int
    _counts: deque[Accumulator[int]] = field(default_factory=deque)
    overlaps: ClassVar[bool] = True

    def route(self, epoch: int, messages: RangeMessages, plan: EpochPlan) -> Writing:
        """See `EpochRunner.route`; the blocks wait in the files of Spark's shuffle."""
        context = self.spark.sparkContext
        context.setLocalProperty("spark.scheduler.pool", INGEST_POOL)
        context.setJobDescription(f"epoch {epoch}: read, decode, route")
        shares = shared_out(_ranges(messages), self.readers)
        if not shares:
            return lambda plan: output_of(plan, ())
        read = self._count()
        routed = self._routed(shares, plan, read)
        _run_map_stage(context, routed)
        if isinstance(messages, DataFrame):
            count_input_rows(self.spark, self.query_id(), read.value)

        def write(plan: EpochPlan) -> EpochOutput:
            context.setLocalProperty("spark.scheduler.pool", INGEST_POOL)
            context.setJobDescription(f"epoch {epoch}: write")
            return output_of(plan, _written(routed, plan).collect())

        return write

    def begin_of(self, messages: RangeMessages) -> Offsets:
        """See `EpochRunner.begin_of`."""
        return begins(_ranges(messages))

    def between(self, begin: Offsets, end: Offsets) -> RangeMessages:
        """See `EpochRunner.between`."""
        return ranges_between(begin, end)

    def warm_up(self, plan: EpochPlan) -> None:
        """Run an epoch without messages, which starts the workers and connects their readers."""
        _written(self._routed([[]] * self.readers, plan, self._count()), plan).collect()

    def _count(self) -> Accumulator[int]:
        """The messages of one epoch, counted by its tasks."""
        self._counts.append(self.spark.sparkContext.accumulator(0))
        if len(self._counts) > COUNTS_KEPT:
            _accumulatorRegistry.pop(self._counts.popleft().aid, None)
        return self._counts[-1]

    def _routed(
        self, shares: Sequence[Sequence[OffsetRange]], plan: EpochPlan, read: Accumulator[int]
    ) -> RDD[Pair]:
        """The blocks of ranges, a share in each task, on their way to the tasks that write."""
        settings, tasks = self.settings, plan.shape.tasks

        def route(planned: Iterable[Sequence[OffsetRange]]) -> Iterator[Pair]:
            messages = kept_reader(settings).read(list(itertools.chain.from_iterable(planned)))
            return _pairs(route_partition(_counted(messages, read), plan), tasks)

        routed = self.spark.sparkContext.parallelize(shares, len(shares)).mapPartitions(route)
        return routed.partitionBy(tasks, _task)

    def with_keys(self, messages: RangeMessages, bad: pa.Table) -> pa.Table:  # noqa: ARG002
        """See `EpochRunner.with_keys`; this runner omits no key."""
        return bad


def _ranges(messages: RangeMessages) -> Sequence[OffsetRange]:
    return planned_ranges(messages) if isinstance(messages, DataFrame) else messages


def _counted(
    messages: Iterable[pa.RecordBatch], read: Accumulator[int]
) -> Iterator[pa.RecordBatch]:
    for batch in messages:
        read.add(batch.num_rows)
        yield batch


def _run_map_stage(context: SparkContext, routed: RDD[Pair]) -> None:
    """Run the tasks before a shuffle now; the job behind the shuffle finds their output there."""
    jvm: Any = context._jvm
    values: Any = routed._jrdd.rdd()  # ← the shuffled pairs ← the shuffle
    shuffle = values.dependencies().head().rdd().dependencies().head()
    running = context._jsc.sc().submitMapStage(shuffle)
    forever = jvm.scala.concurrent.duration.Duration.Inf()
    jvm.org.apache.spark.util.ThreadUtils.awaitResult(running, forever)


def _written(routed: RDD[Pair], plan: EpochPlan) -> RDD[TaskResult]:
    """Write each task's blocks in their order."""

    def write(pairs: Iterable[Pair]) -> Iterator[TaskResult]:
        return write_partition(map(_task_block, pairs), plan)

    dealt = routed.repartitionAndSortWithinPartitions(
        plan.shape.tasks, partitionFunc=_task, keyfunc=_order
    )
    return dealt.mapPartitions(write)


def _pairs(blocks: Iterable[Block], tasks: int) -> Iterator[Pair]:
    dealer = BlockDealer(tasks)
    for block in blocks:
        yield (dealer.task(block), *block.place), (int(block.kind), block.data.to_pybytes())


def _task(key: tuple[Any, ...]) -> int:
    task: int = key[0]
    return task


def _order(key: tuple[Any, ...]) -> Any:
    return key


def _task_block(pair: Pair) -> TaskBlock:
    (_, table, partition, bucket, *_), (kind, data) = pair
    return TaskBlock(table, kind, partition, bucket, pa.py_buffer(data))
