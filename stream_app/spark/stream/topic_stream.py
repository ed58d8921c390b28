"""Cuts Kafka's topics into epochs, for the native reader.

The stream plans an epoch by two requests to the brokers, and records its end in the checkpoint.
Then it gives the ranges to the committer, and records that the epoch is done. The records have
Spark's paths, order and format. So after a crash the job resumes as Spark's query would, and
Spark's query can continue this job.

No DataFrame, no plan of Spark and no process beside the driver's take part
(docs/adr/0027-the-job-plans-its-epochs.md).

Source: Spark `MicroBatchExecution.scala`, `TriggerExecutor.scala`.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from pyspark.sql import SparkSession

from stream_app.checkpoint.epoch_log import EpochLog
from stream_app.checkpoint.epoch_log_writer import EpochLogWriter
from stream_app.clock import Clock
from stream_app.epochs.stream.epoch_pace import FixedPace, Pace
from stream_app.epochs.stream.running_stream import SourceProgress
from stream_app.errors import StoppedError, WrongSourceError
from stream_app.kafka.next_offsets import first_offsets, next_end, vanished_partitions
from stream_app.kafka.offset_client import GONE_AFTER_S, OffsetEnd
from stream_app.kafka.offset_ranges import OffsetRange, messages_behind, ranges_between
from stream_app.model.job_epoch import Offsets

_LOG = logging.getLogger(__name__)
IDLE_S = 0.01
"""Minimum time between two checks for messages, as in Spark."""
_ASK_AGAIN_S = 0.2
_CANCEL_AGAIN_S = 0.5


class SourceOffsetReader(Protocol):
    """A reader of topics' first and last offsets; `kafka.offset_client` implements it."""

    def offsets_at(self, end: OffsetEnd) -> Offsets:
        """Return the oldest or newest offset of each partition; may wait for a while."""
        ...

    def give_up(self) -> None:
        """Make a waiting `offsets_at` raise an error."""
        ...

    def close(self) -> None:
        """Close connections."""
        ...


class EpochCutter(Protocol):
    """A cutter, which decides where epochs end."""

    def choose_end(
        self,
        epoch: int,
        start_offsets: Offsets,
        newest_offsets: Offsets,
        is_stopping: Callable[[], bool],
    ) -> Offsets:
        """Choose an epoch's end; return `start_offsets` when it has no messages yet.

        Args:
            start_offsets: the start of the epoch, with the oldest offsets of new partitions, so
                that the limit counts their messages.
            newest_offsets: the ends of all partitions.
            is_stopping: returns whether the job is stopping.

        Raises:
            SourceError: messages that decide it cannot be read.
            StoppedError: the job is stopping.
        """
        ...

    def close(self) -> None:
        """Close connections."""
        ...


@dataclass(frozen=True, slots=True)
class LimitedEpochCutter:
    """A cutter by the number of messages alone. Implements `EpochCutter`.

    Attributes:
        messages_max: the maximum number of messages of an epoch, or None without a limit.
    """

    messages_max: int | None = None

    def choose_end(
        self,
        _epoch: int,
        start_offsets: Offsets,
        newest_offsets: Offsets,
        _is_stopping: Callable[[], bool],
    ) -> Offsets:
        """Return the newest offsets, or smaller ones that keep the limit."""
        return next_end(start_offsets, newest_offsets, self.messages_max)

    def close(self) -> None:
        """Do nothing, because the cutter holds no resources."""


class SparkJobs(Protocol):
    """Spark's jobs of one thread."""

    def join(self) -> None:
        """Make the jobs of the calling thread belong to it."""
        ...

    def cancel(self) -> None:
        """Cancel its running jobs."""
        ...


