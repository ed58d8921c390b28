"""Reads ranges of offsets as Arrow batches: exactly the planned ones, or an error that says why.

Tasks call it by `reader_of_process`. A worker keeps one reader for each cluster and its settings,
so that connections, logins and cluster metadata outlive a task. A task's data never does. While a
batch is decoded, librdkafka prefetches the next messages, up to a bound.

Offsets without a message are not lost: compaction leaves gaps, and so do transactions' markers and
aborted messages. An offset is lost when the partition begins after it or ends before it. Then
`fails_on_loss` decides, as in Spark.

Source: Spark `kafka010/consumer/KafkaDataConsumer.scala`.
"""

from __future__ import annotations

import atexit
import logging
import os
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache

import numpy as np
import pyarrow as pa

from stream_app.arrow_buffers import Bools, Int64s
from stream_app.cdc.schema_registry_port import SchemaHeaders
from stream_app.clock import Clock, SystemClock
from stream_app.errors import SourceError, WrongSourceError
from stream_app.kafka.librdkafka import (
    GONE_CODES,
    LOGIN_CODES,
    SEE_BROKERS,
    KafkaCode,
    forbidden_read_error,
    refused_login_error,
)
from stream_app.kafka.message_columns import MessageFields, message_batch, message_fields
from stream_app.kafka.message_stamps import timestamp_reader
from stream_app.kafka.offset_ranges import OffsetRange, join_ranges
from stream_app.kafka.schema_headers import HeaderMover
from stream_app.kafka.several_clusters import ClientSettings, open_client

_LOG = logging.getLogger(__name__)
BATCH_MESSAGES_MAX = 16_384
_BATCH_SIZE = 16 << 20
"""The usual size of a batch; a single message may be larger."""
_FIRST_MESSAGE_COUNT = 256
"""Messages of the first batch, before their size is known."""
_WAIT_MS = 20
_ANSWER_MS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderSettings:
    """The settings of a reader, by which a process keeps its readers; they can be pickled.

    Attributes:
        client_settings: librdkafka's options and their values; they may hold passwords.
        clusters: names of further clusters, with the options of their clients.
        headers: the headers that name a message's schema, or None to read no headers.
        fails_on_loss: whether lost offsets are an error; else the reader logs a line.
        ranges_at_once: the number of ranges that are fetched at once, such as the current one and
            the next. More ranges cost memory, and make many short ranges quicker.
        timeout_s: reading fails after so long without a message or the end of the range.
        tail_timeout_s: after so long without a message at the partition's end, the reader asks the
            broker whether it ends before the range. A new leader may not know its end at once.
        fails_after_s: reading fails after so long without progress, before the reader decides
            whether offsets are lost; None lets it decide.
    """

    client_settings: ClientSettings = field(repr=False)
    clusters: tuple[tuple[str, ClientSettings], ...] = field(default=(), repr=False)
    headers: SchemaHeaders | None = None
    fails_on_loss: bool = True
    ranges_at_once: int = 2
    timeout_s: float = 120.0
    tail_timeout_s: float = 10.0
    fails_after_s: float | None = None


@dataclass(slots=True)
class _Progress:
    """The progress of one range.

    Attributes:
        next_offset: the offset of the next message.
        reached_at_s: when the reader reached this offset, in steady seconds.
        is_at_end: whether the newest fetch found the partition's end at this offset.
        has_asked: whether the reader has asked the broker for the end at this offset.
        has_restarted: whether the reader has started the partition again at this offset.
        last_error: what the client reported last; empty without an error.
    """

    offset_range: OffsetRange
    next_offset: int
    reached_at_s: float
    is_at_end: bool = False
    has_asked: bool = False
    has_restarted: bool = False
    last_error: str = ""

    def advance(self, offset: int, now_s: float) -> None:
        if offset > self.next_offset:
            self.next_offset = offset
            self.reached_at_s = now_s
            self.is_at_end = self.has_asked = self.has_restarted = False


