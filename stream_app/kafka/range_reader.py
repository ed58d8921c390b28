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
import numpy.typing as npt
import pyarrow as pa

from stream_app.cdc.schema_registry_port import SchemaHeaders
from stream_app.clock import Clock, SystemClock
from stream_app.errors import SourceError, WrongSourceError
from stream_app.kafka.header_heads import HeaderHeads
from stream_app.kafka.librdkafka import (
    GONE_CODES,
    LOGIN_CODES,
    SEE_BROKERS,
    KafkaCode,
    login_refused,
    reading_forbidden,
)
from stream_app.kafka.message_columns import MessageFields, message_batch, message_fields
from stream_app.kafka.message_stamps import message_stamps
from stream_app.kafka.offset_ranges import OffsetRange, join_ranges
from stream_app.kafka.several_clusters import ClientSettings, open_client

_LOG = logging.getLogger(__name__)
BATCH_MESSAGES = 16_384
_BATCH_BYTES = 16 << 20
"""The usual size of a batch; a single message may be larger."""
_FIRST_MESSAGES = 256
"""Messages of the first batch, before their size is known."""
_WAIT_MS = 20
_ASK_MS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderSettings:
    """The settings of a reader; can be pickled, and is the key of kept readers.

    Attributes:
        client: librdkafka's options and their values; they may hold passwords.
        clusters: names of further clusters, with theirs.
        headers: the headers that name a message's schema, or None to read no headers.
        fails_on_loss: whether lost offsets are an error; else the reader logs a line.
        ahead: ranges that are fetched at once, such as the current one and the next. More cost
            memory, and make many short ranges quicker.
        timeout_s: reading fails after so long without a message or the end of the range.
        tail_timeout_s: after so long without a message at the partition's end, the reader asks the
            broker whether it ends before the range. A new leader may not know its end at once.
        fails_after_s: reading ends with an error after so long without progress, before the reader
            decides whether offsets are lost; None: it decides.
    """

    client: ClientSettings = field(repr=False)
    clusters: tuple[tuple[str, ClientSettings], ...] = field(default=(), repr=False)
    headers: SchemaHeaders | None = None
    fails_on_loss: bool = True
    ahead: int = 2
    timeout_s: float = 120.0
    tail_timeout_s: float = 10.0
    fails_after_s: float | None = None


@dataclass(slots=True)
class _Progress:
    """The progress of one range.

    Attributes:
        next_offset: the offset of the next message.
        since: when the reader reached this offset, in steady seconds.
        at_end: whether the newest fetch found the partition's end there.
        has_asked: whether the reader has asked the broker for the end since.
    """

    whole: OffsetRange
    next_offset: int
    since: float
    at_end: bool = False
    has_asked: bool = False
    has_restarted: bool = False
    last_error: str = ""

    def advance(self, to: int, now: float) -> None:
        if to > self.next_offset:
            self.next_offset, self.since = to, now
            self.at_end = self.has_asked = self.has_restarted = False


