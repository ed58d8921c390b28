"""Keeps a few numbers of each message that the driver has read ahead and no epoch has yet.

`transaction_reader` reads the messages and adds them; `epoch_cut` cuts an epoch among them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from stream_app.arrow_buffers import Bools, Int64s
from stream_app.cdc.transactions import POSITION_LENGTH, MessageKind, MessageTransactions
from stream_app.kafka.offset_ranges import KafkaPartition, OffsetRange, PartitionOffsets
from stream_app.kafka.transactions.border import (
    BEFORE_ALL,
    LogPosition,
    LogProgress,
    ranks_of,
)

PendingRows = npt.NDArray[Any]
"""A structured array of `PENDING_MESSAGE`, `END_MARKER` or `COUNT`."""
_POSITION = ("position", np.int64, (POSITION_LENGTH,))
PENDING_MESSAGE = np.dtype(
    [(name, np.int64) for name in ("partition", "offset", "transaction", "table", "order")]
    + [_POSITION, ("kind", np.int8), ("is_new", np.bool_)]
)
"""A message: codes of its partition, transaction and table, and a `MessageKind`. A change is new if
it is after all earlier ones of its partition in the source's log. Other changes are repeats."""
END_MARKER = np.dtype(
    [(name, np.int64) for name in ("partition", "offset", "transaction", "source", "time")]
    + [_POSITION, ("id", np.object_), ("log", np.object_)]
)
"""An END marker."""
COUNT = np.dtype([(name, np.int64) for name in ("transaction", "table", "count")])
"""The number of changes in one table that an END marker promises."""
NO_CODE = -1
KEY_SEPARATOR = "\0"
"""Separates a connector from an id, and a table from its topic."""
_FORGOTTEN_MIN = 10_000


