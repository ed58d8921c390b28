"""Runs an epoch of Kafka's offset ranges, of which each task reads a share.

`share_epochs` does the work of the tasks.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import pyarrow as pa
from pyspark.sql import SparkSession

from stream_app.epochs.stages.epoch_plan import EpochPlan
from stream_app.epochs.stages.epoch_runner import RoutedEpoch
from stream_app.kafka.offset_ranges import OffsetRange, cut_ranges, ranges_between, share_out
from stream_app.kafka.range_reader import ReaderSettings, reader_of_process
from stream_app.model.job_epoch import Offsets
from stream_app.spark.jobs.share_epochs import ShareEpochRunner

Ranges = Sequence[OffsetRange]


@dataclass(frozen=True, slots=True)
class RangeEpochRunner:
    """The runner of epochs that are ranges of Kafka's offsets. Implements `EpochRunner`.

    Attributes:
        reader_count: the greatest number of tasks that read. A task reads one range after the
            other, and librdkafka fetches the next one meanwhile.
    """

    spark: SparkSession
    reader_settings: ReaderSettings
    reader_count: int
    overlaps: ClassVar[bool] = True

    def route(self, epoch: int, ranges: Ranges, plan: EpochPlan) -> RoutedEpoch:
        """See `EpochRunner.route`."""
        shares = share_out(cut_ranges(ranges, self.reader_count), self.reader_count)
        return self._epochs.route(epoch, shares, plan)

    def messages_between(self, start_offsets: Offsets, end_offsets: Offsets) -> Ranges:
        """See `EpochRunner.messages_between`."""
        return ranges_between(start_offsets, end_offsets)

    def warm_up(self, plan: EpochPlan) -> None:
        """Run an epoch without messages, which starts the workers and connects their readers."""
        self._epochs.warm_up([[]] * self.reader_count, plan)

    @property
    def _epochs(self) -> ShareEpochRunner[Ranges]:
        return ShareEpochRunner(self.spark, partial(_messages_of, self.reader_settings))


def _messages_of(
    reader_settings: ReaderSettings, shares: Iterable[Ranges]
) -> Iterator[pa.RecordBatch]:
    return reader_of_process(reader_settings).read(list(itertools.chain.from_iterable(shares)))
