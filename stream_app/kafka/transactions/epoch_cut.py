"""Cuts an epoch among the pending messages, so that no transaction of the source crosses its end.

It is pure. In these three topics END 3 counts a change of b that has not arrived yet. So the cut is
before transaction 3 in every partition::

    s.transaction/0   b1 e1  b2 e2 │ b3 e3
    s.a/0             1.1    2.1   │ 3.1
    s.b/0             1.2          │

1. `pending_transactions` says which transactions have begun or ended, and which are repeats.
2. Those that lack no counted change are complete.
3. `whole_ends` moves the ends back to the greatest ones that no transaction crosses.
4. `settled_partitions` and `border_doubts` judge whether the tables are the database there.

`epochs.stream.whole_borders` calls it again when more messages have arrived. If the rest of a
transaction does not arrive in time, it forces a cut without the rest.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from stream_app.arrow_buffers import Bools, Int64s
from stream_app.cdc.transactions import MessageKind
from stream_app.kafka.offset_ranges import KafkaPartition, PartitionOffsets
from stream_app.kafka.transactions.border import (
    BEFORE_ALL,
    LAST_OF_ALL,
    Border,
    LogPosition,
    LogProgress,
)
from stream_app.kafka.transactions.border_doubts import DoubtSearch
from stream_app.kafka.transactions.counted_topics import counted_codes_of, is_topic_of
from stream_app.kafka.transactions.pending_messages import (
    KEY_SEPARATOR,
    NO_CODE,
    PendingMessages,
    PendingRows,
)
from stream_app.kafka.transactions.pending_transactions import PendingTransactions
from stream_app.kafka.transactions.settled_partitions import progress_at
from stream_app.kafka.transactions.whole_ends import spans_of, whole_ends

_NAMED_MAX = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochCut:
    """The ends of an epoch that no transaction crosses.

    Attributes:
        ends: the end in each partition, up to the offsets that were read.
        border: the source's progress at the epoch's end, and why it may be doubtful.
        open_transactions: some transactions that are not whole up to the offsets that were read,
            in words.
        is_overtaken: whether a whole transaction waits after the ends.
        tables_without_topic: tables with changes, by their names in markers, that no topic has.
    """

    ends: PartitionOffsets
    border: Border
    open_transactions: Sequence[str]
    is_overtaken: bool
    tables_without_topic: frozenset[str]


def cut_epoch(
    pending_messages: PendingMessages,
    newest_offsets: PartitionOffsets,
    earlier_progress: LogProgress,
    topics: Collection[str] = (),
    *,
    is_forced: bool = False,
) -> EpochCut:
    """Cut an epoch among the pending messages.

    Args:
        newest_offsets: the end of each partition of all topics of the job.
        earlier_progress: the progress where the pending messages begin.
        topics: further topics, which the job has got since.
        is_forced: whether transactions whose rest does not come pass as whole.
    """
    transactions = PendingTransactions.of(pending_messages, earlier_progress)
    counted_codes = counted_codes_of(
        pending_messages, {*topics, *(topic for topic, _ in newest_offsets)}
    )
    messages = transactions.bound_messages()
    missing_changes = _missing_changes(transactions, messages, counted_codes)
    is_complete = transactions.has_ended.copy()
    is_complete[[transaction for transaction, _ in missing_changes]] = False
    is_complete |= _has_begun_earlier(transactions, messages)
    is_open, lacks_end = ~is_complete, np.zeros(len(is_complete), np.bool_)
    if is_forced:
        lacks_end = _lacks_end(transactions, messages) & is_open
        is_complete |= transactions.has_ended | lacks_end
    spans = spans_of(messages["transaction"], messages["partition"], messages["offset"])
    ends = whole_ends(spans, is_complete, transactions.read_ends)
    end_markers = transactions.end_markers
    is_before = end_markers["offset"] < ends[end_markers["partition"]]
    epoch_markers, later_markers = end_markers[is_before], end_markers[~is_before]
    newest_transactions = transactions.newest_transactions(epoch_markers)
    awaited_positions = dict[KafkaPartition, LogPosition]()
    if is_forced:
        awaited_positions = _awaited_positions(
            transactions, missing_changes, lacks_end, counted_codes
        )
    partitions = progress_at(
        transactions, ends, newest_offsets if newest_transactions else {}, awaited_positions
    )
    progress = LogProgress(newest_transactions, partitions)
    doubts = DoubtSearch(transactions, ends, epoch_markers, newest_offsets, progress)
    return EpochCut(
        ends=dict(zip(pending_messages.partitions, ends.tolist(), strict=True)),
        border=Border(
            progress=progress,
            advances=newest_transactions != earlier_progress.newest_transactions,
            doubt=next(iter(doubts), None),
        ),
        open_transactions=_open_transactions(transactions, messages, is_open, missing_changes),
        is_overtaken=bool(is_complete[later_markers["transaction"]].any()),
        tables_without_topic=frozenset(
            pending_messages.tables.names[code]
            for code in np.unique(transactions.counts["table"]).tolist()
            if counted_codes[code] == NO_CODE
        ),
    )


def _missing_changes(
    transactions: PendingTransactions, messages: PendingRows, counted_codes: Int64s
) -> dict[tuple[int, int], str]:
    """Return (transaction, table) → its missing changes, in words, for those with both markers.

    A transaction without its BEGIN here began in earlier messages, so its counts say nothing.
    """
    table_count = len(transactions.pending_messages.tables.names)
    changes = messages[messages["kind"] == MessageKind.CHANGE]
    changes = changes[counted_codes[changes["table"]] != NO_CODE]
    table_codes = changes["transaction"] * table_count + counted_codes[changes["table"]]
    # Partitions that were added may have a change that another one has, too.
    change_codes = np.unique(np.stack([table_codes, changes["order"]], axis=1), axis=0)[:, 0]
    arrived_codes, arrived_counts = np.unique(change_codes, return_counts=True)
    counts, has_both = transactions.counts, transactions.has_begun & ~transactions.is_old
    counts = counts[has_both[counts["transaction"]]]
    counts = counts[counted_codes[counts["table"]] == counts["table"]]
    codes = counts["transaction"] * table_count + counts["table"]
    present_counts = np.append(arrived_counts, 0)[np.searchsorted(arrived_codes, codes)]
    present_counts *= np.isin(codes, arrived_codes)
    missing_counts = counts["count"] - present_counts
    is_missing = missing_counts > 0
    # The loop is over the few transactions that are not whole.
    return {
        (int(row["transaction"]), int(row["table"])): f"{count} of {row['count']} changes of "
        f"{transactions.pending_messages.tables.names[row['table']]}"
        for row, count in zip(counts[is_missing], missing_counts[is_missing].tolist(), strict=True)
    }


def _has_begun_earlier(transactions: PendingTransactions, messages: PendingRows) -> Bools:
    """Mark the transactions whose markers are before the pending messages: bool [t].

    Such a transaction has no marker among the pending messages. In some partition, its messages are
    before those of the first ended transaction. Markers have the order of commits, so the driver
    has read its markers earlier.
    """
    ended_rows = messages[transactions.has_ended[messages["transaction"]]][::-1]
    first_offsets = np.full(len(transactions.read_ends), NO_CODE, np.int64)
    first_offsets[ended_rows["partition"]] = ended_rows["offset"]
    has_no_marker = ~transactions.has_ended & ~transactions.has_begun
    return _has_message_before(first_offsets, messages, has_no_marker)


def _lacks_end(transactions: PendingTransactions, messages: PendingRows) -> Bools:
    """Mark the transactions whose END marker is lost, because a later one has ended: bool [t]."""
    ended_rows = messages[transactions.has_ended[messages["transaction"]]]
    last_offsets = np.full(len(transactions.read_ends), NO_CODE, np.int64)
    last_offsets[ended_rows["partition"]] = ended_rows["offset"]
    if not len(transactions.end_markers):
        # Without any marker transactions cannot be distinguished.
        last_offsets = transactions.read_ends
    return _has_message_before(last_offsets, messages, ~transactions.has_ended)


def _has_message_before(offsets: Int64s, messages: PendingRows, is_candidate: Bools) -> Bools:
    """Mark the transactions with a message before its partition's offset: bool [t]."""
    is_before = np.zeros(len(is_candidate), np.bool_)
    candidates = messages[is_candidate[messages["transaction"]]]
    candidates = candidates[candidates["offset"] < offsets[candidates["partition"]]]
    is_before[candidates["transaction"]] = True
    return is_before


