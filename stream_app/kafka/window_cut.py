"""Cuts an epoch among the messages of a window, and says what the tables are at its end: pure.

`whole_cut` moves the ends. This module decides which transactions are whole. It also names doubts
that the tables equal the source at its newest transaction.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from stream_app.arrow_buffers import Bools, Int64s
from stream_app.cdc.transactions import MessageKind
from stream_app.kafka.offset_ranges import PartitionOffsets
from stream_app.kafka.transaction_window import (
    BETWEEN,
    NO_CODE,
    Codes,
    FactRows,
    TransactionWindow,
)
from stream_app.kafka.whole_cut import spans_of, whole_ends
from stream_app.model.database.database_snapshot import SourcePosition

_NOT_IN_TOPICS = re.compile(r"[^A-Za-z0-9._-]")
"""Characters of a table's name that Debezium replaces in the topic's."""
_NAMED_MAX = 3
_OF_ONE_MESSAGE = ("order", "table", "kind", "transaction")
"""What no two messages share, unless the connector repeats one."""
_METADATA_FIX = "set provide.transaction.metadata = true at Debezium's connector"
_TOPIC_FIX = "make the topic anew, with one partition"


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
        newest: connector → its newest transaction before the ends; lacks connectors without one.
        newest_read: the same before the offsets that were read.
        doubt: why the tables do not equal the source at these transactions; None: they do.
        open: some transactions that are not whole before the offsets that were read, in words.
        is_overtaken: whether a transaction waits behind the ends that is itself whole.
        untopical: tables with changes, by their names in markers, that none of the topics carries.
    """

    ends: PartitionOffsets
    newest: Mapping[str, SourcePosition]
    newest_read: Mapping[str, SourcePosition]
    doubt: Doubt | None
    open: Sequence[str]
    is_overtaken: bool
    untopical: frozenset[str]


def cut_window(
    window: TransactionWindow,
    newest: PartitionOffsets,
    known: Mapping[str, SourcePosition],
    topics: Collection[str] = (),
) -> WholeCut:
    """Cut an epoch among the messages of a window; notes the partitions that have settled.

    Args:
        newest: the end of each partition of all topics of the job.
        known: connector → its newest transaction before the window.
        topics: further topics of the job, which have come since.
    """
    messages, marked = window.messages, window.ends["transaction"]
    collections = collections_of(window, {*topics, *(topic for topic, _ in newest)})
    lacking = _lacking(window, collections)
    complete = np.zeros(len(window.transactions.names), np.bool_)
    complete[marked] = True
    complete[list(lacking)] = False
    complete |= _of_earlier(window)
    read_to = np.array([window.reached[place] for place in window.partitions], np.int64)
    of_transactions = messages[messages["transaction"] != NO_CODE]
    spans = spans_of(
        of_transactions["transaction"], of_transactions["partition"], of_transactions["offset"]
    )
    ends = whole_ends(spans, complete, read_to)
    _settle(window, newest)
    is_before = window.ends["offset"] < ends[window.ends["partition"]]
    judged = _Judged(window, ends, window.ends[is_before], newest, known)
    doubt = next(judged.doubts(), None)
    if next(judged.of_repeats(), None) is not None:
        window.settled.clear()  # each partition is to be read beyond what comes again
    return WholeCut(
        ends=dict(zip(window.partitions, ends.tolist(), strict=True)),
        newest=judged.latest(),
        newest_read=replace(judged, before=window.ends).latest(),
        doubt=doubt,
        open=_open(window, complete, lacking),
        is_overtaken=bool(complete[marked[~is_before]].any()),
        untopical=frozenset(
            window.tables.names[code]
            for code in np.unique(window.counts["table"]).tolist()
            if collections[code] == NO_CODE
        ),
    )