class NameCodes:
    """Codes of names, from 0 on."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self._codes: dict[str, int] = {}

    def code(self, name: str) -> int:
        """Return the code of one name."""
        code = self._codes.setdefault(name, len(self.names))
        if code == len(self.names):
            self.names.append(name)
        return code

    def of(self, names: pa.Array) -> Int64s:
        """Return the code of each name, int64 [n]; -1 for null. It loops over different names."""
        encoded_names = names.dictionary_encode()
        codes = np.array([*map(self.code, encoded_names.dictionary.to_pylist()), NO_CODE], np.int64)
        name_codes: Int64s = codes[pc.fill_null(encoded_names.indices, len(codes) - 1).to_numpy()]
        return name_codes

    def forget_all_but(self, used_codes: Int64s) -> Int64s:
        """Forget the names of other codes; return the new code of each old one."""
        new_codes = np.full(len(self.names), NO_CODE, np.int64)
        new_codes[used_codes] = np.arange(len(used_codes))
        self.names = [self.names[code] for code in used_codes.tolist()]
        self._codes = {name: code for code, name in enumerate(self.names)}
        return new_codes


class PendingBatches:
    """Rows that arrive in batches, which are joined on demand."""

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self._batches = [np.empty(0, dtype)]

    def add(self, batch: PendingRows) -> None:
        """Add a batch after the others."""
        self._batches.append(batch)

    def all(self) -> PendingRows:
        """Return all rows, in the order in which they came."""
        if len(self._batches) > 1:
            self._batches = [np.concatenate(self._batches)]
        return self._batches[0]

    def keep(self, mask: Bools) -> None:
        """Drop all rows except those of a mask."""
        self._batches = [self.all()[mask]]


@dataclass(slots=True)
class PendingMessages:
    """The messages after the end of the newest epoch.

    Attributes:
        reached_offsets: the offset after the newest message that is here, of each partition.
        partitions: the code of each partition, from 0 on.
        messages, end_markers, counts: their rows.
    """

    reached_offsets: dict[KafkaPartition, int] = field(default_factory=dict)
    partitions: dict[KafkaPartition, int] = field(init=False, default_factory=dict)
    transactions: NameCodes = field(init=False, default_factory=NameCodes)
    sources: NameCodes = field(init=False, default_factory=NameCodes)
    tables: NameCodes = field(init=False, default_factory=NameCodes)
    messages: PendingBatches = field(
        init=False, default_factory=lambda: PendingBatches(PENDING_MESSAGE)
    )
    end_markers: PendingBatches = field(
        init=False, default_factory=lambda: PendingBatches(END_MARKER)
    )
    counts: PendingBatches = field(init=False, default_factory=lambda: PendingBatches(COUNT))
    _highest_positions: dict[KafkaPartition, LogPosition] = field(init=False, default_factory=dict)

    def add(
        self, kafka_partition: KafkaPartition, offsets: Int64s, transactions: MessageTransactions
    ) -> None:
        """Add the messages of one partition, which follow its previous ones.

        Args:
            offsets: int64 [n].
        """
        topic, _ = kafka_partition
        # A marker does not name its connector; its topic does.
        source = source_of_markers(topic)
        sources = pc.fill_null(transactions.sources, source)
        names = pc.binary_join_element_wise(sources, transactions.names, KEY_SEPARATOR)
        messages = np.zeros(len(offsets), PENDING_MESSAGE)
        messages["partition"], messages["offset"] = self._code(kafka_partition), offsets
        messages["kind"], messages["order"] = transactions.kinds, transactions.orders
        messages["position"] = transactions.positions
        messages["is_new"] = self._mark_new(kafka_partition, transactions)
        messages["transaction"] = self.transactions.of(names)
        messages["table"] = self.tables.of(
            pc.binary_join_element_wise(transactions.tables, pa.scalar(topic), KEY_SEPARATOR)
        )
        markers = transactions.end_markers
        end_markers = np.zeros(len(markers.message_indices), END_MARKER)
        for name in ("partition", "offset", "transaction"):
            end_markers[name] = messages[name][markers.message_indices]
        end_markers["source"], end_markers["time"] = self.sources.code(source), markers.times
        end_markers["id"], end_markers["log"] = markers.ids.to_pylist(), markers.logs.to_pylist()
        end_markers["position"] = markers.positions
        counts = np.zeros(len(markers.owners), COUNT)
        counts["transaction"] = end_markers["transaction"][markers.owners]
        counts["table"] = self.tables.of(markers.tables)
        counts["count"] = markers.counts
        self.messages.add(messages)
        self.end_markers.add(end_markers)
        self.counts.add(counts)
        self.reached_offsets[kafka_partition] = int(offsets[-1]) + 1

    def unread_ranges(self, ranges: Iterable[OffsetRange]) -> list[OffsetRange]:
        """Return the parts of ranges whose messages have not been added."""
        return [
            replace(offset_range, start=max(offset_range.start, reached_offset))
            for offset_range in ranges
            if (reached_offset := self.reached_offsets.get(offset_range.kafka_partition, 0))
            < offset_range.end
        ]

    def reach(self, ranges: Iterable[OffsetRange]) -> None:
        """Note that ranges have been read, even where they have no messages."""
        self.reached_offsets.update(
            {offset_range.kafka_partition: offset_range.end for offset_range in ranges}
        )

    def begin_at(self, start: PartitionOffsets, progress: LogProgress) -> None:
        """Drop everything before a position; drop all if the messages do not reach it.

        Args:
            progress: the progress at the position.
        """
        if any(
            start.get(kafka_partition, 0) > end
            for kafka_partition, end in self.reached_offsets.items()
        ) or any(
            offset and kafka_partition not in self.reached_offsets
            for kafka_partition, offset in start.items()
        ):
            self.reached_offsets, self.partitions, self._highest_positions = {}, {}, {}
            self.messages = PendingBatches(PENDING_MESSAGE)
            self.end_markers = PendingBatches(END_MARKER)
            self.counts = PendingBatches(COUNT)
        for kafka_partition, state in progress.partitions.items():
            self._highest_positions[kafka_partition] = max(
                self._highest_positions.get(kafka_partition, BEFORE_ALL), state.highest_position
            )
        starts = np.array(
            [start.get(kafka_partition, 0) for kafka_partition in self.partitions], np.int64
        )
        if len(starts):
            for rows in (self.messages, self.end_markers):
                rows.keep(rows.all()["offset"] >= starts[rows.all()["partition"]])
            ended_transactions = self.end_markers.all()["transaction"]
            self.counts.keep(np.isin(self.counts.all()["transaction"], ended_transactions))
        for kafka_partition, offset in start.items():
            self.reached_offsets.setdefault(kafka_partition, offset)
            self._code(kafka_partition)
            self._highest_positions.setdefault(
                kafka_partition, progress.newest_position(kafka_partition[0])
            )
        self._forget_transactions()

    def _mark_new(
        self, kafka_partition: KafkaPartition, transactions: MessageTransactions
    ) -> Bools:
        """Mark the changes after all earlier ones of the partition, and messages of other kinds.

        Note the highest position of the partition.
        """
        is_new = np.ones(len(transactions.kinds), np.bool_)
        has_position = transactions.positions[:, 0] >= 0
        indices = np.flatnonzero((transactions.kinds == MessageKind.CHANGE) & has_position)
        if not len(indices):
            return is_new
        highest_position = self._highest_positions.get(kafka_partition, BEFORE_ALL)
        positions = np.column_stack([transactions.positions[indices], transactions.orders[indices]])
        ranks = ranks_of(np.vstack([np.array([highest_position], np.int64), positions]))
        is_new[indices] = ranks[1:] > np.maximum.accumulate(ranks)[:-1]
        self._highest_positions[kafka_partition] = max(
            highest_position, tuple(positions[np.argmax(ranks[1:])].tolist())
        )
        return is_new

    def _code(self, kafka_partition: KafkaPartition) -> int:
        return self.partitions.setdefault(kafka_partition, len(self.partitions))

    def _forget_transactions(self) -> None:
        used_codes = np.unique(self.messages.all()["transaction"])
        used_codes = used_codes[used_codes != NO_CODE]
        if len(self.transactions.names) < 2 * len(used_codes) + _FORGOTTEN_MIN:
            return
        new_codes = np.append(self.transactions.forget_all_but(used_codes), NO_CODE)
        for rows in (self.messages, self.end_markers, self.counts):
            rows.all()["transaction"] = new_codes[rows.all()["transaction"]]


def source_of_markers(topic: str) -> str:
    """Return the connector whose transactions a topic has."""
    return topic.rpartition(".")[0]
