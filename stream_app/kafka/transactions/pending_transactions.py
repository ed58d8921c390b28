"""The pending messages as transactions: which have begun, which have ended, and which are repeats.

`epoch_cut`, `settled_partitions` and `border_doubts` decide by them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stream_app.arrow_buffers import Bools, Int64s
from stream_app.cdc.transactions import MessageKind
from stream_app.kafka.transactions.border import (
    BEFORE_ALL,
    LogProgress,
    NewestTransaction,
    compare_positions,
    ranks_of,
)
from stream_app.kafka.transactions.pending_messages import NO_CODE, PendingMessages, PendingRows
from stream_app.model.database_snapshot import SourcePosition

MARKERS = (MessageKind.BEGIN, MessageKind.END)


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingTransactions:
    """The t transactions of pending messages in p partitions, beside what earlier epochs had.

    Attributes:
        earlier_progress: the progress at the end of the epoch before.
        end_markers: the first END marker of each transaction.
        has_begun, has_ended: bool [t]; transactions with a BEGIN, and with an END.
        is_old: bool [t]; transactions that earlier epochs had, by the position of their END.
        read_ends: int64 [p]; the offset after the last message of each partition.
    """

    pending_messages: PendingMessages
    earlier_progress: LogProgress
    messages: PendingRows
    end_markers: PendingRows
    counts: PendingRows
    has_begun: Bools
    has_ended: Bools
    is_old: Bools
    read_ends: Int64s

    @classmethod
    def of(
        cls, pending_messages: PendingMessages, earlier_progress: LogProgress
    ) -> PendingTransactions:
        """Return the transactions of messages that begin where a progress ends."""
        messages = pending_messages.messages.all()
        end_markers = pending_messages.end_markers.all()
        _, first_indices = np.unique(end_markers["transaction"], return_index=True)
        end_markers = end_markers[np.sort(first_indices)]
        shape = 3, len(pending_messages.transactions.names)
        has_begun, has_ended, is_old = np.zeros(shape, np.bool_)
        has_begun[messages["transaction"][messages["kind"] == MessageKind.BEGIN]] = True
        has_ended[end_markers["transaction"]] = True
        for source, newest_transaction in earlier_progress.newest_transactions.items():
            source_code = pending_messages.sources.code(source)
            source_markers = end_markers[end_markers["source"] == source_code]
            has_position = source_markers["position"][:, 0] >= 0
            is_known = has_position & (
                compare_positions(source_markers["position"], newest_transaction.log_position) <= 0
            )
            is_old[source_markers["transaction"][is_known]] = True
        read_ends = np.array(
            [
                pending_messages.reached_offsets[kafka_partition]
                for kafka_partition in pending_messages.partitions
            ],
            np.int64,
        )
        return cls(
            pending_messages=pending_messages,
            earlier_progress=earlier_progress,
            messages=messages,
            end_markers=end_markers,
            counts=pending_messages.counts.all(),
            has_begun=has_begun,
            has_ended=has_ended,
            is_old=is_old,
            read_ends=read_ends,
        )

    def bound_messages(self) -> PendingRows:
        """Return the new changes and first markers, which no end may part from a transaction."""
        messages = self.messages
        is_bound = (messages["kind"] == MessageKind.CHANGE) & messages["is_new"]
        is_bound &= ~self.is_past(messages)
        marker_indices = np.flatnonzero(np.isin(messages["kind"], MARKERS))
        codes = 2 * messages["transaction"][marker_indices] + (
            messages["kind"][marker_indices] == MARKERS[1]
        )
        is_bound[marker_indices[np.unique(codes, return_index=True)[1]]] = True
        is_bound &= messages["transaction"] != NO_CODE
        is_bound[is_bound] &= ~self.is_old[messages["transaction"][is_bound]]
        bound: PendingRows = messages[is_bound]
        return bound

    def is_past(self, messages: PendingRows) -> Bools:
        """Mark the changes up to the newest transaction of earlier epochs: bool [n]."""
        newest_positions = [
            self.earlier_progress.newest_position(topic)[:-1]
            for topic, _ in self.pending_messages.partitions
        ]
        is_past: Bools = np.zeros(len(messages), np.bool_)
        for newest_position in set(newest_positions) - {BEFORE_ALL[:-1]}:  # a loop over connectors
            is_of_source = np.array([position == newest_position for position in newest_positions])[
                messages["partition"]
            ]
            positions = messages["position"][is_of_source]
            is_past[is_of_source] = compare_positions(positions, newest_position) <= 0
        is_past &= (messages["kind"] == MessageKind.CHANGE) & (messages["position"][:, 0] >= 0)
        return is_past

    def newest_transactions(self, epoch_markers: PendingRows) -> dict[str, NewestTransaction]:
        """Return the newest transaction of each connector, after an epoch with some END markers."""
        transactions = dict(self.earlier_progress.newest_transactions)
        is_new = ~self.is_old[epoch_markers["transaction"]]
        new_markers = epoch_markers[is_new & (epoch_markers["position"][:, 0] >= 0)]
        for code in np.unique(new_markers["source"]).tolist():
            source_markers = new_markers[new_markers["source"] == code]
            last_marker = source_markers[np.argmax(ranks_of(source_markers["position"]))]
            source = self.pending_messages.sources.names[code]
            log = transactions[source].log if source in transactions else source_markers[0]["log"]
            position = SourcePosition(last_marker["id"], int(last_marker["time"]))
            log_position = tuple(last_marker["position"].tolist())
            transactions[source] = NewestTransaction(position, log_position, log)
        return transactions