def collections_of(window: TransactionWindow, topics: Collection[str]) -> Int64s:
    """The code of the name in END markers for each table's code; -1: no topic carries the table.

    A marker's name has no connector and perhaps no database. A loop over tables.
    """
    names, of_markers = window.tables.names, np.unique(window.counts["table"]).tolist()
    collections = np.full(len(names), NO_CODE, np.int64)
    in_topic = {code: _in_topic(names[code]) for code in of_markers}
    for code in of_markers:
        if any(topic.endswith(in_topic[code]) for topic in topics):
            collections[code] = code
    for code, name in enumerate(names):
        table, is_change, topic = name.partition(BETWEEN)
        for collection in of_markers if is_change else ():
            wanted = f".{names[collection]}"
            if f".{table}".endswith(wanted) or topic.endswith(in_topic[collection]):
                collections[code] = collections[collection] = collection
    return collections


def _in_topic(table: str) -> str:
    return f".{_NOT_IN_TOPICS.sub('_', table)}"


def _lacking(window: TransactionWindow, collections: Int64s) -> dict[int, str]:
    """Transaction → the changes of it that are not here, in words, for those with both markers.

    A transaction without its BEGIN here began before the window, so its counts say nothing. Changes
    that a connector repeats count once.
    """
    messages, tables = window.messages, len(window.tables.names)
    changes = messages[messages["kind"] == MessageKind.CHANGE]
    changes = changes[collections[changes["table"]] != NO_CODE]
    of_table = changes["transaction"] * tables + collections[changes["table"]]
    once = np.unique(np.stack([of_table, changes["order"]], axis=1), axis=0)[:, 0]
    arrived, seen = np.unique(once, return_counts=True)
    begun = messages["transaction"][messages["kind"] == MessageKind.BEGIN]
    promised = window.counts[np.isin(window.counts["transaction"], begun)]
    promised = promised[collections[promised["table"]] == promised["table"]]
    wanted = promised["transaction"] * tables + promised["table"]
    have = np.append(seen, 0)[np.searchsorted(arrived, wanted)] * np.isin(wanted, arrived)
    missing = promised["count"] - have
    return {  # a loop over the few that are not whole
        one["transaction"]: f"{count} of {one['count']} changes of "
        f"{window.tables.names[one['table']]}"
        for one, count in zip(promised[missing > 0], missing[missing > 0].tolist(), strict=True)
    }


def _of_earlier(window: TransactionWindow) -> Bools:
    """The mask of transactions whose markers lie before the window: bool [t].

    Such a one has no marker here, and a change before one of a transaction that has its END here.
    """
    messages, count = window.messages, len(window.transactions.names)
    ended, begun = np.zeros(count, np.bool_), np.zeros(count, np.bool_)
    ended[window.ends["transaction"]] = True
    begun[messages["transaction"][messages["kind"] == MessageKind.BEGIN]] = True
    changes = messages[messages["kind"] == MessageKind.CHANGE]
    has_end = ended[changes["transaction"]]
    of_ended = changes[has_end]
    first = np.full(len(window.partitions), NO_CODE, np.int64)  # no partition passes by itself
    first[of_ended["partition"][::-1]] = of_ended["offset"][::-1]
    has_none = ~has_end & ~begun[changes["transaction"]]
    passed = has_none & (changes["offset"] < first[changes["partition"]])
    earlier = np.zeros(count, np.bool_)
    earlier[changes["transaction"][passed]] = True
    return earlier


def _settle(window: TransactionWindow, newest: PartitionOffsets) -> None:
    """Note the partitions whose changes have reached the window's transactions.

    Before them lie rows of the connector's first read, or changes whose markers the window lacks.
    """
    messages = window.messages
    is_marker = np.isin(messages["kind"], (MessageKind.BEGIN, MessageKind.END))
    marked = np.zeros(len(window.transactions.names), np.bool_)
    marked[messages["transaction"][is_marker]] = True
    of_transactions = messages[messages["transaction"] != NO_CODE]
    is_marked = marked[of_transactions["transaction"]]
    reached = set(np.unique(of_transactions["partition"][is_marked]).tolist())
    waiting = set(np.unique(of_transactions["partition"][~is_marked]).tolist())
    has_streamed = bool(len(window.ends))  # the first read is then over, also in idle topics
    window.settle(
        place
        for code, place in enumerate(window.partitions)
        if code in reached
        or (has_streamed and code not in waiting and window.reached[place] >= newest.get(place, 0))
    )


