"""What the tasks of one epoch need to know of each table of the job.

`ingest.epoch_writer` makes a plan whenever it decodes an epoch, from its tables' schemas of then.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, NamedTuple, Protocol, cast

import pyarrow as pa

from stream_app.cdc.message_format import MessageFormat
from stream_app.spark.epoch.decode_counts import Where
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.kinds.registry import bucket_assigner
from stream_app.table.versions.index_manifests import NO_INDEX, IndexBasis
from stream_app.table.write.bucket_assigner import BucketAssigner

BLOCK_BYTES = 32 << 20
"""Arrow bytes of rows that a task gathers before it cuts blocks."""
_TABLES_KEPT = 1024
"""Unpacked tables that a worker caches, each with what its format has learnt from messages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TablePlan:
    """One table in an epoch.

    Attributes:
        table: the table with the schema of this epoch's rows.
        message_format: makes rows of that schema.
        next_sequence_number: greater than any sequence number in the table.
        first_offsets: Kafka partition → the first offset that counts. It is that of a TRUNCATE, so
            the messages before it are left out.
        basis: the index of keys on which the rows rest, in tables that have one.
    """

    table: FileStoreTable
    message_format: MessageFormat
    next_sequence_number: int = 0
    first_offsets: Mapping[Where, int] = field(default_factory=dict)
    basis: IndexBasis = NO_INDEX
    _packed: list[bytes] = field(default_factory=list, compare=False, repr=False)

    def of_next_epoch(self, next_sequence_number: int, basis: IndexBasis) -> TablePlan:
        """The same table and format in a later epoch; returns itself if the table got no rows."""
        is_same = next_sequence_number == self.next_sequence_number and basis == self.basis
        if is_same and not self.first_offsets:
            return self
        return replace(
            self, next_sequence_number=next_sequence_number, first_offsets={}, basis=basis
        )

    def counting_from(self, first_offsets: Mapping[Where, int]) -> TablePlan:
        """The same plan, without messages before these offsets and without keys of earlier rows."""
        if first_offsets == self.first_offsets:
            return self
        return replace(
            self, first_offsets=first_offsets, basis=NO_INDEX if first_offsets else self.basis
        )

    def of_routed(self, routed: TablePlan) -> TablePlan:
        """The same plan for rows that an earlier plan routed."""
        basis = replace(self.basis, routed_on=routed.basis.routed_on)
        plan = self if basis == self.basis else replace(self, basis=basis)
        return plan.counting_from(routed.first_offsets)

    def packed(self) -> PackedPlan:
        """The plan as bytes; they are made once for all epochs with this table and format.

        The file system is pickled apart, because its access keys change.
        """
        if not self._packed:
            table = replace(self.table, file_io=cast(Any, None))
            self._packed.append(pickle.dumps((table, self.message_format)))
        return (
            *(self._packed[0], self.table.file_io),
            *(self.next_sequence_number, self.first_offsets, self.basis),
        )

    def assigner(self) -> BucketAssigner:
        """Finds the bucket of each row."""
        return bucket_assigner(self.table, self.basis.routed_on)


PackedPlan = tuple[bytes, Any, int, Mapping[Where, int], IndexBasis]


@lru_cache(_TABLES_KEPT)
def _unpacked_table(packed: bytes) -> tuple[FileStoreTable, MessageFormat]:
    """Unpack a table, without its file system, and its format; a worker caches both."""
    table, message_format = pickle.loads(packed)
    return table, message_format


class _PackedPlans(Sequence[TablePlan | None]):
    """The plans of an epoch in a task; a table's plan is unpacked when its first block comes."""

    def __init__(self, packed: Sequence[PackedPlan | None]) -> None:
        self._packed = packed
        self._plans: dict[int, TablePlan] = {}

    def __len__(self) -> int:
        return len(self._packed)

    def __getitem__(self, index: Any) -> Any:
        packed = self._packed[index]
        if packed is None:
            return None
        if index not in self._plans:
            data, file_io, next_sequence_number, first_offsets, basis = packed
            table, message_format = _unpacked_table(data)
            self._plans[index] = TablePlan(
                table=replace(table, file_io=file_io),
                message_format=message_format,
                next_sequence_number=next_sequence_number,
                first_offsets=first_offsets,
                basis=basis,
            )
        return self._plans[index]

    def __reduce__(self) -> Any:
        return _PackedPlans, (self._packed,)


class Part(NamedTuple):
    """Messages of one table, in the order of offsets.

    Attributes:
        table: its index.
        sources: source tables that the messages name; empty: the splitter does not read them.
    """

    table: int
    messages: pa.RecordBatch
    sources: tuple[str, ...] = ()


class MessageSplitter(Protocol):
    """Assigns each message to a table of the job. Can be pickled."""

    def split(self, messages: pa.RecordBatch) -> Iterator[Part]:
        """The messages of each table.

        Some messages of a table that the job should have, and does not have yet, get the index
        `blocks.NEWCOMERS`; a few of each suffice. Messages that cannot be given to a table come
        under `blocks.UNREADABLE`, in columns of `BAD_RECORD_SCHEMA`. Messages that mean no row, and
        those of tables that the job does not take, are left out.

        Args:
            messages: columns of `MESSAGE_SCHEMA`, of one Kafka partition, in the order of offsets.
        """
        ...


@dataclass(frozen=True, slots=True)
class AllToOneTable:
    """The splitter of a job with one table."""

    def split(self, messages: pa.RecordBatch) -> Iterator[Part]:
        """See `MessageSplitter.split`."""
        yield Part(0, messages)


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochShape:
    """Properties that all epochs and all tables share.

    Attributes:
        tasks: number of tasks that write.
        sort_messages: before decoding, one task sorts the messages of each Kafka partition by
            offset. For sources whose tasks do not read ranges of offsets.
        isolates: whether a table that fails in a task leaves the others alone; else the task fails.
        block_bytes: Arrow bytes of rows that a task gathers at most; a single batch from Spark may
            be larger.
    """

    tasks: int
    splitter: MessageSplitter = AllToOneTable()
    sort_messages: bool = False
    isolates: bool = False
    block_bytes: int = BLOCK_BYTES

    def with_splitter(self, splitter: MessageSplitter) -> EpochShape:
        """The same shape with another splitter."""
        return replace(self, splitter=splitter)


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochPlan:
    """The tables of one epoch, for its tasks; can be pickled.

    Pickling stays small and quick with thousands of tables: each is packed once, and a task unpacks
    only the tables of its messages.

    Attributes:
        tables: by the index that blocks carry; None: the table takes no part, and its
            messages are skipped.
    """

    tables: Sequence[TablePlan | None]
    shape: EpochShape

    def __reduce__(self) -> Any:
        return _unpacked, (tuple(plan and plan.packed() for plan in self.tables), self.shape)

    def table(self, index: int) -> TablePlan:
        """The plan of a table that takes part in the epoch."""
        plan = self.tables[index]
        assert plan is not None, "blocks are made for tables that take part"
        return plan

    @property
    def bases(self) -> Sequence[IndexBasis | None]:
        """The key index of each table."""
        return [None if table is None else table.basis for table in self.tables]


def _unpacked(packed: Sequence[PackedPlan | None], shape: EpochShape) -> EpochPlan:
    return EpochPlan(tables=_PackedPlans(packed), shape=shape)
