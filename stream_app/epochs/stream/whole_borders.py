"""Ends epochs where no transaction of the source crosses the end.

It implements `topic_stream.EpochCutter`. The driver reads the messages that the next epoch may
have, and keeps the facts of their transactions. It cuts before the first one that is not whole
(docs/adr/0044-an-epoch-ends-between-transactions.md).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from stream_app.checkpoint.border_log import BorderLog
from stream_app.clock import Clock
from stream_app.kafka.next_offsets import next_end
from stream_app.kafka.offset_ranges import KafkaPartition, OffsetRange, ranges_between
from stream_app.kafka.transactions.border import Border, Doubt
from stream_app.kafka.transactions.epoch_cut import EpochCut, cut_epoch
from stream_app.kafka.transactions.pending_messages import PendingMessages
from stream_app.model.job_epoch import Offsets

_LOG = logging.getLogger(__name__)
MESSAGES_MAX = 500_000
"""Limit of an epoch's messages if the job sets none: the driver keeps facts of each message."""
TRANSACTION_WAIT_S = 60.0
"""Seconds that the job waits for the rest of a transaction, once it has read all messages."""
_TORN = Doubt(
    "an epoch ended within transactions of the source, because the rest did not come",
    "see the log for the tables: does the job read the topic of transactions, and do transforms "
    "of the connector drop changes?",
)
_TRANSACTION_TOPIC_SUFFIX = ".transaction"
"""The end of the name that Debezium gives to its topic of transactions."""


class MessageReader(Protocol):
    """A reader of the transactions of messages."""

    def read(
        self,
        ranges: Sequence[OffsetRange],
        pending_messages: PendingMessages,
        is_stopping: Callable[[], bool],
    ) -> None:
        """Add the messages of ranges that are not pending already.

        Raises:
            SourceError: the messages cannot be read.
            StoppedError: the job is stopping.
        """
        ...

    def close(self) -> None:
        """Close connections."""
        ...


