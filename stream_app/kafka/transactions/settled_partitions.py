"""Decides whether an epoch leaves each partition with the latest versions of its rows.

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
from stream_app.kafka.transactions.pending_messages import PendingRows
from stream_app.kafka.transactions.pending_transactions import MARKERS, PendingTransactions

_ROW_KINDS = (MessageKind.CHANGE, MessageKind.READ, MessageKind.UNMARKED)
"""The kinds of messages that carry rows of a table."""


def progress_at(
    transactions: PendingTransactions,
    ends: Int64s,
    newest_offsets: PartitionOffsets,
    awaited_positions: Mapping[KafkaPartition, LogPosition],
) -> dict[KafkaPartition, PartitionProgress]:
    """Return the progress of each partition at the ends of an epoch.

    1. Choose the messages before the ends, and the changes with a position.
    2. Mark the sure changes. After a new change of an uncounted transaction, more may come.
    3. Find the last message of each partition that gives a row.
    4. Find the partitions with later changes: rows of a first read are before the first change.
    5. Decide the position and the state of each partition.

    Args:
        newest_offsets: the end of each partition, where idle ones have been read; empty: an idle
            one may have rows of the first read to come.
        awaited_positions: the positions that partitions must pass before they are settled.
    """
    all_messages = transactions.messages  # step 1
    is_inside = all_messages["offset"] < ends[all_messages["partition"]]
    messages = all_messages[is_inside]
    is_change = messages["kind"] == MessageKind.CHANGE
    has_position = is_change & (messages["position"][:, 0] >= 0)
    is_sure = has_position.copy()  # step 2
    is_uncounted = transactions.has_ended & (~transactions.has_begun | transactions.is_old)
    change_transactions = messages["transaction"][is_change]
    is_sure[is_change] &= ~(messages["is_new"][is_change] & is_uncounted[change_transactions])
    gives_row = np.isin(messages["kind"], _ROW_KINDS)  # step 3
    last_row_index = _last_indices(messages, gives_row)
    last_change_index = _last_indices(messages, has_position)
    last_new_index = _last_indices(messages, has_position & messages["is_new"])
    repeat_positions = _repeat_positions(transactions, messages[has_position & messages["is_new"]])
    marked_codes = set(messages["partition"][np.isin(messages["kind"], MARKERS)].tolist())
    is_later = ~is_inside & all_messages["is_new"]  # step 4
    is_later &= all_messages["kind"] == MessageKind.CHANGE
    later_codes = set(all_messages["partition"][is_later].tolist()) if newest_offsets else set()
    progress = {}  # step 5
    for kafka_partition, code in transactions.pending_messages.partitions.items():
        old_progress = transactions.earlier_progress.partition_progress(kafka_partition)
        last_new_position = _position_of(messages, last_new_index.get(code))
        seen_position = max(last_new_position, old_progress.highest_position)
        highest_position = max(
            seen_position,
            awaited_positions.get(kafka_partition, BEFORE_ALL),
            repeat_positions.get(kafka_partition, BEFORE_ALL),
        )
        is_behind = old_progress.state is PartitionState.BEHIND or highest_position > seen_position
        if code in last_change_index:
            is_behind = _position_of(messages, last_change_index[code]) < highest_position
        if code in last_row_index:
            is_read = bool(is_sure[last_row_index[code]])
        else:
            is_read = code in marked_codes or old_progress.state is PartitionState.SETTLED
        newest_offset = newest_offsets.get(kafka_partition, LAST_OF_ALL)
        is_idle = code in later_codes or ends[code] >= newest_offset
        state = _state_of(is_behind=is_behind, has_newest_rows=is_read or is_idle)
        progress[kafka_partition] = PartitionProgress(highest_position, state)
    return progress


def _state_of(*, is_behind: bool, has_newest_rows: bool) -> PartitionState:
    if is_behind:
        return PartitionState.BEHIND
    return PartitionState.SETTLED if has_newest_rows else PartitionState.READING


def _repeat_positions(
    transactions: PendingTransactions, changes: PendingRows
) -> dict[KafkaPartition, LogPosition]:
    """Return the positions that partitions must pass whose repeated changes look new.

    Either their topic got more partitions, so a partition repeats changes that another one has. Or
    the connector started again within its first transaction, before it had seen a commit.

    Args:
        changes: the changes that are new in their partitions.
    """
    partitions = list(transactions.pending_messages.partitions)
    repeat_positions: dict[KafkaPartition, LogPosition] = {}
    old_codes = changes["partition"][transactions.is_past(changes)]
    for code in np.unique(old_codes).tolist():
        repeat_positions[partitions[code]] = transactions.earlier_progress.newest_position(
            partitions[code][0]
        )
    pairs = np.stack([changes["transaction"], changes["order"]], axis=1)
    _, pair_index, pair_counts = np.unique(pairs, axis=0, return_inverse=True, return_counts=True)
    repeats = changes[["partition", "transaction"]][pair_counts[pair_index.ravel()] > 1]
    commits = {
        int(marker["transaction"]): marker["position"].tolist()
        for marker in transactions.end_markers
    }
    for code, transaction in np.unique(repeats).tolist() if len(repeats) else ():
        position = (*commits.get(transaction, ()), LAST_OF_ALL)
        repeat_positions[partitions[code]] = max(
            position, repeat_positions.get(partitions[code], BEFORE_ALL)
        )
    return repeat_positions


def _last_indices(messages: PendingRows, mask: Bools) -> dict[int, int]:
    """Return the index of the last message in the mask of each partition, by its code."""
    indices = np.flatnonzero(mask)[::-1]
    codes, firsts = np.unique(messages["partition"][indices], return_index=True)
    return dict(zip(codes.tolist(), indices[firsts].tolist(), strict=True))


def _position_of(messages: PendingRows, message_index: int | None) -> LogPosition:
    if message_index is None:
        return BEFORE_ALL
    return (*messages[message_index]["position"].tolist(), int(messages[message_index]["order"]))
