"""The pending messages as transactions: which have begun, which have ended, and which are repeats.

`epoch_cut`, `settled_partitions` and `border_doubts` decide by these facts.
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
from stream_app.kafka.transactions.pending_messages import NO_CODE, FactRows, PendingMessages
from stream_app.model.database_snapshot import SourcePosition

MARKERS = (MessageKind.BEGIN, MessageKind.END)


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingTransactions:
    """The t transactions of pending messages in p partitions, beside what earlier epochs had.

    Attributes:
        earlier: the progress at the end of the epoch before.
        ends: the first END marker of each transaction.
        begun, ended: bool [t]; transactions with a BEGIN, and with an END.
        is_old: bool [t]; transactions that earlier epochs had, by the position of their END.
        read_to: int64 [p]; the offset behind the last message of each partition.
    """

    pending: PendingMessages
    earlier: LogProgress
    messages: FactRows
    ends: FactRows
    counts: FactRows
    begun: Bools
    ended: Bools
    is_old: Bools
    read_to: Int64s

    @classmethod
    def of(cls, pending: PendingMessages, earlier: LogProgress) -> PendingTransactions:
        """Return the transactions of messages that begin where a progress ends."""
        messages, ends = pending.messages.all(), pending.ends.all()
        ends = ends[np.sort(np.unique(ends["transaction"], return_index=True)[1])]
        begun, ended, is_old = (np.zeros(len(pending.transactions.names), np.bool_) for _ in "123")
        begun[messages["transaction"][messages["kind"] == MessageKind.BEGIN]] = True
        ended[ends["transaction"]] = True
        for source, newest in earlier.newest.items():
            source_ends = ends[ends["source"] == pending.sources.code(source)]
            has_position = source_ends["position"][:, 0] >= 0
            is_known = has_position & (
                compare_positions(source_ends["position"], newest.log_position) <= 0
            )
            is_old[source_ends["transaction"][is_known]] = True
        read_to = np.array(
            [pending.reached[partition] for partition in pending.partitions], np.int64
        )
        return cls(
            pending=pending,
            earlier=earlier,
            messages=messages,
            ends=ends,
            counts=pending.counts.all(),
            begun=begun,
            ended=ended,
            is_old=is_old,
            read_to=read_to,
        )

    def binding(self) -> FactRows:
        """Return the messages that no end may part from their transaction: new changes, first
        markers.
        """
        messages = self.messages
        is_bound = (messages["kind"] == MessageKind.CHANGE) & messages["is_new"]
        is_bound &= ~self.is_past(messages)
        markers = np.flatnonzero(np.isin(messages["kind"], MARKERS))
        codes = 2 * messages["transaction"][markers] + (messages["kind"][markers] == MARKERS[1])
        is_bound[markers[np.unique(codes, return_index=True)[1]]] = True
        is_bound &= messages["transaction"] != NO_CODE
        is_bound[is_bound] &= ~self.is_old[messages["transaction"][is_bound]]
        bound: FactRows = messages[is_bound]
        return bound

    def is_past(self, messages: FactRows) -> Bools:
        """Return the mask of changes at or before the newest transaction of earlier epochs: bool
        [n].
        """
        newest = [self.earlier.top_of_new(topic)[:-1] for topic, _ in self.pending.partitions]
        is_past: Bools = np.zeros(len(messages), np.bool_)
        for newest_position in set(newest) - {BEFORE_ALL[:-1]}:  # a loop over connectors
            is_of = np.array([top == newest_position for top in newest])[messages["partition"]]
            is_past[is_of] = compare_positions(messages["position"][is_of], newest_position) <= 0
        is_past &= (messages["kind"] == MessageKind.CHANGE) & (messages["position"][:, 0] >= 0)
        return is_past

    def newest(self, before: FactRows) -> dict[str, NewestTransaction]:
        """Return the newest transaction of each connector, once the epoch has some END markers."""
        newest = dict(self.earlier.newest)
        fresh = before[~self.is_old[before["transaction"]] & (before["position"][:, 0] >= 0)]
        for code in np.unique(fresh["source"]).tolist():
            source_ends = fresh[fresh["source"] == code]
            last = source_ends[np.argmax(ranks_of(source_ends["position"]))]
            source = self.pending.sources.names[code]
            log = newest[source].log if source in newest else source_ends[0]["log"]
            position = SourcePosition(last["id"], int(last["time"]))
            newest[source] = NewestTransaction(position, tuple(last["position"].tolist()), log)
        return newest
