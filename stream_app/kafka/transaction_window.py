"""Gathers the transactions of messages that no epoch has yet, and cuts an epoch among them.

`spark.stream.whole_borders` reads the messages and adds their facts. A window begins at the job's
position, and keeps a few numbers of each message behind it. `whole_cut` moves the ends.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from stream_app.arrow_buffers import Bools, Int64s
from stream_app.cdc.transactions import MessageKind, MessageTransactions
from stream_app.kafka.offset_ranges import KafkaPartition, PartitionOffsets
from stream_app.kafka.whole_cut import spans_of, whole_ends
from stream_app.model.database.database_snapshot import SourcePosition

Records = npt.NDArray[Any]
"""An array of `_MESSAGE`, `_END` or `_COUNT`."""
_MESSAGE = np.dtype(
    [(name, np.int64) for name in ("partition", "offset", "kind", "transaction", "table", "order")]
)
_END = np.dtype(
    [(name, np.int64) for name in ("partition", "offset", "transaction", "source", "time")]
    + [("id", np.object_)]
)
_COUNT = np.dtype([(name, np.int64) for name in ("transaction", "table", "count")])
_NO_CODE = -1
_BETWEEN = "\0"
_NOT_IN_TOPICS = re.compile(r"[^A-Za-z0-9._-]")
"""Characters of a table's name that Debezium replaces in the topic's."""
_NAMED_MAX = 3
_FORGOTTEN_MIN = 10_000
METADATA_FIX = "set provide.transaction.metadata = true at Debezium's connector"


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
        doubt: why the tables do not equal the source at these transactions; None: they do.
        open: some transactions that are not whole before the offsets that were read, in words.
        untopical: tables with changes, by their names in markers, that none of the topics carries.
    """

    ends: PartitionOffsets
    newest: Mapping[str, SourcePosition]
    doubt: Doubt | None
    open: Sequence[str]
    untopical: frozenset[str]