class RangeReader:
    """A reader of ranges, one after another; for one thread of the process that made it.

    Raises:
        UsageError: librdkafka refuses the settings.
    """

    def __init__(self, settings: ReaderSettings, clock: Clock | None = None) -> None:
        self.settings = settings
        self._clock = clock or SystemClock()
        self._client = open_client(settings.client_settings, settings.clusters)
        self._timestamp_reader = timestamp_reader()
        self._header_mover = HeaderMover(settings.headers)
        self._started_ranges: deque[OffsetRange] = deque()
        self._batch_messages_max, self._has_answered = _FIRST_MESSAGE_COUNT, False

    def read(self, ranges: Sequence[OffsetRange]) -> Generator[pa.RecordBatch, None, None]:
        """Yield the messages of all ranges, in order, in batches of `MESSAGE_SCHEMA`.

        A batch has messages of one partition, and none is empty.

        Raises:
            SourceError: no broker answers, or messages are damaged.
            WrongSourceError: offsets are lost, or the login or the right to read is missing.
        """
        waiting_ranges, has_failed = deque(join_ranges(ranges)), False
        try:
            while waiting_ranges or self._started_ranges:
                self._start_ranges(waiting_ranges)
                yield from self._read_first_range()
                self._stop_first_range()
        except SourceError:
            has_failed = True
            raise
        finally:
            while self._started_ranges:
                self._stop_first_range()
            if has_failed:  # stale cluster metadata may be the cause
                self._client.close()
                self._client = open_client(self.settings.client_settings, self.settings.clusters)

    def offset_bounds(self, topic: str, partition: int) -> tuple[int, int]:
        """Return the oldest offset of a partition, and the one after the newest that may be read.

        Raises:
            SourceError: no broker answers.
            WrongSourceError: the login or the right to read is missing.
        """
        return self._watermarks(OffsetRange(topic, partition, 0, 0))

    def close(self) -> None:
        """Close connections and threads; running reads end with them."""
        while self._started_ranges:
            self._stop_first_range()
        self._client.close()

    def _start_ranges(self, waiting_ranges: deque[OffsetRange]) -> None:
        while waiting_ranges and len(self._started_ranges) < self.settings.ranges_at_once:
            started_partitions = {target.kafka_partition for target in self._started_ranges}
            if waiting_ranges[0].kafka_partition in started_partitions:
                return
            target = waiting_ranges.popleft()
            self._client.start(target.topic, target.partition, target.start)
            self._started_ranges.append(target)

    def _stop_first_range(self) -> None:
        target = self._started_ranges.popleft()
        self._client.stop(target.topic, target.partition)

    def _read_first_range(self) -> Iterator[pa.RecordBatch]:
        offset_range = self._started_ranges[0]
        progress = _Progress(offset_range, offset_range.start, self._clock.steady_seconds())
        while progress.next_offset < offset_range.end:
            message_count = min(self._batch_messages_max, offset_range.end - progress.next_offset)
            pointers = np.empty(message_count, np.int64)
            count = self._client.consume(*offset_range.kafka_partition, pointers, wait_ms=_WAIT_MS)
            if count:
                self._has_answered = True
                batch = self._take_batch(pointers[:count], progress)
                if batch is not None:
                    self._batch_messages_max = _next_messages_max(self._batch_messages_max, batch)
                    yield batch
                    # The time without progress excludes the consumer's work.
                    progress.reached_at_s = self._clock.steady_seconds()
            else:
                self._check_patience(progress)

    def _take_batch(self, pointers: Int64s, progress: _Progress) -> pa.RecordBatch | None:
        """Return a batch of the messages that belong to the range, and release all messages."""
        addresses = pointers.tolist()
        try:
            fields = message_fields(pointers)
            is_in_range = _range_mask(fields, progress)
            batch = None
            if is_in_range.any():
                range_fields = fields
                if not is_in_range.all():
                    range_fields = MessageFields(*(column[is_in_range] for column in fields))
                now_s = self._clock.steady_seconds()
                self._check_gaps(range_fields.offsets, progress)
                stamps = self._timestamp_reader.timestamps(pointers[is_in_range])
                batch = message_batch(*progress.offset_range.kafka_partition, range_fields, stamps)
                batch = self._header_mover.prepend(batch, pointers[is_in_range])
                progress.advance(int(range_fields.offsets[-1]) + 1, now_s)
            self._judge_other_messages(fields, progress)
            return batch
        finally:
            self._client.release(addresses)

    def _judge_other_messages(self, fields: MessageFields, progress: _Progress) -> None:
        """Handle everything else that arrives: the range's end, later messages, and errors."""
        now_s, offset_range = self._clock.steady_seconds(), progress.offset_range
        is_later = (fields.errors == 0) & (fields.offsets >= offset_range.end)
        later_indices = np.flatnonzero(is_later).tolist()
        for index in np.flatnonzero(fields.errors).tolist():  # one or two, at an end
            if later_indices and index > later_indices[0]:
                break
            code, offset = int(fields.errors[index]), int(fields.offsets[index])
            if code == KafkaCode.PARTITION_EOF:
                if offset >= offset_range.end:
                    self._check_tail(progress)
                progress.advance(min(offset, offset_range.end), now_s)
                progress.is_at_end = progress.next_offset < offset_range.end
            elif code in (KafkaCode.AUTO_OFFSET_RESET, KafkaCode.OFFSET_OUT_OF_RANGE):
                self._skip_gap(progress)
                return
            elif code in GONE_CODES:
                progress.last_error = self._client.text(code)
            else:
                raise self._failure(offset_range, code)
        if later_indices:
            self._check_tail(progress)
            progress.advance(offset_range.end, now_s)

    def _check_gaps(self, offsets: Int64s, progress: _Progress) -> None:
        """Check that skipped offsets still exist; else messages at them may be lost."""
        if int(offsets[-1]) - progress.next_offset + 1 == len(offsets):
            return
        expected_offsets = np.append(progress.next_offset, offsets[:-1] + 1)
        index = int(np.argmax(offsets != expected_offsets))
        self._check_passed(int(expected_offsets[index]), int(offsets[index]), progress)

    def _check_tail(self, progress: _Progress) -> None:
        if progress.next_offset < progress.offset_range.end:
            self._check_passed(progress.next_offset, progress.offset_range.end, progress)

    def _check_passed(self, start: int, end: int, progress: _Progress) -> None:
        oldest_offset = self._client.known_start(*progress.offset_range.kafka_partition)
        if oldest_offset > start:
            available = f"the partition begins at {oldest_offset}"
            self._report_loss(progress.offset_range, start, min(oldest_offset, end), available)

    def _skip_gap(self, progress: _Progress) -> None:
        """Skip an offset that the partition lacks, to the part of the range that it has."""
        offset_range = progress.offset_range
        oldest_offset, newest_offset = self._watermarks(offset_range)
        available = f"the partition has the offsets {oldest_offset} to {newest_offset}"
        if progress.next_offset >= newest_offset or oldest_offset >= offset_range.end:
            self._skip_loss(progress, offset_range.end, available)
            return
        offset = max(oldest_offset, progress.next_offset)
        if offset > progress.next_offset or progress.has_restarted:
            # If the offset exists after all, the topic was recreated in between.
            self._skip_loss(progress, offset, available)
        progress.has_restarted = True  # the error may be of an earlier start of this partition
        self._client.stop(offset_range.topic, offset_range.partition)
        self._client.start(offset_range.topic, offset_range.partition, offset)

    def _skip_loss(self, progress: _Progress, offset: int, available: str) -> None:
        self._report_loss(progress.offset_range, progress.next_offset, offset, available)
        progress.advance(offset, self._clock.steady_seconds())

    def _report_loss(self, offset_range: OffsetRange, start: int, end: int, available: str) -> None:
        problem = (
            f"the records at offsets {start} to {end} of "
            f"{offset_range.topic}/{offset_range.partition} cannot be read: {available}"
        )
        if self.settings.fails_on_loss:
            raise WrongSourceError(
                problem,
                where=str(offset_range),
                fix="check whether the topic's retention.ms is too short, or whether the topic was "
                "recreated; to continue without them, set source.fail-on-data-loss = false",
            )
        _LOG.warning("%s; going on without them", problem)

    def _watermarks(self, offset_range: OffsetRange) -> tuple[int, int]:
        watermarks = self._client.watermarks(*offset_range.kafka_partition, timeout_ms=_ANSWER_MS)
        if isinstance(watermarks, int):
            for code, text in self._client.take_errors():
                if code in LOGIN_CODES:
                    raise refused_login_error(text, str(offset_range), "executors")
            raise self._failure(offset_range, watermarks)
        return watermarks

    def _check_patience(self, progress: _Progress) -> None:
        """Decide whether to give up, because no message has arrived."""
        for code, text in self._client.take_errors():
            progress.last_error = text
            if code in LOGIN_CODES and not self._has_answered:
                raise refused_login_error(text, str(progress.offset_range), "executors")
        waited_s = self._clock.steady_seconds() - progress.reached_at_s
        fails_after_s = self.settings.fails_after_s
        if fails_after_s is not None and waited_s > fails_after_s:
            problem = f"Kafka delivered nothing for {waited_s:.0f} s"
            raise SourceError(problem, where=str(progress.offset_range), fix=SEE_BROKERS)
        if waited_s > self.settings.timeout_s:
            self._give_up(progress, waited_s)
        elif waited_s > self.settings.tail_timeout_s and progress.is_at_end:
            self._skip_beyond_end(progress)

    def _skip_beyond_end(self, progress: _Progress) -> None:
        if progress.has_asked:
            return
        progress.has_asked = True
        offset_range = progress.offset_range
        watermarks = self._client.watermarks(*offset_range.kafka_partition, timeout_ms=_ANSWER_MS)
        if not isinstance(watermarks, int) and watermarks[1] <= progress.next_offset:
            self._skip_loss(progress, offset_range.end, f"the partition ends at {watermarks[1]}")

    def _give_up(self, progress: _Progress, waited_s: float) -> None:
        """Count a deleted partition as lost, but only after the timeout.

        A broker that starts, or has just created the topic, does not know the partition either.
        """
        offset_range = progress.offset_range
        watermarks = self._client.watermarks(*offset_range.kafka_partition, timeout_ms=_ANSWER_MS)
        if watermarks in GONE_CODES:
            available = f"{offset_range.topic}/{offset_range.partition} is gone"
            self._skip_loss(progress, offset_range.end, available)
            return
        cause = f"; the last error was: {progress.last_error}" if progress.last_error else ""
        raise SourceError(
            f"Kafka delivered nothing at offset {progress.next_offset} for {waited_s:.0f} s{cause}",
            where=str(offset_range),
            fix=SEE_BROKERS,
        )

    def _failure(self, offset_range: OffsetRange, code: int) -> SourceError:
        text, where = self._client.text(code), str(offset_range)
        if code == KafkaCode.TOPIC_AUTHORIZATION_FAILED:
            return forbidden_read_error(offset_range.topic, text, where)
        if code in GONE_CODES:
            return WrongSourceError(
                f"the broker has no partition {offset_range.partition} of a topic "
                f"{offset_range.topic} ({text})",
                where=where,
                fix="check whether the topic was deleted, and correct the names of the topics",
            )
        return SourceError(f"Kafka's client cannot continue: {text}", where=where, fix=SEE_BROKERS)


