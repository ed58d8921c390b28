"""Cuts an epoch among the pending messages, so that no transaction of the source crosses its end.

Pure. In these three topics END 3 counts a change of b that has not arrived yet. So every partition
is cut before transaction 3::

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
from stream_app.kafka.transactions.border_doubts import BorderDoubts
from stream_app.kafka.transactions.pending_messages import (
    BETWEEN,
    NO_CODE,
    FactRows,
    PendingMessages,
)
from stream_app.kafka.transactions.pending_transactions import PendingTransactions
from stream_app.kafka.transactions.settled_partitions import progress_at
from stream_app.kafka.transactions.topics_of_counts import collections_of, is_topic_of
from stream_app.kafka.transactions.whole_ends import spans_of, whole_ends

_NAMED_MAX = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochCut:
    """The ends of an epoch that no transaction crosses.

    Attributes:
        ends: the end in each partition, up to the offsets that were read.
        border: the facts about the source at the epoch's end.
        open_transactions: some transactions that are not whole up to the offsets that were read,
            in words.
        is_overtaken: whether a transaction waits behind the ends that is itself whole.
        untopical: tables with changes, by their names in markers, that none of the topics carries.
    """

    ends: PartitionOffsets
    border: Border
    open_transactions: Sequence[str]
    is_overtaken: bool
    untopical: frozenset[str]


def cut_epoch(
    pending: PendingMessages,
    newest: PartitionOffsets,
    earlier: LogProgress,
    topics: Collection[str] = (),
    *,
    is_forced: bool = False,
) -> EpochCut:
    """Cut an epoch among the pending messages.

    Args:
        newest: the end of each partition of all topics of the job.
        earlier: the progress where the pending messages begin.
        topics: further topics of the job, which have come since.
        is_forced: whether transactions whose rest does not come pass as whole.
    """
    facts = PendingTransactions.of(pending, earlier)
    collections = collections_of(pending, {*topics, *(topic for topic, _ in newest)})
    binding = facts.binding()
    missing_changes = _missing_changes(facts, binding, collections)
    complete = facts.ended.copy()
    complete[[transaction for transaction, _ in missing_changes]] = False
    complete |= _begun_earlier(facts, binding)
    is_open, without_end = ~complete, np.zeros(len(complete), np.bool_)
    if is_forced:
        without_end = _without_end(facts, binding) & is_open
        complete |= facts.ended | without_end
    spans = spans_of(binding["transaction"], binding["partition"], binding["offset"])
    ends = whole_ends(spans, complete, facts.read_to)
    is_before = facts.ends["offset"] < ends[facts.ends["partition"]]
    before, behind = facts.ends[is_before], facts.ends[~is_before]
    newest_ones = facts.newest(before)
    awaited = (
        _awaited_positions(facts, missing_changes, without_end, collections) if is_forced else {}
    )
    states = progress_at(facts, ends, newest if newest_ones else {}, awaited)
    progress = LogProgress(newest_ones, states)
    doubts = BorderDoubts(facts, ends, before, newest, progress)
    return EpochCut(
        ends=dict(zip(pending.partitions, ends.tolist(), strict=True)),
        border=Border(
            progress=progress,
            advances=newest_ones != earlier.newest,
            doubt=next(iter(doubts), None),
        ),
        open_transactions=_open_transactions(facts, binding, is_open, missing_changes),
        is_overtaken=bool(complete[behind["transaction"]].any()),
        untopical=frozenset(
            pending.tables.names[code]
            for code in np.unique(facts.counts["table"]).tolist()
            if collections[code] == NO_CODE
        ),
    )


def _missing_changes(
    facts: PendingTransactions, binding: FactRows, collections: Int64s
) -> dict[tuple[int, int], str]:
    """Return (transaction, table) → its missing changes, in words, for those with both markers.

    A transaction without its BEGIN here began in earlier messages, so its counts say nothing.
    """
    tables = len(facts.pending.tables.names)
    changes = binding[binding["kind"] == MessageKind.CHANGE]
    changes = changes[collections[changes["table"]] != NO_CODE]
    table_codes = changes["transaction"] * tables + collections[changes["table"]]
    # Partitions that were added may have a change that another one has, too.
    once = np.unique(np.stack([table_codes, changes["order"]], axis=1), axis=0)[:, 0]
    arrived, arrivals = np.unique(once, return_counts=True)
    counted = facts.counts[(facts.begun & ~facts.is_old)[facts.counts["transaction"]]]
    counted = counted[collections[counted["table"]] == counted["table"]]
    codes = counted["transaction"] * tables + counted["table"]
    present = np.append(arrivals, 0)[np.searchsorted(arrived, codes)] * np.isin(codes, arrived)
    missing = counted["count"] - present
    return {  # a loop over the few that are not whole
        (int(row["transaction"]), int(row["table"])): f"{count} of {row['count']} changes of "
        f"{facts.pending.tables.names[row['table']]}"
        for row, count in zip(counted[missing > 0], missing[missing > 0].tolist(), strict=True)
    }


def _begun_earlier(facts: PendingTransactions, binding: FactRows) -> Bools:
    """Return the transactions whose markers lie before the pending messages: bool [t].

    They have no marker here, and lie before the first transaction that has ended, in some
    partition. Markers have the order of commits, so theirs were read before.
    """
    ended = binding[facts.ended[binding["transaction"]]][::-1]
    first = np.full(len(facts.read_to), NO_CODE, np.int64)
    first[ended["partition"]] = ended["offset"]
    return _transactions_before(first, binding, ~facts.ended & ~facts.begun)


def _without_end(facts: PendingTransactions, binding: FactRows) -> Bools:
    """Return the transactions whose END marker is lost, because a later one has ended: bool [t]."""
    ended = binding[facts.ended[binding["transaction"]]]
    last = np.full(len(facts.read_to), NO_CODE, np.int64)
    last[ended["partition"]] = ended["offset"]
    if not len(facts.ends):
        last = facts.read_to  # without any marker transactions cannot be distinguished
    return _transactions_before(last, binding, ~facts.ended)


def _transactions_before(offsets: Int64s, binding: FactRows, candidates: Bools) -> Bools:
    """Return which transactions have a message before its partition's offset: bool [t]."""
    is_before = np.zeros(len(candidates), np.bool_)
    messages = binding[candidates[binding["transaction"]]]
    is_before[messages["transaction"][messages["offset"] < offsets[messages["partition"]]]] = True
    return is_before