@dataclass(frozen=True, slots=True)
class JobGroup:
    """The jobs of a job group of Spark's. Implements `SparkJobs`."""

    spark: SparkSession
    name: str

    def join(self) -> None:
        """Set the job group of the calling thread."""
        self.spark.sparkContext.setJobGroup(self.name, self.name, interruptOnCancel=True)

    def cancel(self) -> None:
        """Cancel the running jobs of the group."""
        self.spark.sparkContext.cancelJobGroup(self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochRules:
    """The rules by which epochs are cut.

    Attributes:
        starting_offsets: ``earliest``, ``latest`` or JSON; for a new checkpoint.
        messages_max: the maximum number of messages of an epoch, for `epoch_cutter`, or None
            without a limit.
        fails_on_loss: whether deleted offsets are an error; otherwise the stream logs a line.
        drains: whether the stream ends at the newest offsets of its start.
        load_epoch_count: number of epochs before the first message; a first load's rows fill them.
    """

    starting_offsets: str = "earliest"
    messages_max: int | None = None
    fails_on_loss: bool = True
    drains: bool = True
    load_epoch_count: int = 0


@dataclass(slots=True, kw_only=True)
class TopicStream:
    """A stream whose epochs the driver plans itself. Implements `running_stream.Stream`.

    Attributes:
        process_epoch: gives the committer an epoch's ranges and number, and returns the number of
            its messages.
        read_failure: returns the committer's own error, of which `process_epoch` raises only the
            first line.
        epoch_cutter: decides where epochs end; None leaves that to the rules' limit.
        pace: decides when they begin, unless the stream drains its source.
        patience_s: seconds after which offsets that brokers do not know count as lost.
    """

    rules: EpochRules
    offset_reader: SourceOffsetReader
    epoch_log: EpochLog
    writer: EpochLogWriter
    process_epoch: Callable[[Sequence[OffsetRange], int], int]
    read_failure: Callable[[], BaseException | None]
    jobs: SparkJobs
    clock: Clock
    epoch_cutter: EpochCutter | None = None
    pace: Pace = field(default_factory=FixedPace)
    patience_s: float = GONE_AFTER_S
    _stop_requested: threading.Event = field(init=False, default_factory=threading.Event)
    _thread: threading.Thread = field(init=False)
    _error: BaseException | None = field(init=False, default=None)
    _new_progress: list[SourceProgress] = field(init=False, default_factory=list)
    _lock: threading.Lock = field(init=False, default_factory=threading.Lock)
    _lost_texts: set[str] = field(init=False, default_factory=set)

    def start(self) -> None:
        """Start the thread of the stream."""
        self._thread = threading.Thread(target=self._run, name="stream", daemon=True)
        self._thread.start()

    def wait_for_end(self, wait_s: float) -> bool:
        """Wait for the end of the thread, and raise the error that ended it."""
        self._thread.join(wait_s)
        if self._thread.is_alive():
            return False
        if self._error is not None:
            raise self.read_failure() or self._error
        return True

    def take_progress(self) -> Sequence[SourceProgress]:
        """See `Stream.take_progress`."""
        with self._lock:
            new_progress, self._new_progress = self._new_progress, []
        return new_progress

    def stop(self) -> None:
        """Ask the thread to stop, and cancel its jobs until it ends."""
        self._stop_requested.set()
        self.offset_reader.give_up()
        while self._thread.is_alive():
            with contextlib.suppress(Exception):  # the JVM may have ended already
                self.jobs.cancel()
            # A job may begin just after the others were cancelled.
            self._thread.join(_CANCEL_AGAIN_S)

    def _run(self) -> None:
        try:
            self.jobs.join()
            self._run_epochs()
        except BaseException as error:
            if not self._stop_requested.is_set():
                self._error = error
        finally:
            self.offset_reader.close()
            if self.epoch_cutter is not None:
                self.epoch_cutter.close()

    def _run_epochs(self) -> None:
        """Plan, record and run epochs until a stop, or until the source is drained."""
        messages_max = self.rules.messages_max
        epoch_cutter = self.epoch_cutter or LimitedEpochCutter(messages_max)
        self.writer.begin_query()
        polled_at_s, newest_offsets = self._poll()
        epoch, start_offsets = self._resume(newest_offsets)
        is_idle = is_full = True
        while not self._stop_requested.is_set():
            if epoch < self.rules.load_epoch_count:
                epoch = self._run_load_epoch(epoch, start_offsets, newest_offsets)
                polled_at_s, newest_offsets = self._poll()
                continue
            newest_offsets = self._wait_for_newest_offsets(start_offsets, newest_offsets)
            counted_start = self._with_new_partitions(start_offsets, newest_offsets)
            end_offsets = epoch_cutter.choose_end(
                epoch, counted_start, newest_offsets, self._stop_requested.is_set
            )
            # The first epoch notes where the job begins, even without messages.
            is_idle = end_offsets == start_offsets and epoch > 0
            if is_idle:
                is_full = False
                self._report(epoch - 1, 0, end_offsets, newest_offsets)
            else:
                self.pace.begin(epoch)
                self.writer.begin(epoch, end_offsets, self.clock.now_ms())
                message_count = self._run_epoch(epoch, start_offsets, end_offsets, newest_offsets)
                is_full = (
                    messages_max is not None
                    and end_offsets != newest_offsets
                    and message_count >= messages_max // 2
                )
                epoch, start_offsets = epoch + 1, end_offsets
            if not self.rules.drains:
                next_poll_at_s = polled_at_s + self.pace.choose_pause_s(is_full=is_full)
                self._wait(next_poll_at_s, wait_min_s=IDLE_S if is_idle else 0.0)
                polled_at_s, newest_offsets = self._poll()
            elif is_idle or end_offsets == newest_offsets:
                return

    def _poll(self) -> tuple[float, Offsets]:
        """Return when the brokers were asked, by the steady clock, and the newest offsets."""
        polled_at_s = self.clock.steady_seconds()
        newest_offsets = self.offset_reader.offsets_at(OffsetEnd.NEWEST)
        self.pace.note_poll(polled_at_s)
        return polled_at_s, newest_offsets

    def _run_load_epoch(self, epoch: int, start_offsets: Offsets, newest_offsets: Offsets) -> int:
        """Run an epoch of a first load, which leaves the offsets as they are; return the next."""
        self.writer.begin(epoch, start_offsets, self.clock.now_ms())
        self._run_epoch(epoch, start_offsets, start_offsets, newest_offsets)
        return epoch + 1

    def _resume(self, newest_offsets: Offsets) -> tuple[int, Offsets]:
        """Run the epoch that an earlier run left open; return the next one and its start offsets.

        A new checkpoint gets the first offsets instead.
        """
        newest_epoch = self.writer.newest_epoch()
        if newest_epoch is None:
            if not self.writer.has_first_offsets():
                oldest_offsets = self.offset_reader.offsets_at(OffsetEnd.OLDEST)
                self.writer.write_first_offsets(
                    first_offsets(self.rules.starting_offsets, oldest_offsets, newest_offsets)
                )
            return 0, self.epoch_log.start_offsets(0)
        end_offsets = self.epoch_log.end_offsets(newest_epoch)
        if not self.epoch_log.is_done(newest_epoch):
            self._run_epoch(
                newest_epoch,
                self.epoch_log.start_offsets(newest_epoch),
                end_offsets,
                newest_offsets,
            )
        return newest_epoch + 1, end_offsets

    def _run_epoch(
        self, epoch: int, start_offsets: Offsets, end_offsets: Offsets, newest_offsets: Offsets
    ) -> int:
        message_count = self.process_epoch(ranges_between(start_offsets, end_offsets), epoch)
        self.writer.finish(epoch)
        self._report(epoch, message_count, end_offsets, newest_offsets)
        return message_count

    def _report(
        self, epoch: int, message_count: int, end_offsets: Offsets, newest_offsets: Offsets
    ) -> None:
        partition_lags = messages_behind(end_offsets, newest_offsets)
        progress = SourceProgress(
            epoch=epoch,
            message_count=message_count,
            lag=sum(partition_lags.values()),
            end_offsets=end_offsets,
            partition_lags=partition_lags,
            newest_offsets=newest_offsets,
        )
        with self._lock:
            last_progress = self._new_progress[-1] if self._new_progress else None
            if (
                last_progress is not None
                and last_progress.epoch == epoch
                and not last_progress.message_count
            ):
                self._new_progress.pop()  # between epochs the newest is enough
            self._new_progress.append(progress)

    def _wait_for_newest_offsets(self, start_offsets: Offsets, newest_offsets: Offsets) -> Offsets:
        """Wait until no newest offset is before one that the job has read; return the newest.

        The stream asks the brokers again for a while.

        Raises:
            WrongSourceError: such an offset remains, and a loss is an error.
        """
        deadline_s = self.clock.steady_seconds() + self.patience_s
        while (
            lost_texts := vanished_partitions(start_offsets, newest_offsets)
        ) and not self._lost_texts.issuperset(lost_texts):
            if self._stop_requested.wait(_ASK_AGAIN_S):
                raise StoppedError("the job is stopping")
            if self.clock.steady_seconds() < deadline_s:
                newest_offsets = self.offset_reader.offsets_at(OffsetEnd.NEWEST)
                continue
            if self.rules.fails_on_loss:
                raise WrongSourceError(
                    f"the topics lack what the job has read: {'; '.join(lost_texts)}",
                    where="source.topics",
                    fix="see whether the topic was deleted or recreated, and whether source.topics "
                    "or source.topic-pattern still matches its whole name; to continue without it, "
                    "set source.fail-on-data-loss = false",
                )
            self._lost_texts.update(lost_texts)
            _LOG.warning("%s; the job continues without it", "; ".join(lost_texts))
        return newest_offsets

    def _with_new_partitions(self, start_offsets: Offsets, newest_offsets: Offsets) -> Offsets:
        """Add the oldest offsets of new partitions, so that the limit counts their messages."""
        is_known = all(
            newest_offsets[topic].keys() <= start_offsets.get(topic, {}).keys()
            for topic in newest_offsets
        )
        if self.rules.messages_max is None or is_known:
            return start_offsets
        oldest_offsets = self.offset_reader.offsets_at(OffsetEnd.OLDEST)
        return {
            topic: {**oldest_offsets.get(topic, {}), **start_offsets.get(topic, {})}
            for topic in newest_offsets
        }

    def _wait(self, deadline_s: float, wait_min_s: float) -> None:
        remaining_s = deadline_s - self.clock.steady_seconds()
        self._stop_requested.wait(max(remaining_s, wait_min_s, 0.0))
