"""The port: what writing and compacting a table of one kind takes.

A kind joins parts of the rooms `write` and `compact`, which do not know each other. Readers, checks
and commits ask the kind's traits alone (`model.table_kind`).

Source: Paimon `KeyValueFileStore.java`, `AppendOnlyFileStore.java`,
`operation/AbstractFileStoreWrite.java#createWriterContainer`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Protocol

from stream_app.mergetree.compact.compact_executor import CompactExecutor, CompactRequest
from stream_app.model.bucket_change import BucketChange
from stream_app.model.bucket_id import BucketId
from stream_app.model.schema.table_schema import TableSchema
from stream_app.model.snapshot import Snapshot
from stream_app.table.compact.compactions import Compactions
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.write.bucket_assigner import BucketAssigner
from stream_app.table.write.bucket_writer import BucketWriters


class PlansCompactions(Protocol):
    """Looks what would be compacted at a snapshot; nothing is begun."""

    def __call__(
        self,
        table: FileStoreTable,
        snapshot: Snapshot | None,
        buckets: Collection[BucketId] | None = None,
        *,
        full: bool = False,
    ) -> list[CompactRequest]:
        """The compactions that are due now; each can run alone, by `compact_bucket`.

        Args:
            buckets: None: all.
            full: each bucket is to be compacted whole.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TableKind:
    """One kind of table.

    Attributes:
        bucket_assigner: finds the buckets of rows.
        bucket_writer: makes the writer of one bucket for one epoch, in a task.
        compactions: makes a job's compactions, on the driver.
        planned_compactions: for whoever compacts once, without following the table.
        rewrite: does one decided compaction, in a task; nothing that was written stays when it
            fails.
    """

    bucket_assigner: Callable[[TableSchema], BucketAssigner]
    bucket_writer: BucketWriters
    compactions: Callable[[FileStoreTable, CompactExecutor], Compactions]
    planned_compactions: PlansCompactions
    rewrite: Callable[[FileStoreTable, CompactRequest], BucketChange]