def _range_mask(fields: MessageFields, progress: _Progress) -> Bools:
    offsets = fields.offsets
    is_in_range: Bools = (offsets >= progress.next_offset) & (offsets < progress.offset_range.end)
    is_in_range &= fields.errors == 0
    highest_offsets = np.maximum.accumulate(np.where(is_in_range, offsets, -1))
    is_in_range[1:] &= offsets[1:] > highest_offsets[:-1]  # leaves out an offset that comes again
    return is_in_range


def _next_messages_max(messages_max: int, batch: pa.RecordBatch) -> int:
    """Return the messages of a batch of the usual bytes, if messages keep their size."""
    fitting_row_count: int = _BATCH_SIZE * batch.num_rows // max(batch.nbytes, 1)
    return max(1, min(fitting_row_count, messages_max * 8, BATCH_MESSAGES_MAX))


def reader_of_process(settings: ReaderSettings) -> RangeReader:
    """Return the reader of this process for these settings, made at the first call."""
    # A client's threads do not survive a fork.
    return _open_reader(os.getpid(), settings)


@cache
def _open_reader(process: int, settings: ReaderSettings) -> RangeReader:
    reader = RangeReader(settings)

    def close() -> None:
        if process == os.getpid():
            reader.close()

    atexit.register(close)
    return reader
