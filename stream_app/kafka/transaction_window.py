"""Gathers the transactions of the messages that no epoch has yet.

`spark.stream.whole_borders` reads the messages and adds their facts; `window_cut` cuts an epoch
among them. A window begins at the job's position, and keeps a few numbers of each message there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from stream_app.arrow_buffers import Int64s
from stream_app.cdc.transactions import MessageTransactions
from stream_app.kafka.offset_ranges import KafkaPartition, PartitionOffsets

FactRows = npt.NDArray[Any]
"""An array of `MESSAGE`, `END` or `COUNT`."""
MESSAGE = np.dtype(
    [(name, np.int64) for name in ("partition", "offset", "kind", "transaction", "table", "order")]
)
"""A message: codes of its partition, transaction and table, with a `MessageKind`."""
END = np.dtype(
    [(name, np.int64) for name in ("partition", "offset", "transaction", "source", "time")]
    + [("id", np.object_)]
)
"""An END marker."""
COUNT = np.dtype([(name, np.int64) for name in ("transaction", "table", "count")])
"""The number of changes in one table that an END marker promises."""
NO_CODE = -1
BETWEEN = "\0"
"""Stands between a connector and an id, and between a table and its topic."""
_FORGOTTEN_MIN = 10_000


class Codes:
    """Codes of names, from 0 on."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self._codes: dict[str, int] = {}

    def code(self, name: str) -> int:
        """The code of one name."""
        code = self._codes.setdefault(name, len(self.names))
        if code == len(self.names):
            self.names.append(name)
        return code

    def of(self, names: pa.Array) -> Int64s:
        """The code of each name, int64 [n]; -1 for null. Loops over different names."""
        encoded = names.dictionary_encode()
        codes = np.array([*map(self.code, encoded.dictionary.to_pylist()), NO_CODE], np.int64)
        rows: Int64s = codes[pc.fill_null(encoded.indices, len(codes) - 1).to_numpy()]
        return rows

    def forget_all_but(self, used: Int64s) -> Int64s:
        """Forget the names of other codes; returns the new code of each old one."""
        new = np.full(len(self.names), NO_CODE, np.int64)
        new[used] = np.arange(len(used))
        self.names = [self.names[code] for code in used.tolist()]
        self._codes = {name: code for code, name in enumerate(self.names)}
        return new


@dataclass(slots=True)
class TransactionWindow:
    """The transactions of the messages behind a position of the job.

    Attributes:
        reached: the offset behind the newest message of each partition whose facts are here.
        settled: partitions whose further changes are of transactions with markers in the window or
            behind it.
        partitions: those with messages; a code is a place in it.
        messages, ends, counts: the facts.
    """

    reached: dict[KafkaPartition, int] = field(default_factory=dict)
    settled: set[KafkaPartition] = field(default_factory=set)
    partitions: list[KafkaPartition] = field(init=False, default_factory=list)
    transactions: Codes = field(init=False, default_factory=Codes)
    sources: Codes = field(init=False, default_factory=Codes)
    tables: Codes = field(init=False, default_factory=Codes)
    messages: FactRows = field(init=False, default_factory=lambda: np.empty(0, MESSAGE))
    ends: FactRows = field(init=False, default_factory=lambda: np.empty(0, END))
    counts: FactRows = field(init=False, default_factory=lambda: np.empty(0, COUNT))

    def add(self, place: KafkaPartition, offsets: Int64s, facts: MessageTransactions) -> None:
        """Add the messages of one partition, which follow those that are here.

        Args:
            offsets: int64 [n].
        """
        partition, topic = self._partition(place), place[0]
        # A marker does not name its connector; its topic does.
        source = topic.rpartition(".")[0]
        sources = pc.fill_null(facts.sources, source)
        names = pc.binary_join_element_wise(sources, facts.names, BETWEEN)
        messages = np.zeros(len(offsets), MESSAGE)
        messages["partition"], messages["offset"] = partition, offsets
        messages["kind"], messages["order"] = facts.kinds, facts.orders
        messages["transaction"] = self.transactions.of(names)
        messages["table"] = self.tables.of(
            pc.binary_join_element_wise(facts.tables, pa.scalar(topic), BETWEEN)
        )
        ends = np.zeros(len(facts.ends.index), END)
        for name in ("partition", "offset", "transaction"):
            ends[name] = messages[name][facts.ends.index]
        ends["source"], ends["time"] = self.sources.code(source), facts.ends.times
        ends["id"] = facts.ends.ids.to_pylist()
        counts = np.zeros(len(facts.ends.owners), COUNT)
        counts["transaction"] = ends["transaction"][facts.ends.owners]
        counts["table"] = self.tables.of(facts.ends.collections)
        counts["count"] = facts.ends.counts
        self.messages = np.concatenate([self.messages, messages])
        self.ends = np.concatenate([self.ends, ends])
        self.counts = np.concatenate([self.counts, counts])

    def settle(self, places: Iterable[KafkaPartition]) -> None:
        """Note partitions before whose position every transaction is whole."""
        self.settled.update(places)

    def begin_at(self, begin: PartitionOffsets) -> None:
        """Forget what lies before a position, and everything if it is not known up to there."""
        if any(begin.get(place, 0) > end for place, end in self.reached.items()) or any(
            at and place not in self.reached for place, at in begin.items()
        ):
            self.reached, self.partitions = {}, []
            self.messages, self.ends, self.counts = (
                np.empty(0, kind) for kind in (MESSAGE, END, COUNT)
            )
        begins = np.array([begin.get(place, 0) for place in self.partitions], np.int64)
        if len(begins):
            self.messages = self.messages[
                self.messages["offset"] >= begins[self.messages["partition"]]
            ]
            self.ends = self.ends[self.ends["offset"] >= begins[self.ends["partition"]]]
            kept = np.isin(self.counts["transaction"], self.ends["transaction"])
            self.counts = self.counts[kept]
        for place, at in begin.items():
            self.reached.setdefault(place, at)
            self._partition(place)
        self._forget_transactions()

    def _partition(self, place: KafkaPartition) -> int:
        if place not in self.partitions:
            self.partitions.append(place)
        return self.partitions.index(place)

    def _forget_transactions(self) -> None:
        used = np.unique(self.messages["transaction"])
        used = used[used != NO_CODE]
        if len(self.transactions.names) < 2 * len(used) + _FORGOTTEN_MIN:
            return
        new = np.append(self.transactions.forget_all_but(used), NO_CODE)
        for records in (self.messages, self.ends, self.counts):
            records["transaction"] = new[records["transaction"]]