class RangeReader:
    """A reader of ranges, one after another; for one thread of the process that made it.

    Raises:
        UsageError: librdkafka refuses the settings.
    """

    def __init__(self, settings: ReaderSettings, clock: Clock | None = None) -> None:
        self.settings = settings
        self._clock = clock or SystemClock()
        self._client = open_client(settings.client, settings.clusters)
        self._stamps = message_stamps()
        self._heads = HeaderHeads(settings.headers)
        self._started: deque[OffsetRange] = deque()
        self._batch_messages = _FIRST_MESSAGES
        self._has_answered = False

    def read(self, ranges: Sequence[OffsetRange]) -> Generator[pa.RecordBatch, None, None]:
        """Yield the messages of all ranges, in order, in batches of `MESSAGE_SCHEMA`.

        A batch has messages of one partition, and none is empty.

        Raises:
            SourceError: no broker answers, or messages are damaged.
            WrongSourceError: offsets are lost, or the login or the right to read is missing.
        """
        waiting, has_failed = deque(join_ranges(ranges)), False
        try:
            while waiting or self._started:
                self._start_ranges(waiting)
                yield from self._read_first()
                self._stop_first()
        except SourceError:
            has_failed = True
            raise
        finally:
            while self._started:
                self._stop_first()
            if has_failed:  # stale cluster metadata may be the cause
                self._client.close()
                self._client = open_client(self.settings.client, self.settings.clusters)

    def bounds(self, topic: str, partition: int) -> tuple[int, int]:
        """Return the oldest offset of a partition, and the one after the newest that may be read.

        Raises:
            SourceError: no broker answers.
            WrongSourceError: the login or the right to read is missing.
        """
        return self._watermarks(OffsetRange(topic, partition, 0, 0))

    def close(self) -> None:
        """Close connections and threads; running reads end with them."""
        while self._started:
            self._stop_first()
        self._client.close()

    def _start_ranges(self, waiting: deque[OffsetRange]) -> None:
        while waiting and len(self._started) < self.settings.ahead:
            started_partitions = {(started.topic, started.partition) for started in self._started}
            if (waiting[0].topic, waiting[0].partition) in started_partitions:
                return
            offset_range = waiting.popleft()
            self._client.start(offset_range.topic, offset_range.partition, offset_range.begin)
            self._started.append(offset_range)

    def _stop_first(self) -> None:
        read_range = self._started.popleft()
        self._client.stop(read_range.topic, read_range.partition)

    def _read_first(self) -> Iterator[pa.RecordBatch]:
        whole = self._started[0]
        progress = _Progress(whole, whole.begin, self._clock.steady_seconds())
        while progress.next_offset < whole.end:
            message_count = min(self._batch_messages, whole.end - progress.next_offset)
            pointers = np.empty(message_count, np.int64)
            count = self._client.consume(whole.topic, whole.partition, pointers, wait_ms=_WAIT_MS)
            if count:
                self._has_answered = True
                batch = self._take(pointers[:count], progress)
                if batch is not None:
                    self._batch_messages = _next_size(self._batch_messages, batch)
                    yield batch
                    progress.since = self._clock.steady_seconds()  # excludes the consumer's work
            else:
                self._check_patience(progress)

    def _take(self, pointers: npt.NDArray[np.int64], progress: _Progress) -> pa.RecordBatch | None:
        """Return those of these messages that belong to the range, and release all of them."""
        addresses = pointers.tolist()
        try:
            fields = message_fields(pointers)
            first = progress.next_offset
            good = _mask_of_range(fields, progress)
            batch = None
            if good.any():
                part = fields if good.all() else MessageFields(*(column[good] for column in fields))
                now = self._clock.steady_seconds()
                self._check_gaps(part.offsets, first, progress)
                stamps = self._stamps.timestamps(pointers[good])
                batch = message_batch(progress.whole.topic, progress.whole.partition, part, stamps)
                batch = self._heads.before(batch, pointers[good])
                progress.advance(int(part.offsets[-1]) + 1, now)
            self._judge_others(fields, progress)
            return batch
        finally:
            self._client.release(addresses)

    def _judge_others(self, fields: MessageFields, progress: _Progress) -> None:
        """Handle everything else that arrives: the range's end, later messages, and errors."""
        now, whole = self._clock.steady_seconds(), progress.whole
        behind = np.flatnonzero((fields.errors == 0) & (fields.offsets >= whole.end)).tolist()
        for index in np.flatnonzero(fields.errors).tolist():  # one or two, at an end
            if behind and index > behind[0]:
                break
            code, offset = int(fields.errors[index]), int(fields.offsets[index])
            if code == KafkaCode.PARTITION_EOF:
                if offset >= whole.end:
                    self._check_tail(progress)
                progress.advance(min(offset, whole.end), now)
                progress.at_end = progress.next_offset < whole.end
            elif code in (KafkaCode.AUTO_OFFSET_RESET, KafkaCode.OFFSET_OUT_OF_RANGE):
                self._skip_gap(progress)
                return
            elif code in GONE_CODES:
                progress.last_error = self._client.text(code)
            else:
                raise self._failure(whole, code)
        if behind:
            self._check_tail(progress)
            progress.advance(whole.end, now)

    def _check_gaps(self, offsets: npt.NDArray[np.int64], first: int, progress: _Progress) -> None:
        """Check that skipped offsets still exist; else messages at them may be lost."""
        if int(offsets[-1]) - first + 1 == len(offsets):
            return
        expected = np.append(first, offsets[:-1] + 1)
        index = int(np.argmax(offsets != expected))
        self._check_passed(int(expected[index]), int(offsets[index]), progress)

    def _check_tail(self, progress: _Progress) -> None:
        if progress.next_offset < progress.whole.end:
            self._check_passed(progress.next_offset, progress.whole.end, progress)

    def _check_passed(self, begin: int, end: int, progress: _Progress) -> None:
        whole = progress.whole
        oldest = self._client.known_begin(whole.topic, whole.partition)
        if oldest > begin:
            self._report_loss(whole, begin, min(oldest, end), f"the partition begins at {oldest}")

    def _skip_gap(self, progress: _Progress) -> None:
        """Skip an offset that the partition lacks, to the part of the range that it has."""
        whole = progress.whole
        oldest, newest = self._watermarks(whole)
        available = f"the partition has the offsets {oldest} to {newest}"
        if progress.next_offset >= newest or oldest >= whole.end:
            self._skip_lost(progress, whole.end, available)
            return
        to = max(oldest, progress.next_offset)
        if to > progress.next_offset or progress.has_restarted:
            # If the offset exists after all, the topic was recreated in between.
            self._skip_lost(progress, to, available)
        progress.has_restarted = True  # the error may be of an earlier start of this partition
        self._client.stop(whole.topic, whole.partition)
        self._client.start(whole.topic, whole.partition, to)

    def _skip_lost(self, progress: _Progress, to: int, available: str) -> None:
        self._report_loss(progress.whole, progress.next_offset, to, available)
        progress.advance(to, self._clock.steady_seconds())

    def _report_loss(self, whole: OffsetRange, begin: int, end: int, available: str) -> None:
        problem = (
            f"the records at offsets {begin} to {end} of {whole.topic}/{whole.partition} cannot be "
            f"read: {available}"
        )
        if self.settings.fails_on_loss:
            raise WrongSourceError(
                problem,
                where=str(whole),
                fix="see whether the topic's retention.ms is too short, or whether the topic was "
                "recreated; to continue without them, set source.fail-on-data-loss = false",
            )
        _LOG.warning("%s; going on without them", problem)

    def _watermarks(self, whole: OffsetRange) -> tuple[int, int]:
        watermarks = self._client.watermarks(whole.topic, whole.partition, timeout_ms=_ASK_MS)
        if isinstance(watermarks, int):
            for code, text in self._client.errors():
                if code in LOGIN_CODES:
                    raise login_refused(text, str(whole), "executors")
            raise self._failure(whole, watermarks)
        return watermarks

    def _check_patience(self, progress: _Progress) -> None:
        """Decide whether to give up, because no message has arrived."""
        for code, text in self._client.errors():
            progress.last_error = text
            if code in LOGIN_CODES and not self._has_answered:
                raise login_refused(text, str(progress.whole), "executors")
        waited, fails_after_s = (
            self._clock.steady_seconds() - progress.since,
            self.settings.fails_after_s,
        )
        if fails_after_s is not None and waited > fails_after_s:
            raise SourceError(
                f"Kafka gave nothing for {waited:.0f} s",
                where=str(progress.whole),
                fix=SEE_BROKERS,
            )
        if waited > self.settings.timeout_s:
            self._give_up(progress, waited)
        elif progress.at_end and not progress.has_asked and waited > self.settings.tail_timeout_s:
            progress.has_asked = True
            self._skip_beyond_end(progress)

    def _skip_beyond_end(self, progress: _Progress) -> None:
        whole = progress.whole
        watermarks = self._client.watermarks(whole.topic, whole.partition, timeout_ms=_ASK_MS)
        if not isinstance(watermarks, int) and watermarks[1] <= progress.next_offset:
            self._skip_lost(progress, whole.end, f"the partition ends at {watermarks[1]}")

    def _give_up(self, progress: _Progress, waited: float) -> None:
        """Count a deleted partition as lost, but only after the timeout.

        Brokers that start, or that have just created a topic, do not know it either.
        """
        whole = progress.whole
        watermarks = self._client.watermarks(whole.topic, whole.partition, timeout_ms=_ASK_MS)
        if watermarks in GONE_CODES:
            self._skip_lost(progress, whole.end, f"{whole.topic}/{whole.partition} is gone")
            return
        cause = f"; the last error was: {progress.last_error}" if progress.last_error else ""
        raise SourceError(
            f"Kafka gave nothing from offset {progress.next_offset} on for {waited:.0f} s{cause}",
            where=str(whole),
            fix=SEE_BROKERS,
        )

    def _failure(self, whole: OffsetRange, code: int) -> SourceError:
        text, where = self._client.text(code), str(whole)
        if code == KafkaCode.TOPIC_AUTHORIZATION_FAILED:
            return reading_forbidden(whole.topic, text, where)
        if code in GONE_CODES:
            return WrongSourceError(
                f"the broker has no partition {whole.partition} of a topic {whole.topic} ({text})",
                where=where,
                fix="see whether the topic was deleted, and correct the names of the topics",
            )
        return SourceError(f"Kafka's client cannot read on: {text}", where=where, fix=SEE_BROKERS)


def _mask_of_range(fields: MessageFields, progress: _Progress) -> npt.NDArray[np.bool_]:
    offsets = fields.offsets
    good: npt.NDArray[np.bool_] = (offsets >= progress.next_offset) & (offsets < progress.whole.end)
    good &= fields.errors == 0
    highest = np.maximum.accumulate(np.where(good, offsets, -1))
    good[1:] &= offsets[1:] > highest[:-1]  # an offset that comes again is left out
    return good


def _next_size(messages: int, batch: pa.RecordBatch) -> int:
    """Return the number of messages for a batch of the usual size, if messages keep their size."""
    fitting: int = _BATCH_BYTES * batch.num_rows // max(batch.nbytes, 1)
    return max(1, min(fitting, messages * 8, BATCH_MESSAGES))


def reader_of_process(settings: ReaderSettings) -> RangeReader:
    """Return the reader of this process for these settings, made at the first call."""
    # A client's threads do not survive a fork.
    return _reader_of(os.getpid(), settings)


@cache
def _reader_of(process: int, settings: ReaderSettings) -> RangeReader:
    reader = RangeReader(settings)

    def close() -> None:
        if process == os.getpid():
            reader.close()

    atexit.register(close)
    return reader