class _Codes:
    """Codes of names, from 0 on."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self._codes: dict[str, int] = {}

    def code(self, name: str) -> int:
        code = self._codes.setdefault(name, len(self.names))
        if code == len(self.names):
            self.names.append(name)
        return code

    def of(self, names: pa.Array) -> Int64s:
        """The code of each name, int64 [n]; -1 for null. Loops over different names."""
        encoded = names.dictionary_encode()
        codes = np.array([*map(self.code, encoded.dictionary.to_pylist()), _NO_CODE], np.int64)
        rows: Int64s = codes[pc.fill_null(encoded.indices, len(codes) - 1).to_numpy()]
        return rows

    def forget_all_but(self, used: Int64s) -> Int64s:
        """Forget the names of other codes; returns the new code of each old one."""
        new = np.full(len(self.names), _NO_CODE, np.int64)
        new[used] = np.arange(len(used))
        self.names = [self.names[code] for code in used.tolist()]
        self._codes = {name: code for code, name in enumerate(self.names)}
        return new


@dataclass(slots=True)
class TransactionWindow:
    """The transactions of the messages behind a position of the job.

    Attributes:
        reached: the offset behind the newest message of each partition whose facts are here.
    """

    reached: dict[KafkaPartition, int] = field(default_factory=dict)
    _partitions: list[KafkaPartition] = field(init=False, default_factory=list)
    _transactions: _Codes = field(init=False, default_factory=_Codes)
    _sources: _Codes = field(init=False, default_factory=_Codes)
    _tables: _Codes = field(init=False, default_factory=_Codes)
    _messages: Records = field(init=False, default_factory=lambda: np.empty(0, _MESSAGE))
    _ends: Records = field(init=False, default_factory=lambda: np.empty(0, _END))
    _counts: Records = field(init=False, default_factory=lambda: np.empty(0, _COUNT))

    def add(self, place: KafkaPartition, offsets: Int64s, facts: MessageTransactions) -> None:
        """Add the messages of one partition, which follow those that are here.

        Args:
            offsets: int64 [n].
        """
        partition, topic = self._partition(place), place[0]
        # A marker does not name its connector; its topic does.
        source = topic.rpartition(".")[0]
        sources = pc.fill_null(facts.sources, source)
        names = pc.binary_join_element_wise(sources, facts.names, _BETWEEN)
        messages = np.zeros(len(offsets), _MESSAGE)
        messages["partition"], messages["offset"] = partition, offsets
        messages["kind"], messages["order"] = facts.kinds, facts.orders
        messages["transaction"] = self._transactions.of(names)
        messages["table"] = self._tables.of(
            pc.binary_join_element_wise(facts.tables, pa.scalar(topic), _BETWEEN)
        )
        ends = np.zeros(len(facts.ends.index), _END)
        for name in ("partition", "offset", "transaction"):
            ends[name] = messages[name][facts.ends.index]
        ends["source"], ends["time"] = self._sources.code(source), facts.ends.times
        ends["id"] = facts.ends.ids.to_pylist()
        counts = np.zeros(len(facts.ends.owners), _COUNT)
        counts["transaction"] = ends["transaction"][facts.ends.owners]
        counts["table"] = self._tables.of(facts.ends.collections)
        counts["count"] = facts.ends.counts
        self._messages = np.concatenate([self._messages, messages])
        self._ends = np.concatenate([self._ends, ends])
        self._counts = np.concatenate([self._counts, counts])

    def begin_at(self, begin: PartitionOffsets) -> None:
        """Forget what lies before a position, and everything if it is not known up to there."""
        if any(begin.get(place, 0) > end for place, end in self.reached.items()) or any(
            at and place not in self.reached for place, at in begin.items()
        ):
            self.reached, self._partitions = {}, []
            self._messages, self._ends, self._counts = (
                np.empty(0, kind) for kind in (_MESSAGE, _END, _COUNT)
            )
        begins = np.array([begin.get(place, 0) for place in self._partitions], np.int64)
        if len(begins):
            self._messages = self._messages[
                self._messages["offset"] >= begins[self._messages["partition"]]
            ]
            self._ends = self._ends[self._ends["offset"] >= begins[self._ends["partition"]]]
            kept = np.isin(self._counts["transaction"], self._ends["transaction"])
            self._counts = self._counts[kept]
        for place, at in begin.items():
            self.reached.setdefault(place, at)
        self._forget_transactions()

    def cut(
        self,
        newest: PartitionOffsets,
        known: Mapping[str, SourcePosition],
        topics: Collection[str] = (),
    ) -> WholeCut:
        """Cut an epoch among the messages that are here.

        Args:
            newest: the end of each partition of all topics of the job.
            known: connector → its newest transaction before the window.
            topics: further topics of the job, which have come since.
        """
        for place in self.reached:
            self._partition(place)
        read_to = np.array([self.reached[place] for place in self._partitions], np.int64)
        collections = self._collections_of({*topics, *(topic for topic, _ in newest)})
        lacking = self._lacking(collections)
        complete = np.zeros(len(self._transactions.names), np.bool_)
        complete[self._ends["transaction"]] = True
        complete[list(lacking)] = False
        of_transactions = self._messages[self._messages["transaction"] != _NO_CODE]
        spans = spans_of(
            of_transactions["transaction"], of_transactions["partition"], of_transactions["offset"]
        )
        ends = whole_ends(spans, complete, read_to)
        before = self._ends[self._ends["offset"] < ends[self._ends["partition"]]]
        last = self._last_of_each(before)
        return WholeCut(
            ends=dict(zip(self._partitions, ends.tolist(), strict=True)),
            newest={
                source: SourcePosition(marker["id"], int(marker["time"]))
                for source, marker in last.items()
            },
            doubt=next(self._doubts(ends, before, last, newest, known), None),
            open=self._open(complete, lacking) if len(of_transactions) else (),
            untopical=frozenset(
                self._tables.names[code]
                for code in np.unique(self._counts["table"]).tolist()
                if collections[code] == _NO_CODE
            ),
        )

    def _partition(self, place: KafkaPartition) -> int:
        if place not in self._partitions:
            self._partitions.append(place)
        return self._partitions.index(place)

    def _forget_transactions(self) -> None:
        used = np.unique(self._messages["transaction"])
        used = used[used != _NO_CODE]
        if len(self._transactions.names) < 2 * len(used) + _FORGOTTEN_MIN:
            return
        new = np.append(self._transactions.forget_all_but(used), _NO_CODE)
        for records in (self._messages, self._ends, self._counts):
            records["transaction"] = new[records["transaction"]]

    def _lacking(self, collections: Int64s) -> dict[int, str]:
        """Transaction → which changes of it are not here, in words, for those with both markers.

        A transaction without its BEGIN here began before the window, so its counts say nothing.
        Changes that a connector repeats count once.
        """
        messages, tables = self._messages, len(self._tables.names)
        changes = messages[messages["kind"] == MessageKind.CHANGE]
        of_table = changes["transaction"] * tables + collections[changes["table"]]
        of_table, orders = (
            of_table[collections[changes["table"]] != _NO_CODE],
            changes["order"][collections[changes["table"]] != _NO_CODE],
        )
        once = np.unique(np.stack([of_table, orders], axis=1), axis=0)[:, 0]
        arrived, seen = np.unique(once, return_counts=True)
        begun = messages["transaction"][messages["kind"] == MessageKind.BEGIN]
        promised = self._counts[np.isin(self._counts["transaction"], begun)]
        promised = promised[collections[promised["table"]] == promised["table"]]
        wanted = promised["transaction"] * tables + promised["table"]
        at = np.searchsorted(arrived, wanted)
        have = np.append(seen, 0)[at] * np.isin(wanted, arrived)
        return {
            one["transaction"]: f"{one['count'] - there} of {one['count']} changes of "
            f"{self._tables.names[one['table']]}"
            for one, there in zip(promised, have, strict=True)
            if there < one["count"]
        }

    def _collections_of(self, topics: set[str]) -> Int64s:
        """The name in END markers for each table's code; -1 for a table that no topic carries.

        A marker's name has no connector and perhaps no database. A loop over tables.
        """
        names, of_markers = self._tables.names, np.unique(self._counts["table"]).tolist()
        collections = np.full(len(names), _NO_CODE, np.int64)
        for code, name in enumerate(names):
            if code in of_markers:
                in_topic = f".{_NOT_IN_TOPICS.sub('_', name)}"
                if any(topic.endswith(in_topic) for topic in topics):
                    collections[code] = code
        for code, name in enumerate(names):
            table, is_change, topic = name.partition(_BETWEEN)
            for collection in of_markers if is_change else ():
                wanted = names[collection]
                in_topic = f".{_NOT_IN_TOPICS.sub('_', wanted)}"
                if f".{table}".endswith(f".{wanted}") or topic.endswith(in_topic):
                    collections[code] = collections[collection] = collection
        return collections

    def _last_of_each(self, ends: Records) -> dict[str, Any]:
        """Connector → the last of some END markers in its topic."""
        ordered = ends[np.argsort(ends["offset"], kind="stable")]
        return {
            self._sources.names[source]: ordered[ordered["source"] == source][-1]
            for source in np.unique(ends["source"]).tolist()
        }

    def _doubts(
        self,
        ends: Int64s,
        before: Records,
        last: Mapping[str, Any],
        newest: PartitionOffsets,
        known: Mapping[str, SourcePosition],
    ) -> Iterator[Doubt]:
        """Why tables up to the ends may not be the database at its newest transactions."""
        messages = self._messages
        inside = messages["offset"] < ends[messages["partition"]]
        unmarked = messages[inside & (messages["kind"] == MessageKind.UNMARKED)]
        if len(unmarked):
            topic, _ = self._partitions[unmarked[0]["partition"]]
            yield Doubt(f"changes in the topic {topic} name no transaction", METADATA_FIX)
        topics = {self._partitions[at][0] for at in np.unique(before["partition"]).tolist()}
        for topic in sorted(topics):
            count = sum(one == topic for one, _ in newest)
            if count > 1:
                yield Doubt(
                    f"the topic {topic} has {count} partitions, so it tells no order",
                    "make the topic anew, with one partition",
                )
        begun = messages["transaction"][inside & (messages["kind"] == MessageKind.BEGIN)]
        for source, marker in sorted(last.items()):
            name = f"transaction {marker['id']} of {source}"
            if marker["transaction"] not in begun:
                yield Doubt(f"{name} began before the messages that this run has read")
            latest = before["time"][before["source"] == marker["source"]].max()
            if max(latest, known[source].time_ms if source in known else 0) > marker["time"]:
                yield Doubt(f"{name} comes again: the connector repeats what it has sent")
        yield from self._amid_first_read(ends, newest)

    def _amid_first_read(self, ends: Int64s, newest: PartitionOffsets) -> Iterator[Doubt]:
        messages = self._messages
        for at, (topic, partition) in enumerate(self._partitions):  # a loop over partitions
            if newest.get((topic, partition), 0) <= ends[at]:
                continue
            own = messages[messages["partition"] == at]
            passed = own[own["offset"] < ends[at]]
            if len(passed) and passed[-1]["kind"] == MessageKind.READ:
                yield Doubt(f"the first read of the tables goes on in {topic}/{partition}")

    def _open(self, complete: Bools, lacking: Mapping[int, str]) -> list[str]:
        """The first transactions that are not whole, in words."""
        present = np.unique(self._messages["transaction"])
        open_ones = [code for code in present.tolist() if code != _NO_CODE and not complete[code]]
        return [
            f"transaction {self._transactions.names[code].replace(_BETWEEN, ' ')} lacks "
            f"{lacking.get(code, 'its END marker')}"
            for code in open_ones[:_NAMED_MAX]
        ]