def _awaited_positions(
    facts: PendingTransactions,
    missing_changes: Collection[tuple[int, int]],
    without_end: Bools,
    collections: Int64s,
) -> dict[KafkaPartition, LogPosition]:
    """Return the positions that partitions must pass before they have what torn transactions
    lack.
    """
    pending, awaited = facts.pending, dict[KafkaPartition, LogPosition]()
    commits = {int(end["transaction"]): end for end in facts.ends}
    torn = [
        (transaction, table) for transaction, table in missing_changes if transaction in commits
    ]
    missing: list[tuple[Any, int | None]] = [
        (commits[transaction], table) for transaction, table in torn
    ]
    if without_end.any():
        missing += [(end, None) for end in facts.ends]
    for end, table in missing:
        position = (*end["position"].tolist(), LAST_OF_ALL)
        source = pending.sources.names[end["source"]]
        for partition in pending.partitions:
            topic, _ = partition
            is_there = (
                topic.startswith(f"{source}.")
                if table is None
                else is_topic_of(pending, topic, table, collections)
            )
            if is_there:
                awaited[partition] = max(awaited.get(partition, BEFORE_ALL), position)
    return awaited


def _open_transactions(
    facts: PendingTransactions,
    binding: FactRows,
    is_open: Bools,
    missing_changes: Mapping[tuple[int, int], str],
) -> list[str]:
    """Return the first transactions that are not whole, in words."""
    words = {transaction: changes for (transaction, _), changes in missing_changes.items()}
    present = np.unique(binding["transaction"])
    return [
        f"transaction {facts.pending.transactions.names[code].replace(BETWEEN, ' ')} lacks "
        f"{words.get(code, 'its END marker')}"
        for code in present[is_open[present]][:_NAMED_MAX].tolist()
    ]
