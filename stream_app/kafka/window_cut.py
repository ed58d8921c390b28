"""Cuts an epoch among the messages of a window, and says what the tables are at its end: pure.

`whole_cut` moves the ends. This module decides which transactions are whole, and names doubts that
the tables equal the source at its newest transaction. Repeats of a connector decide nothing: they
are known by their places in the source's log, and a partition has a pace until it is beyond them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from stream_app.arrow_buffers import Bools, Int64s
from stream_app.cdc.transactions import MessageKind
from stream_app.kafka.log_progress import (
    BEFORE_ALL,
    LAST_OF_ALL,
    LogPosition,
    LogProgress,
    NewestTransaction,
    Pace,
    PartitionProgress,
    compared,
    ranks_of,
)
from stream_app.kafka.offset_ranges import KafkaPartition, PartitionOffsets
from stream_app.kafka.topics_of_counts import collections_of, is_topic_of
from stream_app.kafka.transaction_window import (
    BETWEEN,
    NO_CODE,
    FactRows,
    TransactionWindow,
)
from stream_app.kafka.whole_cut import spans_of, whole_ends
from stream_app.model.database.database_snapshot import SourcePosition

_NAMED_MAX = 3
_METADATA_FIX = "set provide.transaction.metadata = true at Debezium's connector"
_TOPIC_FIX = "make the topic anew, with one partition"
_ORDER_FIX = "see docs/transactions.md for the connectors that tell it, or leave the key out"
_LOG_FIX = "give the job a new checkpoint and new tables, or leave the key out"
_MARKERS = (MessageKind.BEGIN, MessageKind.END)


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
    facts = _Facts.of(window, known)
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
    progress = LogProgress(
        marks, _paces(facts, ends, newest if marks else {}, barriers)
    )
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


@dataclass(frozen=True, slots=True)
class _Facts:
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
    def of(cls, window: TransactionWindow, known: LogProgress) -> _Facts:
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
        markers = np.flatnonzero(np.isin(messages["kind"], _MARKERS))
        named = 2 * messages["transaction"][markers] + (messages["kind"][markers] == _MARKERS[1])
        is_bound[markers[np.unique(named, return_index=True)[1]]] = True
        is_bound &= messages["transaction"] != NO_CODE
        is_bound[is_bound] &= ~self.is_old[messages["transaction"][is_bound]]
        bound: FactRows = messages[is_bound]
        return bound

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


def _lacking(
    facts: _Facts, binding: FactRows, collections: Int64s
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


def _passed(facts: _Facts, binding: FactRows, asked: Bools, *, is_forced: bool) -> Bools:
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
    facts: _Facts, lacking: Collection[tuple[int, int]], lost: Bools, collections: Int64s
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


def _paces(
    facts: _Facts,
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
    moved = _moved(facts, inside[is_placed & inside["is_new"]])
    markers = set(inside["partition"][np.isin(inside["kind"], _MARKERS)].tolist())
    # The rows of a first read lie before the first change.
    is_behind = ~is_inside & messages["is_new"] & (messages["kind"] == MessageKind.CHANGE)
    followed = set(messages["partition"][is_behind].tolist()) if newest else set()
    paces = {}
    for place, code in facts.window.partitions.items():
        before = facts.known.partition(place)
        seen = max(_place_at(inside, highest.get(code)), before.top)
        top = max(seen, *(one.get(place, BEFORE_ALL) for one in (barriers, moved)))
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


def _moved(facts: _Facts, changes: FactRows) -> dict[KafkaPartition, LogPosition]:
    """The place that partitions must pass which have others' changes, since topics got more.

    Args:
        changes: those that are new in their partitions.
    """
    places, barriers = list(facts.window.partitions), dict[KafkaPartition, LogPosition]()
    of_old = changes["partition"][facts.is_old[changes["transaction"]]]
    for code in np.unique(of_old).tolist():
        barriers[places[code]] = facts.known.top_of_new(places[code][0])
    named = np.stack([changes["transaction"], changes["order"]], axis=1)
    _, inverse, count = np.unique(named, axis=0, return_inverse=True, return_counts=True)
    shared = np.unique(changes["partition"][count[inverse.ravel()] > 1]).tolist()
    tops = {places[code]: _place_at(changes, _last_in(changes, code)) for code in shared}
    for place in tops:
        of_topic = [top for (topic, _), top in tops.items() if topic == place[0]]
        barriers[place] = max(*of_topic, barriers.get(place, BEFORE_ALL))
    return barriers


def _last_in(messages: FactRows, partition: int) -> int:
    return int(np.flatnonzero(messages["partition"] == partition)[-1])


def _last_of(messages: FactRows, mask: Bools) -> dict[int, int]:
    """Partition → the last place among messages that a mask has there."""
    places = np.flatnonzero(mask)[::-1]
    partitions, first = np.unique(messages["partition"][places], return_index=True)
    return dict(zip(partitions.tolist(), places[first].tolist(), strict=True))


def _place_at(messages: FactRows, at: int | None) -> LogPosition:
    if at is None:
        return BEFORE_ALL
    return (*messages[at]["position"].tolist(), int(messages[at]["order"]))


def _open(
    facts: _Facts,
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

    facts: _Facts
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
