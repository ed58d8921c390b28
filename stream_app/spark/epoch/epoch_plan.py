"""What the tasks of one epoch need to know of each table of the job.

`micro_batch` makes a plan when an epoch begins, from the schemas that its tables have then.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Protocol

import pyarrow as pa

from stream_app.cdc.message_format import MessageFormat
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.kinds.tasks import bucket_assigner
from stream_app.table.write.bucket_assigner import BucketAssigner

BLOCK_BYTES = 32 << 20
"""Arrow bytes of rows that a task gathers at most before it cuts blocks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TablePlan:
    """One table in an epoch.

    Attributes:
        table: seen through the schema of this epoch's rows.
        message_format: makes rows of that schema.
        next_sequence_number: greater than any sequence number in the table.
    """

    table: FileStoreTable
    message_format: MessageFormat
    next_sequence_number: int = 0

    def assigner(self) -> BucketAssigner:
        """Finds the bucket of each row."""
        return bucket_assigner(self.table.schema)


class MessageSplitter(Protocol):
    """Assigns each message to a table of the job. Can be pickled."""

    def split(self, messages: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
        """The messages of each table, by the table's index; each part in the order of offsets.

        Some messages of a table that the job should have, and does not have yet, come under the
        index `blocks.NEWCOMERS`; a few of each suffice. Messages of no table are left out.

        Args:
            messages: columns of `MESSAGE_SCHEMA`, of one Kafka partition, in the order of offsets.
        """
        ...


@dataclass(frozen=True, slots=True)
class AllToOneTable:
    """The splitter of a job with one table."""

    def split(self, messages: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
        """See `MessageSplitter.split`."""
        yield 0, messages


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochShape:
    """Properties that all epochs and all tables share.

    Attributes:
        tasks: number of tasks that write.
        topic: of all messages when there is only one; then the messages need not carry it.
        sort_messages: before decoding, one task sorts the messages of each Kafka partition by
            offset. For sources whose tasks do not read ranges of offsets.
        isolates: whether a table that fails in a task leaves the others alone; else the task fails.
        block_bytes: Arrow bytes of rows that a task gathers at most; a single batch from Spark may
            be larger.
    """

    tasks: int
    splitter: MessageSplitter = AllToOneTable()
    topic: str | None = None
    sort_messages: bool = False
    isolates: bool = False
    block_bytes: int = BLOCK_BYTES

    def with_splitter(self, splitter: MessageSplitter) -> EpochShape:
        """The same for other tables."""
        return replace(self, splitter=splitter)


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochPlan:
    """The tables of one epoch, for its tasks; can be pickled.

    Attributes:
        tables: by the index that blocks carry; None: the table has the epoch already, and its
            messages are skipped.
    """

    tables: tuple[TablePlan | None, ...]
    shape: EpochShape

    def table(self, index: int) -> TablePlan:
        """The plan of a table that takes part in the epoch."""
        found = self.tables[index]
        assert found is not None, "blocks are made for tables that take part"
        return found

    @property
    def has_tables(self) -> bool:
        """Whether a table takes part."""
        return any(table is not None for table in self.tables)

    @property
    def reads_keys(self) -> bool:
        """Whether a format reads the messages' keys; else the source may omit them."""
        return any(table.message_format.reads_keys for table in self.tables if table is not None)
