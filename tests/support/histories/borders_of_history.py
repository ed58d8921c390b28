"""Runs a job's borders over a random history: topics lag, clocks jump, and the job starts again.

The topics are lists. An epoch whose border is whole leaves tables that equal the database after
its newest transaction, or the history is wrong.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

import numpy as np
import pyarrow as pa

from stream_app.cdc.change_batch import MESSAGE_SCHEMA
from stream_app.cdc.debezium.message_transactions import debezium_transactions
from stream_app.cdc.transactions import EndMarkers, MessageTransactions
from stream_app.checkpoint.border_log import BorderLog
from stream_app.checkpoint.job_folder import JobFolder
from stream_app.epochs.stream.whole_borders import WholeEpochCutter
from stream_app.kafka.offset_ranges import OffsetRange
from stream_app.kafka.transactions.pending_messages import PendingMessages
from stream_app.model.job_epoch import Offsets
from tests.support.files.memory_file_io import MemoryFileIO
from tests.support.histories.transaction_history import (
    MARKERS,
    KafkaPlace,
    Rows,
    Sent,
    TransactionHistory,
)
from tests.support.tables.small_table import StandingClock

_BATCH = 7
_IDLE_MAX = 40


@dataclass
class Topics:
    """The messages of each partition, and how many of them brokers show.

    Attributes:
        order: all messages with their partitions, in the order in which they were sent.
        produced_count: number of those that brokers have.
    """

    random: Random
    order: list[tuple[KafkaPlace, Sent]]
    produced_count: int
    messages: dict[KafkaPlace, list[bytes]] = field(init=False, default_factory=dict)
    transactions: dict[KafkaPlace, MessageTransactions] = field(init=False, default_factory=dict)
    visible: dict[KafkaPlace, int] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        for place, sent in self.order:
            self.messages.setdefault(place, []).append(sent.value)
        for place, values in self.messages.items():
            self.transactions[place] = debezium_transactions(_batch(values))
        self.show(at_once=True)

    @property
    def is_complete(self) -> bool:
        """Whether brokers have all messages."""
        return self.produced_count == len(self.order)

    def produce(self, count: int) -> None:
        """The connector sends more; some partitions show it later."""
        self.produced_count = min(len(self.order), self.produced_count + count)
        self.show(at_once=self.is_complete)

    def show(self, *, at_once: bool) -> None:
        sent_counts: dict[KafkaPlace, int] = {(MARKERS, 0): 0}
        for place, _ in self.order[: self.produced_count]:
            sent_counts[place] = sent_counts.get(place, 0) + 1
        for topic, last in list(sent_counts):
            for partition in range(last):
                sent_counts.setdefault((topic, partition), 0)
        for place, count in sent_counts.items():
            visible_count = self.visible.get(place, 0)
            is_prompt = at_once or self.random.random() < 0.6
            self.visible[place] = count if is_prompt else self.random.randint(visible_count, count)

    def newest(self) -> Offsets:
        """Return the ends that brokers show."""
        ends: dict[str, dict[str, int]] = {}
        for (topic, partition), end in self.visible.items():
            ends.setdefault(topic, {})[str(partition)] = end
        return ends

    def read(
        self,
        ranges: Sequence[OffsetRange],
        pending_messages: PendingMessages,
        _is_stopping: Callable[[], bool],
    ) -> None:
        """See `MessageReader.read`."""
        for unread_range in pending_messages.unread_ranges(ranges):
            for index in range(unread_range.start, unread_range.end, _BATCH):
                until = min(unread_range.end, index + _BATCH)
                assert until <= self.visible[unread_range.kafka_partition]
                part = _part(self.transactions[unread_range.kafka_partition], index, until)
                pending_messages.add(
                    unread_range.kafka_partition, np.arange(index, until, dtype=np.int64), part
                )
        pending_messages.reach(ranges)

    def close(self) -> None:
        """See `MessageReader.close`."""

    def rows(self, ends: Offsets) -> Rows:
        """Return the tables with all messages before some ends."""
        rows: Rows = {}
        for topic, topic_offsets in ends.items():
            for partition, end in sorted(topic_offsets.items()):
                for value in self.messages.get((topic, int(partition)), [])[:end]:
                    message = json.loads(value)
                    if "op" in message:
                        source, row = message["source"], message["after"]
                        rows[f"{source['schema']}.{source['table']}", row["k"]] = row["v"]
        return rows


@dataclass
class BordersOfHistory:
    """A job over one history.

    Attributes:
        whole: number of epochs with a database snapshot.
        newest: the newest transaction that has one.
    """

    random: Random
    history: TransactionHistory
    topics: Topics
    whole: int = 0
    newest: int = 0
    start: dict[str, dict[str, int]] = field(default_factory=dict)
    log: BorderLog = field(init=False)
    clock: StandingClock = field(default_factory=StandingClock)

    def __post_init__(self) -> None:
        self.log = BorderLog(JobFolder("memory://checkpoint", MemoryFileIO()))
        self.messages_max = self.random.choice((1, 2, 4, 8, 20, 100))

    def run(self) -> None:
        """Run epochs until all messages are in the tables."""
        random, epoch, idle, cutter = self.random, 0, 0, self._cutter()
        self.start = {topic: dict.fromkeys(ends, 0) for topic, ends in self.topics.newest().items()}
        while idle < _IDLE_MAX:
            self.topics.produce(random.choice((0, 1, 3, 10, 50)))
            newest = self.topics.newest()
            known_offsets = {
                topic: {**dict.fromkeys(ends, 0), **self.start.get(topic, {})}
                for topic, ends in newest.items()
            }
            end = cutter.choose_end(epoch, known_offsets, newest, lambda: False)
            self.clock.millis += random.choice((0, 0, 1000, 70_000))
            self._is_in_order(end, newest)
            is_idle = end == self.start and epoch > 0
            idle = idle + 1 if is_idle and self.topics.is_complete else 0
            is_crash = random.random() < 0.1  # before the epoch's offsets are in the checkpoint
            if not is_idle and not is_crash:
                self.start = {topic: dict(ends) for topic, ends in end.items()}
                self._check(epoch)
                epoch += 1
            if is_crash or random.random() < 0.15:
                cutter = self._cutter()
        assert self.start == self.topics.newest(), f"no epoch takes the rest: {self.start}"

    def _cutter(self) -> WholeEpochCutter:
        return WholeEpochCutter(
            reader=self.topics,
            log=self.log,
            read_newest_offsets=self.topics.newest,
            clock=self.clock,
            messages_max=self.messages_max,
        )

    def _is_in_order(self, end: Offsets, newest: Offsets) -> None:
        for topic, ends in end.items():
            for partition, last in ends.items():
                first = self.start.get(topic, {}).get(partition, 0)
                assert first <= last <= newest[topic][partition], (topic, partition)

    def _check(self, epoch: int) -> None:
        border = self.log.border(epoch)
        assert border is not None
        if border.is_whole:
            (position,) = border.progress.positions.values()
            self.newest = self.history.numbers[position.transaction]
            self.whole += 1
            rows = self.topics.rows(self.start)
            assert rows == self.history.states[self.newest], f"epoch {epoch}, {position}"


def borders_of_history(seed: int) -> BordersOfHistory:
    """Return a job over the history of a seed."""
    random = Random(seed)
    history = TransactionHistory(random)
    counts = {table: random.randint(1, 2) for table in history.tables}
    reads, sent = history.reads(), list(history.sent())
    grows_at = random.randrange(len(sent)) if random.random() < 0.2 else len(sent)
    order = [
        (_place(message, counts, has_grown=index - len(reads) >= grows_at), message)
        for index, message in enumerate([*reads, *sent])
    ]
    return BordersOfHistory(random, history, Topics(random, order, len(reads)))


def _place(sent: Sent, counts: dict[str, int], *, has_grown: bool) -> KafkaPlace:
    """Return the partition of a message; some keys move to a further one, which is read last."""
    if sent.table is None:
        return sent.topic, 0
    partitions = counts[sent.table]
    moves = has_grown and sent.key % 2 == 1
    return sent.topic, partitions if moves else sent.key % partitions


def _batch(values: Sequence[bytes]) -> pa.RecordBatch:
    rows = [{"value": value} for value in values]
    return pa.RecordBatch.from_pylist(rows, schema=MESSAGE_SCHEMA)


def _part(transactions: MessageTransactions, start: int, end: int) -> MessageTransactions:
    """Return the transactions of some of the messages."""
    part, end_markers = slice(start, end), transactions.end_markers
    chosen = np.flatnonzero(
        (end_markers.message_indices >= start) & (end_markers.message_indices < end)
    )
    is_counted = np.isin(end_markers.owners, chosen)
    return MessageTransactions(
        kinds=transactions.kinds[part],
        names=transactions.names[part],
        sources=transactions.sources[part],
        tables=transactions.tables[part],
        orders=transactions.orders[part],
        positions=transactions.positions[part],
        end_markers=EndMarkers(
            message_indices=end_markers.message_indices[chosen] - start,
            ids=end_markers.ids.take(pa.array(chosen)),
            times=end_markers.times[chosen],
            logs=end_markers.logs.take(pa.array(chosen)),
            positions=end_markers.positions[chosen],
            owners=np.searchsorted(chosen, end_markers.owners[is_counted]),
            tables=end_markers.tables.filter(pa.array(is_counted)),
            counts=end_markers.counts[is_counted],
        ),
    )
