"""Cuts an epoch among the messages of a window, and says what the tables are at its end: pure.

`whole_cut` moves the ends. This module decides which transactions are whole, and names doubts that
the tables equal the source at its newest transaction. Repeats of a connector decide nothing: their
places in the source's log show them. A partition is behind until it is beyond them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from stream_app.arrow_buffers import Bools, Int64s
from stream_app.cdc.transactions import MessageKind
from stream_app.kafka.offset_ranges import KafkaPartition, PartitionOffsets
from stream_app.kafka.transactions.log_progress import (
    BEFORE_ALL,
    LAST_OF_ALL,
    LogPosition,
    LogProgress,
    Pace,
)
from stream_app.kafka.transactions.topics_of_counts import collections_of, is_topic_of
from stream_app.kafka.transactions.transaction_window import (
    BETWEEN,
    NO_CODE,
    FactRows,
    TransactionWindow,
)
from stream_app.kafka.transactions.whole_cut import spans_of, whole_ends
from stream_app.kafka.transactions.window_facts import WindowFacts
from stream_app.kafka.transactions.window_paces import paces_of

_NAMED_MAX = 3
_METADATA_FIX = "set provide.transaction.metadata = true at Debezium's connector"
_TOPIC_FIX = "make the topic anew, with one partition"
_ORDER_FIX = "see docs/transactions.md for the connectors that tell it, or leave the key out"
_LOG_FIX = "give the job a new checkpoint and new tables, or leave the key out"


@dataclass(frozen=True, slots=True)
class Doubt:
    """Why tables are not the database at its newest transaction.

    Attributes:
        fix: the remedy; empty: the doubt passes by itself.
    """

    what: str
    fix: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeCut:
    """The ends of an epoch that no transaction crosses.

    Attributes:
        ends: the end in each partition, up to the offsets that were read.
        progress: that of the ends.
        advances: whether a transaction before the ends is newer than all earlier ones.
        doubt: why the tables do not equal the source at its newest transactions; None: they do.
        open: some transactions that are not whole before the offsets that were read, in words.
        is_overtaken: whether a transaction waits behind the ends that is itself whole.
        untopical: tables with changes, by their names in markers, that none of the topics carries.
    """

    ends: PartitionOffsets
    progress: LogProgress
    advances: bool
    doubt: Doubt | None
    open: Sequence[str]
    is_overtaken: bool
    untopical: frozenset[str]


def cut_window(
    window: TransactionWindow,
    newest: PartitionOffsets,
    known: LogProgress,
    topics: Collection[str] = (),
    *,
    is_forced: bool = False,
) -> WholeCut:
    """Cut an epoch among the messages of a window.

    Args:
        newest: the end of each partition of all topics of the job.
        known: the progress where the window begins.
        topics: further topics of the job, which have come since.
        is_forced: whether transactions whose rest does not come pass as whole.
    """
    facts = WindowFacts.of(window, known)
    collections = collections_of(window, {*topics, *(topic for topic, _ in newest)})
    binding = facts.binding()
    lacking = _lacking(facts, binding, collections)
    complete = facts.ended.copy()
    complete[[transaction for transaction, _ in lacking]] = False
    complete |= _passed(facts, binding, ~facts.ended & ~facts.begun, is_forced=False)
    lost = np.zeros(len(complete), np.bool_)
    is_open = ~complete
    if is_forced:
        lost = _passed(facts, binding, ~facts.ended, is_forced=True) & is_open
        complete |= facts.ended | lost
    spans = spans_of(binding["transaction"], binding["partition"], binding["offset"])
    ends = whole_ends(spans, complete, facts.read_to)
    is_before = facts.ends["offset"] < ends[facts.ends["partition"]]
    marks = facts.newest(facts.ends[is_before])
    barriers = _barriers(facts, lacking, lost, collections) if is_forced else {}
    progress = LogProgress(marks, paces_of(facts, ends, newest if marks else {}, barriers))
    judged = _Judged(facts, ends, facts.ends[is_before], newest, progress)
    return WholeCut(
        ends=dict(zip(window.partitions, ends.tolist(), strict=True)),
        progress=progress,
        advances=marks != known.newest,
        doubt=next(judged.doubts(), None),
        open=_open(facts, binding, is_open, lacking),
        is_overtaken=bool(complete[facts.ends["transaction"][~is_before]].any()),
        untopical=frozenset(
            window.tables.names[code]
            for code in np.unique(facts.counts["table"]).tolist()
            if collections[code] == NO_CODE
        ),
    )


def _lacking(
    facts: WindowFacts, binding: FactRows, collections: Int64s
) -> dict[tuple[int, int], str]:
    """(transaction, table) → the changes that are not here, in words, for those with both markers.

    A transaction without its BEGIN here began before the window, so its counts say nothing.
    """
    tables = len(facts.window.tables.names)
    changes = binding[binding["kind"] == MessageKind.CHANGE]
    changes = changes[collections[changes["table"]] != NO_CODE]
    of_table = changes["transaction"] * tables + collections[changes["table"]]
    # Partitions that were added may have a change that another one has, too.
    once = np.unique(np.stack([of_table, changes["order"]], axis=1), axis=0)[:, 0]
    arrived, seen = np.unique(once, return_counts=True)
    counted = facts.counts[(facts.begun & ~facts.is_old)[facts.counts["transaction"]]]
    counted = counted[collections[counted["table"]] == counted["table"]]
    wanted = counted["transaction"] * tables + counted["table"]
    have = np.append(seen, 0)[np.searchsorted(arrived, wanted)] * np.isin(wanted, arrived)
    missing = counted["count"] - have
    return {  # a loop over the few that are not whole
        (int(one["transaction"]), int(one["table"])): f"{count} of {one['count']} changes of "
        f"{facts.window.tables.names[one['table']]}"
        for one, count in zip(counted[missing > 0], missing[missing > 0].tolist(), strict=True)
    }


def _passed(facts: WindowFacts, binding: FactRows, asked: Bools, *, is_forced: bool) -> Bools:
    """The transactions of some that lie before one that has ended, in a partition: bool [t].

    Markers have the order of commits, so those of such a transaction lie before the window, or are
    lost. Only before the first one that has ended the former is certain.
    """
    ended = binding[facts.ended[binding["transaction"]]]
    if not is_forced:
        ended = ended[::-1]
    border = np.full(len(facts.read_to), NO_CODE, np.int64)  # no partition passes by itself
    border[ended["partition"]] = ended["offset"]
    others = binding[asked[binding["transaction"]]]
    passed = np.zeros(len(asked), np.bool_)
    if is_forced and not len(facts.ends):
        border = facts.read_to  # without any marker nothing tells transactions apart
    passed[others["transaction"][others["offset"] < border[others["partition"]]]] = True
    return passed


def _barriers(
    facts: WindowFacts, lacking: Collection[tuple[int, int]], lost: Bools, collections: Int64s
) -> dict[KafkaPartition, LogPosition]:
    """The place that partitions must pass before they have what transactions lack."""
    window, barriers = facts.window, dict[KafkaPartition, LogPosition]()
    commits = {int(end["transaction"]): end for end in facts.ends}
    torn = [(transaction, table) for transaction, table in lacking if transaction in commits]
    missing: list[tuple[Any, int | None]] = [(commits[of], table) for of, table in torn]
    if lost.any():
        missing += [(end, None) for end in facts.ends]
    for end, table in missing:
        at = (*end["position"].tolist(), LAST_OF_ALL)
        source = window.sources.names[end["source"]]
        for place in window.partitions:
            is_there = (
                place[0].startswith(f"{source}.")
                if table is None
                else is_topic_of(window, place[0], table, collections)
            )
            if is_there:
                barriers[place] = max(barriers.get(place, BEFORE_ALL), at)
    return barriers


def _open(
    facts: WindowFacts,
    binding: FactRows,
    is_open: Bools,
    lacking: Mapping[tuple[int, int], str],
) -> list[str]:
    """The first transactions that are not whole, in words."""
    words = {transaction: what for (transaction, _), what in lacking.items()}
    present = np.unique(binding["transaction"])
    return [
        f"transaction {facts.window.transactions.names[code].replace(BETWEEN, ' ')} lacks "
        f"{words.get(code, 'its END marker')}"
        for code in present[is_open[present]][:_NAMED_MAX].tolist()
    ]


@dataclass(frozen=True, slots=True)
class _Judged:
    """A cut, and what is known to judge it by.

    Attributes:
        before: the END markers before the ends.
    """

    facts: WindowFacts
    ends: Int64s
    before: FactRows
    newest: PartitionOffsets
    progress: LogProgress

    def doubts(self) -> Iterator[Doubt]:
        """Why tables up to the ends may not be the database at its newest transactions."""
        yield from self._of_settings()
        yield from self._of_logs()
        for (topic, partition), at in self.progress.partitions.items():
            if at.pace is Pace.BEHIND:
                yield Doubt(
                    f"{topic}/{partition} is behind: the connector repeats changes, or some are "
                    "to come"
                )
            elif at.pace is Pace.READING:
                yield Doubt(f"the job has not read {topic}/{partition} up to its first changes")

    def _of_settings(self) -> Iterator[Doubt]:
        messages, places = self.facts.messages, list(self.facts.window.partitions)
        inside = messages[messages["offset"] < self.ends[messages["partition"]]]
        is_change = inside["kind"] == MessageKind.CHANGE
        for unmarked in inside[inside["kind"] == MessageKind.UNMARKED][:1]:
            topic, _ = places[unmarked["partition"]]
            yield Doubt(f"changes in the topic {topic} name no transaction", _METADATA_FIX)
        for unplaced in inside[is_change & (inside["position"][:, 0] < 0)][:1]:
            topic, _ = places[unplaced["partition"]]
            yield Doubt(
                f"changes in the topic {topic} do not tell their order in the source's log",
                _ORDER_FIX,
            )
        for topic in sorted({places[at][0] for at in np.unique(self.before["partition"]).tolist()}):
            count = sum(one == topic for one, _ in self.newest)
            if count > 1:
                what = f"the topic {topic} has {count} partitions, so it tells no order"
                yield Doubt(what, _TOPIC_FIX)

    def _of_logs(self) -> Iterator[Doubt]:
        facts = self.facts
        for unplaced in self.before[self.before["position"][:, 0] < 0][:1]:
            yield Doubt(
                f"transaction {unplaced['id']} does not tell its place in the source's log",
                _ORDER_FIX,
            )
        for source, newest in self.progress.newest.items():
            of_source = self.before[self.before["source"] == facts.window.sources.code(source)]
            for end in of_source[of_source["log"] != newest.log][:1]:
                what = f"transaction {end['id']} of {source} is of another server than earlier ones"
                yield Doubt(what, _LOG_FIX)
        for source, newest in self.progress.newest.items():
            of_newest = self.before["id"] == newest.position.transaction
            for end in self.before[of_newest]:
                code = end["transaction"]
                if not facts.begun[code] and not facts.is_old[code]:
                    yield Doubt(
                        f"transaction {end['id']} of {source} began before the messages that this "
                        "run has read"
                    )
