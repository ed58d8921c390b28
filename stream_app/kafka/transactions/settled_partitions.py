"""Decides whether an epoch leaves each partition with the newest versions of its rows.

A connector that starts again repeats what it has sent, and takes a partition back. A first read
brings rows without an order::

    messages of s.a/0    1.1  2.1  1.1  2.1 │ 3.1
    state behind each     settled  behind settled     the repeat of 2.1 is the newest change again

`epoch_cut` records a database snapshot only where each partition is settled.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from stream_app.arrow_buffers import Bools, Int64s
from stream_app.cdc.transactions import MessageKind
from stream_app.kafka.offset_ranges import KafkaPartition, PartitionOffsets
from stream_app.kafka.transactions.border import (
    BEFORE_ALL,
    LAST_OF_ALL,
    LogPosition,
    PartitionProgress,
    PartitionState,
)
from stream_app.kafka.transactions.pending_messages import FactRows
from stream_app.kafka.transactions.pending_transactions import MARKERS, PendingTransactions


def progress_at(
    facts: PendingTransactions,
    ends: Int64s,
    newest: PartitionOffsets,
    awaited: Mapping[KafkaPartition, LogPosition],
) -> dict[KafkaPartition, PartitionProgress]:
    """Return the progress of each partition at the ends of an epoch.

    Args:
        newest: the end of each partition, where idle ones have been read; empty: an idle one may
            have rows of the first read to come.
        awaited: the positions that partitions must pass before they are settled.
    """
    # 1. Choose the messages before the ends, and the changes with a position.
    messages = facts.messages
    is_inside = messages["offset"] < ends[messages["partition"]]
    inside = messages[is_inside]
    is_change = inside["kind"] == MessageKind.CHANGE
    has_position = is_change & (inside["position"][:, 0] >= 0)
    # 2. Mark the sure changes: of a transaction that is not counted here, more may come.
    uncounted = facts.ended & (~facts.begun | facts.is_old)
    is_sure = has_position.copy()
    is_sure[is_change] &= ~(
        inside["is_new"][is_change] & uncounted[inside["transaction"][is_change]]
    )
    # 3. Find the last rows of each partition.
    is_row = is_change | np.isin(inside["kind"], (MessageKind.READ, MessageKind.UNMARKED))
    last_row, last_change = _last_rows(inside, is_row), _last_rows(inside, has_position)
    last_new = _last_rows(inside, has_position & inside["is_new"])
    repeated = _ends_of_repeats(facts, inside[has_position & inside["is_new"]])
    with_markers = set(inside["partition"][np.isin(inside["kind"], MARKERS)].tolist())
    # 4. Find the partitions with later changes: rows of a first read lie before the first change.
    is_later = ~is_inside & messages["is_new"] & (messages["kind"] == MessageKind.CHANGE)
    followed = set(messages["partition"][is_later].tolist()) if newest else set()
    # 5. Decide the position and the state of each partition.
    progress = {}
    for partition, code in facts.pending.partitions.items():
        before = facts.earlier.partition(partition)
        seen = max(_position_of(inside, last_new.get(code)), before.top)
        top = max(
            seen, *(positions.get(partition, BEFORE_ALL) for positions in (awaited, repeated))
        )
        if code in last_change:
            is_behind = _position_of(inside, last_change[code]) < top
        else:
            is_behind = before.state is PartitionState.BEHIND or top > seen
        if code in last_row:
            is_read = bool(is_sure[last_row[code]])
        else:
            is_read = code in with_markers or before.state is PartitionState.SETTLED
        is_idle = code in followed or ends[code] >= newest.get(partition, LAST_OF_ALL)
        state = PartitionState.SETTLED if is_read or is_idle else PartitionState.READING
        state = PartitionState.BEHIND if is_behind else state
        progress[partition] = PartitionProgress(top, state)
    return progress


def _ends_of_repeats(
    facts: PendingTransactions, changes: FactRows
) -> dict[KafkaPartition, LogPosition]:
    """Return the positions that partitions must pass whose repeats seem to be new changes.

    Their topic got more partitions, which have others' changes. Or the connector started again in
    its first transaction, before which it has seen no commit.

    Args:
        changes: the changes that are new in their partitions.
    """
    partitions, awaited = list(facts.pending.partitions), dict[KafkaPartition, LogPosition]()
    old_partitions = changes["partition"][facts.is_past(changes)]
    for code in np.unique(old_partitions).tolist():
        awaited[partitions[code]] = facts.earlier.top_of_new(partitions[code][0])
    pairs = np.stack([changes["transaction"], changes["order"]], axis=1)
    _, inverse, count = np.unique(pairs, axis=0, return_inverse=True, return_counts=True)
    again = changes[["partition", "transaction"]][count[inverse.ravel()] > 1]
    commits = {int(end["transaction"]): end["position"].tolist() for end in facts.ends}
    for code, transaction in np.unique(again).tolist() if len(again) else ():
        position = (*commits.get(transaction, ()), LAST_OF_ALL)
        awaited[partitions[code]] = max(position, awaited.get(partitions[code], BEFORE_ALL))
    return awaited


def _last_rows(messages: FactRows, mask: Bools) -> dict[int, int]:
    """Return the row of the last message of each partition, by its code, among those of a mask."""
    rows = np.flatnonzero(mask)[::-1]
    partitions, first = np.unique(messages["partition"][rows], return_index=True)
    return dict(zip(partitions.tolist(), rows[first].tolist(), strict=True))


def _position_of(messages: FactRows, row: int | None) -> LogPosition:
    if row is None:
        return BEFORE_ALL
    return (*messages[row]["position"].tolist(), int(messages[row]["order"]))
