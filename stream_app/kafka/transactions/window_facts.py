"""The facts of a window in the light of what a job had before it: which messages are repeats.

`window_cut` and `window_paces` decide by them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stream_app.arrow_buffers import Bools, Int64s
from stream_app.cdc.transactions import MessageKind
from stream_app.kafka.transactions.log_progress import (
    BEFORE_ALL,
    LogProgress,
    NewestTransaction,
    compared,
    ranks_of,
)
from stream_app.kafka.transactions.transaction_window import NO_CODE, FactRows, TransactionWindow
from stream_app.model.database.database_snapshot import SourcePosition

MARKERS = (MessageKind.BEGIN, MessageKind.END)


@dataclass(frozen=True, slots=True)
class WindowFacts:
    """A window in the light of what lies before it.

    Attributes:
        ends: the first END marker of each transaction.
        begun, ended: bool [t]; transactions with a BEGIN, and with an END.
        is_old: bool [t]; those that end at or before the newest one before the window.
        read_to: int64 [p]; the offset behind the last message of each partition.
    """

    window: TransactionWindow
    known: LogProgress
    messages: FactRows
    ends: FactRows
    counts: FactRows
    begun: Bools
    ended: Bools
    is_old: Bools
    read_to: Int64s

    @classmethod
    def of(cls, window: TransactionWindow, known: LogProgress) -> WindowFacts:
        """The facts of a window that begins with a progress."""
        messages, ends = window.messages.all(), window.ends.all()
        ends = ends[np.sort(np.unique(ends["transaction"], return_index=True)[1])]
        begun, ended, is_old = (np.zeros(len(window.transactions.names), np.bool_) for _ in "123")
        begun[messages["transaction"][messages["kind"] == MessageKind.BEGIN]] = True
        ended[ends["transaction"]] = True
        for source, newest in known.newest.items():
            of_source = ends[ends["source"] == window.sources.code(source)]
            has_place = of_source["position"][:, 0] >= 0
            is_known = has_place & (compared(of_source["position"], newest.at) <= 0)
            is_old[of_source["transaction"][is_known]] = True
        read_to = np.array([window.reached[place] for place in window.partitions], np.int64)
        return cls(
            window, known, messages, ends, window.counts.all(), begun, ended, is_old, read_to
        )

    def binding(self) -> FactRows:
        """The messages that hold their transactions together: the first of repeated ones."""
        messages = self.messages
        is_bound = (messages["kind"] == MessageKind.CHANGE) & messages["is_new"]
        is_bound &= ~self.past(messages)
        markers = np.flatnonzero(np.isin(messages["kind"], MARKERS))
        named = 2 * messages["transaction"][markers] + (messages["kind"][markers] == MARKERS[1])
        is_bound[markers[np.unique(named, return_index=True)[1]]] = True
        is_bound &= messages["transaction"] != NO_CODE
        is_bound[is_bound] &= ~self.is_old[messages["transaction"][is_bound]]
        bound: FactRows = messages[is_bound]
        return bound

    def past(self, messages: FactRows) -> Bools:
        """The mask of changes at or before the newest transaction before the window: bool [n]."""
        newest = [self.known.top_of_new(topic)[:-1] for topic, _ in self.window.partitions]
        past: Bools = np.zeros(len(messages), np.bool_)
        for at in set(newest) - {BEFORE_ALL[:-1]}:  # a loop over connectors
            is_of = np.array([one == at for one in newest])[messages["partition"]]
            past[is_of] = compared(messages["position"][is_of], at) <= 0
        past &= (messages["kind"] == MessageKind.CHANGE) & (messages["position"][:, 0] >= 0)
        return past

    def newest(self, before: FactRows) -> dict[str, NewestTransaction]:
        """The newest transaction of each connector, with those of some END markers."""
        newest = dict(self.known.newest)
        fresh = before[~self.is_old[before["transaction"]] & (before["position"][:, 0] >= 0)]
        for code in np.unique(fresh["source"]).tolist():
            of_source = fresh[fresh["source"] == code]
            last = of_source[np.argmax(ranks_of(of_source["position"]))]
            source = self.window.sources.names[code]
            log = newest[source].log if source in newest else of_source[0]["log"]
            position = SourcePosition(last["id"], int(last["time"]))
            newest[source] = NewestTransaction(position, tuple(last["position"].tolist()), log)
        return newest
