"""Describes how the tasks of one epoch decode and write each table.

`rounds.round_runner` makes a plan from the tables' current schemas whenever it decodes an epoch.
"""

from __future__ import annotations

import itertools
import pickle
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, NamedTuple, Protocol, cast

import pyarrow as pa

from stream_app.cdc.pipeline import Pipeline
from stream_app.kafka.offset_ranges import KafkaPartition
from stream_app.table.file_store_table import FileStoreTable, with_file_io
from stream_app.table.kinds.table_kind_registry import bucket_assigner
from stream_app.table.versions.bucket_basis import NO_BASIS, BucketBasis
from stream_app.table.write.bucket_assigner import BucketAssigner

BLOCK_BYTES_MAX = 32 << 20
"""Arrow bytes of rows that a task gathers before it cuts blocks."""
_CACHED_TABLES_MAX = 1024
"""Unpacked tables that a worker caches, each with what its format has learned from messages."""
_SHELF_TABLE_COUNT = 128
"""Tables that are compressed together: similar tables take some 60 bytes each."""
_PACKED_SHELVES_MAX = 256
_UNPACKED_SHELVES_MAX = 16
"""Unpacked shelves that a worker caches, of some 0.5 MB each."""
Shelf = tuple[tuple[int, bytes], ...]
"""Packed tables that are compressed together, each behind its index."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TablePlan:
    """One table in an epoch.

    Attributes:
        table: the table with the schema of this epoch's rows.
        pipeline: the pipeline that makes rows of that schema.
        next_sequence_number: greater than any sequence number in the table.
        first_offsets: Kafka partition → the first offset that counts: the offset of a TRUNCATE.
            Earlier messages are skipped.
        basis: the index or bucket counts by which the epoch's rows get their buckets.
        packs: the cached bytes of `pack`, which plans derived from this one share.
    """

    table: FileStoreTable
    pipeline: Pipeline
    next_sequence_number: int = 0
    first_offsets: Mapping[KafkaPartition, int] = field(default_factory=dict)
    basis: BucketBasis = NO_BASIS
    packs: list[bytes] = field(default_factory=list, compare=False, repr=False, kw_only=True)

    def for_next_epoch(self, next_sequence_number: int, basis: BucketBasis) -> TablePlan:
        """Return the plan of the same table and format in a later epoch.

        If the table got no rows, that is this plan itself.
        """
        is_same = next_sequence_number == self.next_sequence_number and basis == self.basis
        if is_same and not self.first_offsets:
            return self
        return replace(
            self, next_sequence_number=next_sequence_number, first_offsets={}, basis=basis
        )

    def with_first_offsets(self, first_offsets: Mapping[KafkaPartition, int]) -> TablePlan:
        """Return the same plan, without messages before these offsets.

        It also lacks the keys of earlier rows.
        """
        if first_offsets == self.first_offsets:
            return self
        basis = BucketBasis(bucket_counts=self.basis.bucket_counts) if first_offsets else self.basis
        return replace(self, first_offsets=first_offsets, basis=basis)

    def for_routed_rows(self, routed_plan: TablePlan) -> TablePlan:
        """Return the same plan for rows that an earlier plan routed."""
        basis = replace(
            self.basis,
            routed_on=routed_plan.basis.routed_on,
            bucket_counts=routed_plan.basis.bucket_counts,
        )
        plan = self if basis == self.basis else replace(self, basis=basis)
        return plan.with_first_offsets(routed_plan.first_offsets)

    def pack(self) -> bytes:
        """Return the table and its pipeline as bytes, made once for all epochs that share them.

        The file system is pickled separately, because its access keys change.
        """
        if not self.packs:
            table = replace(self.table, file_io=cast(Any, None))
            self.packs.append(pickle.dumps((table, self.pipeline)))
        return self.packs[0]

    def assigner(self) -> BucketAssigner:
        """Return the assigner that finds the bucket of each row."""
        return bucket_assigner(self.table, self.basis)


@lru_cache(_PACKED_SHELVES_MAX)
def _compress(shelf: Shelf) -> bytes:
    """Compress a shelf; the driver does so once for all epochs with the same tables."""
    return zlib.compress(pickle.dumps(dict(shelf)))


@lru_cache(_UNPACKED_SHELVES_MAX)
def _unpack_shelf(compressed_shelf: bytes) -> Mapping[int, bytes]:
    """Unpack a shelf; a worker caches the newest."""
    shelf: Mapping[int, bytes] = pickle.loads(zlib.decompress(compressed_shelf))
    return shelf


@lru_cache(_CACHED_TABLES_MAX)
def _unpack_table(packed_table: bytes) -> tuple[FileStoreTable, Pipeline]:
    """Unpack a table, without its file system, and its pipeline; a worker caches both."""
    table, pipeline = pickle.loads(packed_table)
    return table, pipeline


class _EpochValues(NamedTuple):
    """The values of a packed plan that belong to one epoch, by table; most are the defaults.

    Attributes:
        file_io: the first table's file system.
        file_ios: the file systems of tables that do not use the first table's.
    """

    next_sequence_numbers: Mapping[int, int]
    file_io: Any
    file_ios: Mapping[int, Any]
    first_offsets: Mapping[int, Mapping[KafkaPartition, int]]
    bases: Mapping[int, BucketBasis]


def _epoch_values(plans: Mapping[int, TablePlan]) -> _EpochValues:
    file_io = next((plan.table.file_io for plan in plans.values()), None)
    return _EpochValues(
        next_sequence_numbers={index: plan.next_sequence_number for index, plan in plans.items()},
        file_io=file_io,
        file_ios={
            index: plan.table.file_io
            for index, plan in plans.items()
            if plan.table.file_io != file_io
        },
        first_offsets={
            index: plan.first_offsets for index, plan in plans.items() if plan.first_offsets
        },
        bases={index: plan.basis for index, plan in plans.items() if plan.basis != NO_BASIS},
    )


class _PackedPlans(Mapping[int, TablePlan]):
    """The plans of an epoch in a task. A table's plan is unpacked at the table's first block."""

    def __init__(self, shelves: Mapping[int, bytes], epoch_values: _EpochValues) -> None:
        self._shelves = shelves
        self._epoch_values = epoch_values
        self._plans: dict[int, TablePlan] = {}

    def __len__(self) -> int:
        return len(self._epoch_values.next_sequence_numbers)

    def __iter__(self) -> Iterator[int]:
        return iter(self._epoch_values.next_sequence_numbers)

    def __contains__(self, table_index: object) -> bool:
        return table_index in self._epoch_values.next_sequence_numbers

    def __getitem__(self, table_index: int) -> TablePlan:
        if table_index not in self._plans:
            epoch_values = self._epoch_values
            next_sequence_number = epoch_values.next_sequence_numbers[table_index]
            packed_table = _unpack_shelf(self._shelves[table_index // _SHELF_TABLE_COUNT])[
                table_index
            ]
            table, pipeline = _unpack_table(packed_table)
            self._plans[table_index] = TablePlan(
                table=with_file_io(
                    table, epoch_values.file_ios.get(table_index, epoch_values.file_io)
                ),
                pipeline=pipeline,
                next_sequence_number=next_sequence_number,
                first_offsets=epoch_values.first_offsets.get(table_index, {}),
                basis=epoch_values.bases.get(table_index, NO_BASIS),
            )
        return self._plans[table_index]

    def __reduce__(self) -> Any:
        return _PackedPlans, (self._shelves, self._epoch_values)


class TableMessages(NamedTuple):
    """The messages of one table, ordered by offset.

    Attributes:
        sources: the source tables that the messages name; empty if the splitter does not read them.
    """

    table_index: int
    messages: pa.RecordBatch
    sources: tuple[str, ...] = ()


class MessageSplitter(Protocol):
    """A splitter, which assigns each message to a table of the job. Can be pickled."""

    def split(self, messages: pa.RecordBatch) -> Iterator[TableMessages]:
        """Return the messages of each table.

        A few messages of each table that the job must still create get the index
        `blocks.NEWCOMERS_INDEX`. Messages that cannot be assigned to a table get the index
        `blocks.UNREADABLE_INDEX`, in columns of `BAD_RECORD_SCHEMA`. Messages that may carry
        statements of the source get the index `blocks.STATEMENTS_INDEX`. Other messages without a
        row, and messages of tables that the job does not replicate, are dropped.

        Args:
            messages: columns of `MESSAGE_SCHEMA`, of one Kafka partition, in the order of offsets.
        """
        ...


@dataclass(frozen=True, slots=True)
class OneTableSplitter:
    """The splitter of a job with one table."""

    def split(self, messages: pa.RecordBatch) -> Iterator[TableMessages]:
        """See `MessageSplitter.split`."""
        yield TableMessages(0, messages)


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochSettings:
    """Properties that all epochs and all tables share.

    Attributes:
        task_count: number of tasks that write.
        sorts_messages: whether one task sorts the messages of each Kafka partition by offset before
            it decodes them. It is for sources whose tasks do not read ranges of offsets.
        holds_tables: whether a table that fails in a task is held; otherwise the task fails.
        block_bytes_max: the most Arrow bytes of rows that a task gathers; a single batch from Spark
            may be larger.
    """

    task_count: int
    splitter: MessageSplitter = OneTableSplitter()
    sorts_messages: bool = False
    holds_tables: bool = False
    block_bytes_max: int = BLOCK_BYTES_MAX

    def with_splitter(self, splitter: MessageSplitter) -> EpochSettings:
        """Return the same settings with another splitter."""
        return replace(self, splitter=splitter)


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochPlan:
    """The tables of one epoch, for its tasks; can be pickled.

    Pickling stays small and quick with thousands of tables, because they are packed and compressed
    once for all epochs. A task unpacks only the tables of its messages.

    Attributes:
        table_plans: by the index of the table in blocks; messages of other tables are skipped.
    """

    table_plans: Mapping[int, TablePlan]
    settings: EpochSettings

    def __reduce__(self) -> Any:
        packed_tables = (
            (index, table_plan.pack()) for index, table_plan in self.table_plans.items()
        )
        shelves = {
            shelf_index: _compress(tuple(shelf))
            for shelf_index, shelf in itertools.groupby(
                packed_tables, key=lambda table: table[0] // _SHELF_TABLE_COUNT
            )
        }
        return _unpack, (shelves, _epoch_values(self.table_plans), self.settings)

    def for_writing(self, table_plans: Mapping[int, TablePlan]) -> EpochPlan:
        """Return the plan for writing the blocks of some tables, without a splitter."""
        return EpochPlan(
            table_plans=table_plans, settings=self.settings.with_splitter(OneTableSplitter())
        )

    @property
    def indexes_all_keys(self) -> bool:
        """Whether a table finds older rows in any partition, by an index on executors' disks."""
        all_traits = {table_plan.table.kind_traits for table_plan in self.table_plans.values()}
        return any(traits.crosses_partitions or traits.looks_up_partition for traits in all_traits)

    @property
    def bases(self) -> Mapping[int, BucketBasis]:
        """The basis of each table."""
        return {index: table_plan.basis for index, table_plan in self.table_plans.items()}


def _unpack(
    shelves: Mapping[int, bytes], epoch_values: _EpochValues, settings: EpochSettings
) -> EpochPlan:
    return EpochPlan(table_plans=_PackedPlans(shelves, epoch_values), settings=settings)
