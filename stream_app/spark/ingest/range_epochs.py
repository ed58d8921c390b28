"""An epoch as a Spark job over ranges of offsets: read natively, decode and route, shuffle, write.

The micro-batch's DataFrame is not run: Spark's source plans the offsets, and each task reads its
ranges by `kafka.range_reader`. What goes through the shuffle are pairs of Python objects, few and
large, so no plan is made and no code generated. What a task does stands in `route_task` and
`write_task`.

Spark notes in the checkpoint where an epoch ends before it calls the job. The epoch begins where
the one before ended, the first one where the source began.

Source: Spark `KafkaSourceInitialOffsetWriter.scala`, `OffsetSeqLog.scala`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark import RDD, SparkContext
from pyspark.sql import DataFrame

from stream_app.errors import WrongSourceError
from stream_app.kafka.offset_ranges import (
    EpochRanges,
    OffsetRange,
    Offsets,
    epoch_ranges,
    read_offsets,
    split_ranges,
)
from stream_app.kafka.range_reader import ReaderSettings, kept_reader
from stream_app.spark.ingest.blocks import BLOCK_ORDER, task_addresses
from stream_app.spark.ingest.checkpoint_state import source_begin, source_end
from stream_app.spark.ingest.epoch_job import INGEST_POOL
from stream_app.spark.ingest.epoch_plan import EpochPlan
from stream_app.spark.ingest.epoch_runner import TableOutput, outputs_of
from stream_app.spark.ingest.route_task import route_partition
from stream_app.spark.ingest.write_task import Result, ShuffledBlock, written_blocks
from stream_app.spark.job_folder import Folder

_LOG = logging.getLogger(__name__)

_EPOCHS_REMEMBERED = 16

BlockKey = tuple[int, int, bytes, int, str, int, int]
"""The address of a task, and the columns of `BLOCK_ORDER`."""
BlockPair = tuple[BlockKey, tuple[int, bytes]]
"""A block on its way: its key, its kind and its bytes."""


@dataclass(frozen=True, slots=True)
class SourceRanges:
    """Of the epochs of a checkpoint.

    Attributes:
        fails_on_loss: whether a partition that is gone is an error; else a line in the log.
    """

    checkpoint: Folder
    fails_on_loss: bool

    def of_epoch(self, epoch: int) -> EpochRanges:
        """What the epoch reads.

        Raises:
            WrongSourceError: a partition is gone, or has become shorter.
        """
        found = epoch_ranges(self._begins(epoch), read_offsets(source_end(self.checkpoint, epoch)))
        if found.losses:
            told = "; ".join(found.losses)
            if self.fails_on_loss:
                raise WrongSourceError(
                    f"records were lost before they were read: {told}",
                    where="source.topics",
                    fix="was the topic deleted or made anew? source.fail-on-data-loss = false goes "
                    "on with what is left",
                )
            _LOG.warning("records were lost before they were read: %s; going on", told)
        return found

    def _begins(self, epoch: int) -> Offsets:
        if epoch == 0:
            return read_offsets(source_begin(self.checkpoint))
        return read_offsets(source_end(self.checkpoint, epoch - 1))


@dataclass(slots=True, kw_only=True)
class RangeEpochs:
    """Implements `epoch_runner.EpochRunner`; the micro-batch's messages are read by ranges.

    Attributes:
        ranges_of: what an epoch reads.
        settings: of the readers.
        parts: least number of tasks that read.
    """

    context: SparkContext
    ranges_of: Callable[[int], EpochRanges]
    settings: ReaderSettings
    parts: int
    _messages: dict[int, int] = field(init=False, default_factory=dict)

    def run(self, epoch: int, messages: DataFrame, plan: EpochPlan) -> Sequence[TableOutput]:  # noqa: ARG002
        """See `EpochRunner.run`."""
        ranges = split_ranges(self.ranges_of(epoch).ranges, self.parts)
        self.context.setLocalProperty("spark.scheduler.pool", INGEST_POOL)
        self.context.setJobDescription(f"epoch {epoch}: read, decode, route, write")
        outputs = outputs_of(plan, self.results(ranges, plan))
        self._messages[epoch] = sum(output.counts.messages for output in outputs)
        self._messages.pop(epoch - _EPOCHS_REMEMBERED, None)
        return outputs

    def warm_up(self, plan: EpochPlan) -> None:
        """Run an epoch of nothing, in which the workers start and their readers connect."""
        self.results([OffsetRange("", 0, 0, 0)] * max(self.parts, plan.shape.tasks), plan)

    def results(self, ranges: Sequence[OffsetRange], plan: EpochPlan) -> list[Result]:
        """Read ranges and write what they hold."""
        if not ranges:
            return []
        tasks = plan.shape.tasks
        # The reader gives each message's topic.
        plan = replace(plan, shape=replace(plan.shape, topic=None))
        numbers = {address: task for task, address in enumerate(task_addresses(tasks))}
        blocks = self.context.parallelize(ranges, len(ranges)).mapPartitions(
            partial(_read_and_route, settings=self.settings, plan=plan)
        )
        in_order: RDD[BlockPair] = blocks.repartitionAndSortWithinPartitions(
            tasks, partial(_task_of, numbers=numbers), keyfunc=_key
        )
        found: list[Result] = in_order.mapPartitions(partial(_write, plan=plan)).collect()
        return found

    def with_keys(self, messages: DataFrame, bad: pa.Table) -> pa.Table:  # noqa: ARG002
        """See `EpochRunner.with_keys`: the reader leaves no key behind."""
        return bad

    def messages_of(self, epoch: int) -> int | None:
        """How many messages one of the newest epochs had; None: it is none of them."""
        return self._messages.get(epoch)


def _read_and_route(
    ranges: Iterable[OffsetRange], settings: ReaderSettings, plan: EpochPlan
) -> Iterator[BlockPair]:
    messages = kept_reader(settings).read(list(ranges))
    for batch in route_partition(messages, plan):
        keys = (batch.column(name).to_pylist() for name in ("task", *BLOCK_ORDER))
        values = (batch.column(name).to_pylist() for name in ("kind", "block"))
        yield from zip(zip(*keys, strict=True), zip(*values, strict=True), strict=True)


def _key(key: BlockKey) -> Any:
    return key


def _task_of(key: BlockKey, numbers: dict[int, int]) -> int:
    return numbers[key[0]]


def _write(pairs: Iterable[BlockPair], plan: EpochPlan) -> Iterator[Result]:
    return written_blocks(
        (
            ShuffledBlock(table, kind, partition, bucket, pa.py_buffer(data))
            for (_, table, partition, bucket, *_), (kind, data) in pairs
        ),
        plan,
    )