@dataclass(slots=True, kw_only=True)
class WholeEpochCutter:
    """A cutter between the source's transactions, for one thread. Implements `EpochCutter`.

    Attributes:
        read_newest_offsets: asks the brokers for the topics' newest offsets.
        messages_max: messages of an epoch; it has twice as many at most, unless a transaction has
            more.
        patience_s: seconds to wait for the rest of a transaction; None: no limit.
    """

    reader: MessageReader
    log: BorderLog
    read_newest_offsets: Callable[[], Offsets]
    clock: Clock
    messages_max: int = MESSAGES_MAX
    patience_s: float | None = TRANSACTION_WAIT_S
    _pending_messages: PendingMessages = field(init=False, default_factory=PendingMessages)
    _borders: dict[int, Border] = field(init=False, default_factory=dict)
    _tables_without_topic: set[str] = field(init=False, default_factory=set)
    _waiting_since_s: float | None = field(init=False, default=None)

    def choose_end(
        self,
        epoch: int,
        start_offsets: Offsets,
        newest_offsets: Offsets,
        is_stopping: Callable[[], bool],
    ) -> Offsets:
        """See `EpochCutter.choose_end`."""
        last_border = self._last_border(epoch)
        self._pending_messages.begin_at(_offsets_by_partition(start_offsets), last_border.progress)
        target_messages_max = self.messages_max
        while True:
            target_offsets = next_end(start_offsets, newest_offsets, target_messages_max)
            self.reader.read(
                ranges_between(start_offsets, target_offsets), self._pending_messages, is_stopping
            )
            cut = self._cut(last_border, newest_offsets)
            end_offsets = _cut_back(target_offsets, start_offsets, cut.ends)
            message_count = sum(
                offset_range.size for offset_range in ranges_between(start_offsets, end_offsets)
            )
            if message_count >= max(self.messages_max // 2, 1) or target_offsets == newest_offsets:
                break
            # A transaction is large, or its partitions are read at different paces.
            target_messages_max *= 2
        if not message_count:
            return self._wait_or_force_end(
                epoch, start_offsets, newest_offsets, target_offsets, cut
            )
        if message_count > 2 * self.messages_max:
            _LOG.warning(
                "epoch %d has %d messages, and not %d: a transaction of the source is that large",
                epoch, message_count, self.messages_max,
            )  # fmt: skip
        self._waiting_since_s = None
        self._write_border(epoch, last_border, cut)
        return end_offsets

    def _last_border(self, epoch: int) -> Border:
        """Return the border before an epoch."""
        if epoch - 1 not in self._borders:
            self._borders = {epoch - 1: (self.log.border(epoch - 1) if epoch else None) or Border()}
        return self._borders[epoch - 1]

    def _cut(
        self, last_border: Border, newest_offsets: Offsets, *, is_forced: bool = False
    ) -> EpochCut:
        newest_by_partition = _offsets_by_partition(newest_offsets)
        earlier_progress = last_border.progress
        cut = cut_epoch(
            self._pending_messages, newest_by_partition, earlier_progress, is_forced=is_forced
        )
        if cut.tables_without_topic <= self._tables_without_topic:
            return cut
        # A table's topic may be younger than the known offsets, but not younger than the marker.
        self._tables_without_topic |= cut.tables_without_topic
        return cut_epoch(
            self._pending_messages,
            newest_by_partition,
            earlier_progress,
            self.read_newest_offsets().keys(),
            is_forced=is_forced,
        )

    def close(self) -> None:
        """See `EpochCutter.close`."""
        self.reader.close()

    def _wait_or_force_end(
        self,
        epoch: int,
        start_offsets: Offsets,
        newest_offsets: Offsets,
        target_offsets: Offsets,
        cut: EpochCut,
    ) -> Offsets:
        """End an epoch without a whole transaction: at its start for a while, then by force."""
        now_s = self.clock.steady_seconds()
        last_border = self._last_border(epoch)
        has_topic = any(topic.endswith(_TRANSACTION_TOPIC_SUFFIX) for topic in target_offsets)
        # Without a later transaction that is whole, the connector itself has not sent the rest.
        if not cut.open_transactions or (has_topic and not cut.is_overtaken):
            self._waiting_since_s = None
        elif self._waiting_since_s is None:
            self._waiting_since_s = now_s
            _LOG.info("the next epoch waits for transactions: %s", "; ".join(cut.open_transactions))
        waited_s = 0.0 if self._waiting_since_s is None else now_s - self._waiting_since_s
        if self.patience_s is None or waited_s < self.patience_s or self._waiting_since_s is None:
            if epoch not in self._borders:
                self._write_border(epoch, last_border, cut)
            return start_offsets
        self._waiting_since_s = None
        _LOG.warning(
            "epoch %d ends within transactions, after %.0f s: %s",
            epoch, waited_s, "; ".join(cut.open_transactions),
        )  # fmt: skip
        forced_cut = self._cut(last_border, newest_offsets, is_forced=True)
        self._write_border(
            epoch, last_border, replace(forced_cut, border=replace(forced_cut.border, doubt=_TORN))
        )
        return _cut_back(target_offsets, start_offsets, forced_cut.ends)

    def _write_border(self, epoch: int, last_border: Border, cut: EpochCut) -> None:
        # The transactions of a doubtful epoch get a snapshot with the next epoch.
        advances = cut.border.advances or (last_border.advances and last_border.doubt is not None)
        border = replace(cut.border, advances=advances)
        self._borders = {epoch - 1: last_border, epoch: border}
        self.log.write(epoch, border)


def _offsets_by_partition(offsets: Offsets) -> dict[KafkaPartition, int]:
    return {
        (topic, int(partition_number)): offset
        for topic, topic_offsets in offsets.items()
        for partition_number, offset in topic_offsets.items()
    }


def _cut_back(
    target_offsets: Offsets, start_offsets: Offsets, ends: Mapping[KafkaPartition, int]
) -> Offsets:
    """Cut the target back to the ends of whole transactions.

    A partition without messages ends at the target. A new partition without messages is left out.
    """
    end_offsets: dict[str, dict[str, int]] = {}
    for topic, topic_offsets in target_offsets.items():
        for partition_number, offset in topic_offsets.items():
            # An earlier plan may have read further than the target; a whole cut has that too.
            end_offset = ends.get((topic, int(partition_number)), offset)
            if end_offset or partition_number in start_offsets.get(topic, {}):
                end_offsets.setdefault(topic, {})[partition_number] = end_offset
    return end_offsets