def _awaited_positions(
    transactions: PendingTransactions,
    missing_changes: Collection[tuple[int, int]],
    lacks_end: Bools,
    counted_codes: Int64s,
) -> dict[KafkaPartition, LogPosition]:
    """Return the positions that partitions must pass to have what torn transactions lack."""
    pending_messages = transactions.pending_messages
    awaited_positions = dict[KafkaPartition, LogPosition]()
    commits = {int(marker["transaction"]): marker for marker in transactions.end_markers}
    torn_tables = [
        (transaction, table_code)
        for transaction, table_code in missing_changes
        if transaction in commits
    ]
    torn_commits: list[tuple[Any, int | None]] = [
        (commits[transaction], table_code) for transaction, table_code in torn_tables
    ]
    if lacks_end.any():
        torn_commits += [(marker, None) for marker in transactions.end_markers]
    for marker, table_code in torn_commits:
        position = (*marker["position"].tolist(), LAST_OF_ALL)
        source = pending_messages.sources.names[marker["source"]]
        for kafka_partition in pending_messages.partitions:
            topic, _ = kafka_partition
            may_lack_change = (
                topic.startswith(f"{source}.")
                if table_code is None
                else is_topic_of(pending_messages, topic, table_code, counted_codes)
            )
            if may_lack_change:
                awaited_positions[kafka_partition] = max(
                    awaited_positions.get(kafka_partition, BEFORE_ALL), position
                )
    return awaited_positions


def _open_transactions(
    transactions: PendingTransactions,
    messages: PendingRows,
    is_open: Bools,
    missing_changes: Mapping[tuple[int, int], str],
) -> list[str]:
    """Return the first transactions that are not whole, in words."""
    words = {transaction: changes for (transaction, _), changes in missing_changes.items()}
    transaction_codes = np.unique(messages["transaction"])
    names = transactions.pending_messages.transactions.names
    return [
        f"transaction {names[code].replace(KEY_SEPARATOR, ' ')} lacks "
        f"{words.get(code, 'its END marker')}"
        for code in transaction_codes[is_open[transaction_codes]][:_NAMED_MAX].tolist()
    ]