def _open(window: TransactionWindow, complete: Bools, lacking: Mapping[int, str]) -> list[str]:
    """The first transactions that are not whole, in words."""
    present = np.unique(window.messages["transaction"])
    present = present[present != NO_CODE]
    return [
        f"transaction {window.transactions.names[code].replace(BETWEEN, ' ')} lacks "
        f"{lacking.get(code, 'its END marker')}"
        for code in present[~complete[present]][:_NAMED_MAX].tolist()
    ]


@dataclass(frozen=True, slots=True)
class _Judged:
    """A cut, and what is known to judge it by.

    Attributes:
        before: the END markers before the ends.
    """

    window: TransactionWindow
    ends: Int64s
    before: FactRows
    newest: PartitionOffsets
    known: Mapping[str, SourcePosition]

    def last(self) -> dict[str, Any]:
        """Connector → the last END marker before the ends in its topic."""
        return self._ends_of(self.before[np.argsort(self.before["offset"], kind="stable")])

    def latest(self) -> dict[str, SourcePosition]:
        """Connector → the END marker with the latest time before the ends."""
        in_time = self.before[np.lexsort((self.before["offset"], self.before["time"]))]
        return {
            source: SourcePosition(marker["id"], int(marker["time"]))
            for source, marker in self._ends_of(in_time).items()
        }

    def _ends_of(self, ordered: FactRows) -> dict[str, Any]:
        sources: Codes = self.window.sources
        return {
            sources.names[source]: ordered[ordered["source"] == source][-1]
            for source in np.unique(ordered["source"]).tolist()
        }

    def doubts(self) -> Iterator[Doubt]:
        """Why tables up to the ends may not be the database at its newest transactions."""
        yield from self._of_settings()
        yield from self.of_repeats()
        for topic, partition in self.window.partitions:
            if (topic, partition) not in self.window.settled:
                yield Doubt(
                    f"the job has not read {topic}/{partition} up to the changes that it began with"
                )

    def _of_settings(self) -> Iterator[Doubt]:
        messages, partitions = self.window.messages, self.window.partitions
        inside = messages["offset"] < self.ends[messages["partition"]]
        unmarked = messages[inside & (messages["kind"] == MessageKind.UNMARKED)]
        if len(unmarked):
            topic, _ = partitions[unmarked[0]["partition"]]
            yield Doubt(f"changes in the topic {topic} name no transaction", _METADATA_FIX)
        topics = {partitions[at][0] for at in np.unique(self.before["partition"]).tolist()}
        for topic in sorted(topics):
            count = sum(one == topic for one, _ in self.newest)
            if count > 1:
                what = f"the topic {topic} has {count} partitions, so it tells no order"
                yield Doubt(what, _TOPIC_FIX)

    def of_repeats(self) -> Iterator[Doubt]:
        """Signs that a connector repeats what it has sent."""
        messages, before = self.window.messages, self.before
        begun = messages["transaction"][messages["kind"] == MessageKind.BEGIN]
        for source, marker in sorted(self.last().items()):
            name = f"transaction {marker['id']} of {source}"
            if marker["transaction"] not in begun:
                yield Doubt(f"{name} began before the messages that this run has read")
            latest = before["time"][before["source"] == marker["source"]].max()
            if (
                max(latest, self.known[source].time_ms if source in self.known else 0)
                > marker["time"]
            ):
                yield Doubt(f"{name} comes again: the connector repeats what it has sent")
        # The END of what was sent first says nothing of what was sent again.
        inside = messages[messages["offset"] < self.ends[messages["partition"]]]
        inside = inside[inside["transaction"] != NO_CODE]
        inside = inside[np.lexsort([inside[name] for name in _OF_ONE_MESSAGE])]
        again = np.ones(max(len(inside) - 1, 0), np.bool_)
        for name in _OF_ONE_MESSAGE:
            again &= inside[name][1:] == inside[name][:-1]
        for repeated in inside[1:][again][:1]:
            name = self.window.transactions.names[repeated["transaction"]].replace(BETWEEN, " ")
            yield Doubt(f"transaction {name} comes twice: the connector repeats what it has sent")
