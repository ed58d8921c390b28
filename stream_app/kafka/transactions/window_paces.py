"""Decides whether a cut leaves a partition with the newest version of its rows: pure.

A connector that repeats what it has sent takes a partition back. So does a first read that is not
over. `window_cut` records a database snapshot only where each partition is settled.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from stream_app.arrow_buffers import Bools, Int64s
from stream_app.cdc.transactions import MessageKind
from stream_app.kafka.offset_ranges import KafkaPartition, PartitionOffsets
from stream_app.kafka.transactions.log_progress import (
    BEFORE_ALL,
    LAST_OF_ALL,
    LogPosition,
    Pace,
    PartitionProgress,
)
from stream_app.kafka.transactions.transaction_window import FactRows
from stream_app.kafka.transactions.window_facts import MARKERS, WindowFacts


def paces_of(
    facts: WindowFacts,
    ends: Int64s,
    newest: PartitionOffsets,
    barriers: Mapping[KafkaPartition, LogPosition],
) -> dict[KafkaPartition, PartitionProgress]:
    """The progress of each partition at the ends.

    Args:
        newest: the end of each partition, where idle ones have been read; empty: an idle one may
            have rows of the first read to come.
    """
    messages = facts.messages
    is_inside = messages["offset"] < ends[messages["partition"]]
    inside = messages[is_inside]
    is_change = inside["kind"] == MessageKind.CHANGE
    is_placed = is_change & (inside["position"][:, 0] >= 0)
    of_change = inside["transaction"][is_change]
    # Of a transaction that is not counted here, more changes may come.
    uncounted = facts.ended & (~facts.begun | facts.is_old)
    is_sure = is_placed.copy()
    is_sure[is_change] &= ~(inside["is_new"][is_change] & uncounted[of_change])
    is_row = is_change | np.isin(inside["kind"], (MessageKind.READ, MessageKind.UNMARKED))
    last, last_change = _last_of(inside, is_row), _last_of(inside, is_placed)
    highest = _last_of(inside, is_placed & inside["is_new"])
    doubtful = _doubtful(facts, inside[is_placed & inside["is_new"]])
    markers = set(inside["partition"][np.isin(inside["kind"], MARKERS)].tolist())
    # The rows of a first read lie before the first change.
    is_behind = ~is_inside & messages["is_new"] & (messages["kind"] == MessageKind.CHANGE)
    followed = set(messages["partition"][is_behind].tolist()) if newest else set()
    paces = {}
    for place, code in facts.window.partitions.items():
        before = facts.known.partition(place)
        seen = max(_place_at(inside, highest.get(code)), before.top)
        top = max(seen, *(one.get(place, BEFORE_ALL) for one in (barriers, doubtful)))
        repeats = before.pace is Pace.BEHIND or top > seen
        if code in last_change:
            repeats = _place_at(inside, last_change[code]) < top
        is_idle = code in followed or ends[code] >= newest.get(place, LAST_OF_ALL)
        is_read = code in markers or before.pace is Pace.SETTLED
        if code in last:
            is_read = bool(is_sure[last[code]])
        pace = Pace.SETTLED if is_read or is_idle else Pace.READING
        paces[place] = PartitionProgress(top, Pace.BEHIND if repeats else pace)
    return paces


def _doubtful(facts: WindowFacts, changes: FactRows) -> dict[KafkaPartition, LogPosition]:
    """The place that partitions must pass in which repeats seem to be new.

    Their topic got more partitions, which have others' changes. Or the connector started again in
    its first transaction, before which it knows no commit.

    Args:
        changes: those that are new in their partitions.
    """
    places, barriers = list(facts.window.partitions), dict[KafkaPartition, LogPosition]()
    of_old = changes["partition"][facts.past(changes)]
    for code in np.unique(of_old).tolist():
        barriers[places[code]] = facts.known.top_of_new(places[code][0])
    named = np.stack([changes["transaction"], changes["order"]], axis=1)
    _, inverse, count = np.unique(named, axis=0, return_inverse=True, return_counts=True)
    again = changes[["partition", "transaction"]][count[inverse.ravel()] > 1]
    commits = {int(end["transaction"]): end["position"].tolist() for end in facts.ends}
    for code, transaction in np.unique(again).tolist() if len(again) else ():
        at = (*commits.get(transaction, ()), LAST_OF_ALL)
        barriers[places[code]] = max(at, barriers.get(places[code], BEFORE_ALL))
    return barriers


def _last_of(messages: FactRows, mask: Bools) -> dict[int, int]:
    """Partition → the last place among messages that a mask has there."""
    places = np.flatnonzero(mask)[::-1]
    partitions, first = np.unique(messages["partition"][places], return_index=True)
    return dict(zip(partitions.tolist(), places[first].tolist(), strict=True))


def _place_at(messages: FactRows, at: int | None) -> LogPosition:
    if at is None:
        return BEFORE_ALL
    return (*messages[at]["position"].tolist(), int(messages[at]["order"]))
