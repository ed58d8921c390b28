"""The port of a kind of table: its writers and compactions.

A kind joins parts of the packages `write` and `compact`, which do not know each other. Readers,
checks and commits use only the kind's traits (`model.traits.kind_traits`).

Source: Paimon `KeyValueFileStore.java`, `AppendOnlyFileStore.java`,
`operation/AbstractFileStoreWrite.java#createWriterContainer`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Protocol

from stream_app.mergetree.compact.compact_executor import CompactExecutor
from stream_app.model.bucket_id import BucketId
from stream_app.model.files.bucket_change import BucketChange
from stream_app.model.files.compact_request import CompactRequest
from stream_app.model.snapshot import Snapshot
from stream_app.table.compact.compact_coordinator import CompactCoordinator
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.versions.bucket_basis import BucketBasis
from stream_app.table.write.bucket_assigner import BucketAssigner
from stream_app.table.write.bucket_writer import BucketWriterFactory
from stream_app.table.write.table_write import TableWrite


class CompactionPlanner(Protocol):
    """A planner of a snapshot's compactions, which starts none."""

    def __call__(
        self,
        table: FileStoreTable,
        snapshot: Snapshot | None,
        buckets: Collection[BucketId] | None = None,
        *,
        is_full: bool = False,
    ) -> list[CompactRequest]:
        """Return the compactions that are due at a snapshot; `compact_bucket` can run each alone.

        Args:
            buckets: the buckets to plan; None: all.
            is_full: whether to compact each bucket fully.
        """
        ...


class TableWriteFactory(Protocol):
    """A factory of a task's writer."""

    def __call__(
        self, table: FileStoreTable, next_sequence_number: int, basis: BucketBasis
    ) -> TableWrite:
        """Return the writer of one task's share of an epoch.

        Args:
            next_sequence_number: a number greater than any in the table.
            basis: the index or bucket counts by which the epoch's rows get their buckets.
        """
        ...


def bucket_count_write_factory(make_bucket_writer: BucketWriterFactory) -> TableWriteFactory:
    """Return the factory of task writers for a kind that needs only the bucket counts."""

    def make(table: FileStoreTable, next_sequence_number: int, basis: BucketBasis) -> TableWrite:
        return TableWrite(
            table,
            make_bucket_writer,
            next_sequence_number=next_sequence_number,
            bucket_counts=basis.bucket_counts,
        )

    return make


@dataclass(frozen=True, slots=True, kw_only=True)
class TableKind:
    """One kind of table.

    Attributes:
        make_bucket_assigner: makes the assigner of rows to buckets, for a table version.
        make_bucket_writer: makes the writer of one bucket for one epoch, in a task.
        make_table_write: makes the writer of one task's share of an epoch.
        make_coordinator: makes the coordinator of a job's compactions, on the driver.
        plan_compactions: plans compactions once, without following the table.
        rewrite: runs one planned compaction in a task; a failure deletes its new files.
    """

    make_bucket_assigner: Callable[[FileStoreTable, BucketBasis], BucketAssigner]
    make_bucket_writer: BucketWriterFactory
    make_table_write: TableWriteFactory
    make_coordinator: Callable[[FileStoreTable, CompactExecutor], CompactCoordinator]
    plan_compactions: CompactionPlanner
    rewrite: Callable[[FileStoreTable, CompactRequest], BucketChange]
