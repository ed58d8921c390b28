"""Runs small epochs in the driver's process, by the code of the tasks, and others in Spark's tasks.

Two Spark jobs cost many times more than a few messages. So an epoch of few messages is read,
decoded and written here (docs/adr/0036-small-epochs-in-the-driver.md). Plans are pickled as for a
task, so both ways work with the same values.

If an epoch fails here, Spark's tasks repeat it. They have retries, wait for brokers without a
limit, and can be cancelled by a stop.
"""

from __future__ import annotations

import logging
import pickle
import threading
from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import ClassVar

import pyarrow as pa
from pyspark.sql import SparkSession

from stream_app.epochs.stages.blocks import Block, BlockKind
from stream_app.epochs.stages.epoch_plan import EpochPlan
from stream_app.epochs.stages.epoch_runner import EpochOutput, RoutedEpoch, output_of
from stream_app.epochs.stages.route_task import route_in_task
from stream_app.epochs.stages.write_task import TaskBlock, write_in_task
from stream_app.epochs.task_errors import first_line
from stream_app.kafka.offset_ranges import OffsetRange
from stream_app.kafka.range_reader import RangeReader
from stream_app.model.job_epoch import Offsets
from stream_app.spark.jobs.range_epochs import RangeEpochRunner
from stream_app.spark.jobs.share_epochs import CountedBatches

_LOG = logging.getLogger(__name__)
_BYTES_MAX = 16 << 20
"""Bytes of an epoch's messages up to which the driver runs the epoch."""
_BLOCKS_MAX = 100
"""Blocks of an epoch up to which the driver writes them, each to a file or two."""
_CHANGES = (BlockKind.CHANGES, BlockKind.INCOMPLETE_CHANGES)
_TABLE_COST = 10
"""The cost of a table in messages: each message may belong to another table."""
_FAILS_AFTER_S = 2.0
"""The time without progress after which Spark's tasks read the epoch instead."""
_RANGES_AT_ONCE = 16
"""Partitions that are fetched at once, because the first fetch of each takes some milliseconds."""


class _NotSmallError(Exception):
    """An epoch of few messages turned out to be expensive; Spark's tasks read it again."""


@dataclass(slots=True)
class DriverEpochRunner:
    """The runner of epochs of few messages, in the driver. Implements `EpochRunner`.

    Attributes:
        spark_runner: runs the epochs that are not small.
        messages_max: the most messages of an epoch that runs here; 0 if none does.
    """

    spark_runner: RangeEpochRunner
    messages_max: int
    overlaps: ClassVar[bool] = True
    _reading: threading.Lock = field(init=False, default_factory=threading.Lock)
    _reader: RangeReader | None = field(init=False, default=None)

    @property
    def spark(self) -> SparkSession:
        """The session of the epochs that are not small."""
        return self.spark_runner.spark

    def route(self, epoch: int, ranges: Sequence[OffsetRange], plan: EpochPlan) -> RoutedEpoch:
        """See `EpochRunner.route`; the blocks of a small epoch wait in this process."""
        if not self._is_small(ranges, plan):
            return self.spark_runner.route(epoch, ranges, plan)
        try:
            message_count, blocks = self._route_here(ranges, plan)
        except _NotSmallError:
            return self.spark_runner.route(epoch, ranges, plan)
        except Exception as error:
            _log_repetition(epoch, error)
            return self.spark_runner.route(epoch, ranges, plan)

        def write(write_plan: EpochPlan) -> EpochOutput:
            try:
                results = list(write_in_task(blocks, _shipped_plan(write_plan)))
                return output_of(results, ran_in_driver=True)
            except Exception as error:
                _log_repetition(epoch, error)
                return self.spark_runner.route(epoch, ranges, plan).write(write_plan)

        return RoutedEpoch(message_count, write, {block.table_index for block in blocks})

    def messages_between(
        self, start_offsets: Offsets, end_offsets: Offsets
    ) -> Sequence[OffsetRange]:
        """See `EpochRunner.messages_between`."""
        return self.spark_runner.messages_between(start_offsets, end_offsets)

    def warm_up(self, plan: EpochPlan) -> None:
        """See `RangeEpochRunner.warm_up`."""
        self.spark_runner.warm_up(plan)

    def close(self) -> None:
        """Close the connections to the brokers."""
        with self._reading:
            if self._reader is not None:
                self._reader.close()
                self._reader = None

    def _is_small(self, ranges: Sequence[OffsetRange], plan: EpochPlan) -> bool:
        """Return whether an epoch runs here.

        Tables with an index over all partitions cannot, because the index is on the executors'
        disks.
        """
        messages_max = self.messages_max
        if plan.settings.holds_tables:
            messages_max //= _TABLE_COST
        return (
            sum(offset_range.size for offset_range in ranges) <= messages_max
            and not plan.indexes_all_keys
        )

    def _route_here(
        self, ranges: Sequence[OffsetRange], plan: EpochPlan
    ) -> tuple[int, list[TaskBlock]]:
        """Route messages here; return their number, and the blocks in the order of a task."""
        # Formats change as they learn from messages, and only one thread at a time may use the
        # reader.
        with self._reading, closing(self._read_messages(ranges)) as batches:
            counted_batches = CountedBatches(batches)
            routed_blocks = route_in_task(counted_batches, _shipped_plan(plan))
            blocks = sorted(routed_blocks, key=lambda block: block.sort_key)
        if sum(block.kind in _CHANGES for block in blocks) > _BLOCKS_MAX:
            raise _NotSmallError
        return counted_batches.message_count, [_task_block(block) for block in blocks]

    def _read_messages(
        self, ranges: Sequence[OffsetRange]
    ) -> Generator[pa.RecordBatch, None, None]:
        if self._reader is None:
            reader_settings = self.spark_runner.reader_settings
            self._reader = RangeReader(
                replace(
                    reader_settings, ranges_at_once=_RANGES_AT_ONCE, fails_after_s=_FAILS_AFTER_S
                )
            )
        bytes_read = 0
        with closing(self._reader.read(ranges)) as batches:
            for batch in batches:
                bytes_read += batch.nbytes
                if bytes_read > _BYTES_MAX:
                    raise _NotSmallError
                yield batch


def _log_repetition(epoch: int, error: Exception) -> None:
    _LOG.warning("epoch %d is repeated by Spark's tasks: %s", epoch, first_line(error))


def _shipped_plan(plan: EpochPlan) -> EpochPlan:
    """Return the plan as a task gets it: with cached tables that count their requests."""
    unpacked_plan: EpochPlan = pickle.loads(pickle.dumps(plan))
    return unpacked_plan


def _task_block(block: Block) -> TaskBlock:
    return TaskBlock(block.table_index, block.kind, block.partition, block.bucket, block.data)
