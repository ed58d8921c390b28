"""Names the reasons why the tables may differ from the database at the end of an epoch. Pure.

`epoch_cut` calls it. An epoch with a doubt keeps its end, but gets no database snapshot.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from stream_app.arrow_buffers import Int64s
from stream_app.cdc.transactions import MessageKind
from stream_app.kafka.offset_ranges import PartitionOffsets
from stream_app.kafka.transactions.border import Doubt, LogProgress, PartitionState
from stream_app.kafka.transactions.pending_messages import PendingRows
from stream_app.kafka.transactions.pending_transactions import PendingTransactions

_METADATA_FIX = "set provide.transaction.metadata = true at Debezium's connector"
_TOPIC_FIX = "create the topic again, with one partition"
_ORDER_FIX = (
    "see docs/setup/transactions.md for the connectors that have it, or leave sync.transactions out"
)
_LOG_FIX = "give the job a new checkpoint and new tables, or leave sync.transactions out"


@dataclass(frozen=True, slots=True)
class DoubtSearch:
    """The search for reasons to doubt the end of an epoch; iterates over the doubts.

    Attributes:
        ends: int64 [p]; the end in each partition.
        epoch_markers: the END markers before the ends.
        newest_offsets: the end of each partition of all topics of the job.
        progress: the progress at the ends.
    """

    transactions: PendingTransactions
    ends: Int64s
    epoch_markers: PendingRows
    newest_offsets: PartitionOffsets
    progress: LogProgress

    def __iter__(self) -> Iterator[Doubt]:
        yield from self._doubts_of_settings()
        yield from self._doubts_of_logs()
        for (topic, partition), partition_progress in self.progress.partitions.items():
            if partition_progress.state is PartitionState.BEHIND:
                yield Doubt(
                    f"{topic}/{partition} is behind: the connector repeats changes, or some are "
                    "to come"
                )
            elif partition_progress.state is PartitionState.READING:
                yield Doubt(f"the job has not read {topic}/{partition} up to its first changes")

    def _doubts_of_settings(self) -> Iterator[Doubt]:
        messages = self.transactions.messages
        partitions = list(self.transactions.pending_messages.partitions)
        epoch_messages = messages[messages["offset"] < self.ends[messages["partition"]]]
        is_change = epoch_messages["kind"] == MessageKind.CHANGE
        for message in epoch_messages[epoch_messages["kind"] == MessageKind.UNMARKED][:1]:
            topic, _ = partitions[message["partition"]]
            yield Doubt(f"changes in the topic {topic} name no transaction", _METADATA_FIX)
        for change in epoch_messages[is_change & (epoch_messages["position"][:, 0] < 0)][:1]:
            topic, _ = partitions[change["partition"]]
            yield Doubt(
                f"changes in the topic {topic} have no position in the source's log", _ORDER_FIX
            )
        marker_partitions = np.unique(self.epoch_markers["partition"]).tolist()
        for topic in sorted({partitions[code][0] for code in marker_partitions}):
            count = sum(name == topic for name, _ in self.newest_offsets)
            if count > 1:
                reason = f"the topic {topic} has {count} partitions, so it has no order"
                yield Doubt(reason, _TOPIC_FIX)

    def _doubts_of_logs(self) -> Iterator[Doubt]:
        """Yield doubts about the order of transactions in the source's log."""
        for marker in self.epoch_markers[self.epoch_markers["position"][:, 0] < 0][:1]:
            yield Doubt(
                f"transaction {marker['id']} has no position in the source's log", _ORDER_FIX
            )
        for source, newest_transaction in self.progress.newest_transactions.items():
            source_code = self.transactions.pending_messages.sources.code(source)
            source_markers = self.epoch_markers[self.epoch_markers["source"] == source_code]
            for marker in source_markers[source_markers["log"] != newest_transaction.log][:1]:
                reason = (
                    f"transaction {marker['id']} of {source} comes from another server than "
                    "earlier ones"
                )
                yield Doubt(reason, _LOG_FIX)
        for source, newest_transaction in self.progress.newest_transactions.items():
            is_newest = self.epoch_markers["id"] == newest_transaction.position.transaction
            for marker in self.epoch_markers[is_newest]:
                code = marker["transaction"]
                if not self.transactions.has_begun[code] and not self.transactions.is_old[code]:
                    yield Doubt(
                        f"transaction {marker['id']} of {source} began before the messages that "
                        "this run has read"
                    )
