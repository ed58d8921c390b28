"""Decides whether an epoch leaves each partition with the newest versions of its rows.

A connector that starts again repeats what it has sent, and takes a partition back. A first read
brings rows without an order::

    messages of s.a/0    1.1  2.1  1.1  2.1 │ 3.1
    state after each      settled  behind settled     the repeat of 2.1 is the newest change again

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
    newest_offsets: PartitionOffsets,
    awaited_positions: Mapping[KafkaPartition, LogPosition],
) -> dict[KafkaPartition, PartitionProgress]:
    """Return the progress of each partition at the ends of an epoch.

    1. Choose the messages before the ends, and the changes with a position.
    2. Mark the sure changes. After a new change of an uncounted transaction, more may come.
    3. Find the last rows of each partition.
    4. Find the partitions with later changes: rows of a first read lie before the first change.
    5. Decide the position and the state of each partition.

    Args:
        newest_offsets: the end of each partition, where idle ones have been read; empty: an idle
            one may have rows of the first read to come.
        awaited_positions: the positions that partitions must pass before they are settled.
    """
    messages = facts.messages  # step 1
    is_inside = messages["offset"] < ends[messages["partition"]]
    epoch_rows = messages[is_inside]
    is_change = epoch_rows["kind"] == MessageKind.CHANGE
    has_position = is_change & (epoch_rows["position"][:, 0] >= 0)
    is_uncounted = facts.has_ended & (~facts.has_begun | facts.is_old)  # step 2
    is_sure = has_position.copy()
    is_sure[is_change] &= ~(
        epoch_rows["is_new"][is_change] & is_uncounted[epoch_rows["transaction"][is_change]]
    )
    row_kinds = (MessageKind.READ, MessageKind.UNMARKED)  # step 3
    is_row = is_change | np.isin(epoch_rows["kind"], row_kinds)
    last_row, last_change = _last_rows(epoch_rows, is_row), _last_rows(epoch_rows, has_position)
    last_new = _last_rows(epoch_rows, has_position & epoch_rows["is_new"])
    repeat_positions = _repeat_positions(facts, epoch_rows[has_position & epoch_rows["is_new"]])
    marked_partitions = set(epoch_rows["partition"][np.isin(epoch_rows["kind"], MARKERS)].tolist())
    is_later = ~is_inside & messages["is_new"]  # step 4
    is_later &= messages["kind"] == MessageKind.CHANGE
    later_partitions = set(messages["partition"][is_later].tolist()) if newest_offsets else set()
    progress = {}  # step 5
    for partition, code in facts.pending_messages.partitions.items():
        earlier = facts.earlier_progress.partition(partition)
        seen_position = max(_position_of(epoch_rows, last_new.get(code)), earlier.highest_position)
        highest_position = max(
            seen_position,
            awaited_positions.get(partition, BEFORE_ALL),
            repeat_positions.get(partition, BEFORE_ALL),
        )
        if code in last_change:
            is_behind = _position_of(epoch_rows, last_change[code]) < highest_position
        else:
            is_behind = earlier.state is PartitionState.BEHIND or highest_position > seen_position
        if code in last_row:
            is_read = bool(is_sure[last_row[code]])
        else:
            is_read = code in marked_partitions or earlier.state is PartitionState.SETTLED
        newest_offset = newest_offsets.get(partition, LAST_OF_ALL)
        is_idle = code in later_partitions or ends[code] >= newest_offset
        state = _state_of(is_behind=is_behind, has_newest_rows=is_read or is_idle)
        progress[partition] = PartitionProgress(highest_position, state)
    return progress


def _state_of(*, is_behind: bool, has_newest_rows: bool) -> PartitionState:
    if is_behind:
        return PartitionState.BEHIND
    return PartitionState.SETTLED if has_newest_rows else PartitionState.READING


def _repeat_positions(
    facts: PendingTransactions, changes: FactRows
) -> dict[KafkaPartition, LogPosition]:
    """Return the positions that partitions must pass whose repeats seem to be new changes.

    Their topic got more partitions, which have others' changes. Or the connector started again in
    its first transaction, before which it has seen no commit.

    Args:
        changes: the changes that are new in their partitions.
    """
    partitions = list(facts.pending_messages.partitions)
    repeat_positions: dict[KafkaPartition, LogPosition] = {}
    old_partitions = changes["partition"][facts.is_past(changes)]
    for code in np.unique(old_partitions).tolist():
        repeat_positions[partitions[code]] = facts.earlier_progress.newest_position(
            partitions[code][0]
        )
    pairs = np.stack([changes["transaction"], changes["order"]], axis=1)
    _, pair_index, pair_counts = np.unique(pairs, axis=0, return_inverse=True, return_counts=True)
    repeats = changes[["partition", "transaction"]][pair_counts[pair_index.ravel()] > 1]
    commits = {int(end["transaction"]): end["position"].tolist() for end in facts.ends}
    for code, transaction in np.unique(repeats).tolist() if len(repeats) else ():
        position = (*commits.get(transaction, ()), LAST_OF_ALL)
        repeat_positions[partitions[code]] = max(
            position, repeat_positions.get(partitions[code], BEFORE_ALL)
        )
    return repeat_positions


def _last_rows(messages: FactRows, mask: Bools) -> dict[int, int]:
    """Return the row of the last message of each partition, by its code, among those of a mask."""
    rows = np.flatnonzero(mask)[::-1]
    partitions, firsts = np.unique(messages["partition"][rows], return_index=True)
    return dict(zip(partitions.tolist(), rows[firsts].tolist(), strict=True))


def _position_of(messages: FactRows, row: int | None) -> LogPosition:
    if row is None:
        return BEFORE_ALL
    return (*messages[row]["position"].tolist(), int(messages[row]["order"]))
