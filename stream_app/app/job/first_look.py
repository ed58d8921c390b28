"""Looks at a job's tables before its first record: opens the only one, or samples a database.

Called by `checks`, when the topics are known and the checkpoint is open. A few messages of each
topic tell early what will fail with them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from stream_app.app.config.tables_of_job import JobTables, SingleTable, WholeDatabase
from stream_app.app.source.broker_connection import TopicInfo
from stream_app.app.tables.first_messages import (
    check_first_messages,
    first_messages,
    first_remarks,
    in_one_table,
    warn_of_first_messages,
)
from stream_app.app.tables.format_setup import format_setup
from stream_app.app.tables.job_table import column_warnings, job_table, wanted_schema
from stream_app.cdc.change_batch import MESSAGE_SCHEMA
from stream_app.clock import Clock
from stream_app.model.schema.table_schema import TableSchema
from stream_app.spark.ingest.job_state import JobWarning
from stream_app.table.file_store_table import FileStoreTable


@dataclass(frozen=True, slots=True)
class KnownTables:
    """The facts about a job's tables that are known before the job begins.

    Attributes:
        table: the only table; None: the job has a whole database.
        first_messages: the messages from which a database's tables are made; `MESSAGE_SCHEMA`.
        warnings: about the columns of the first messages.
    """

    table: FileStoreTable | None = None
    first_messages: pa.Table = field(default_factory=MESSAGE_SCHEMA.empty_table)
    warnings: Sequence[JobWarning] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _TableLook:
    """The look at the table of a job of one table.

    Attributes:
        topics: empty: the broker was not asked.
        reads_first: whether the job is certain to read the first messages.
    """

    only: SingleTable
    topics: Mapping[str, TopicInfo]
    clock: Clock
    reads_first: bool

    def taken(self) -> KnownTables:
        """Check the first messages, and open the table or create it.

        Raises:
            StreamAppError: the messages do not fit the table, or the table the configuration.
        """
        wanted = wanted_schema(self.only.table, self.clock)
        warnings = self._column_warnings(wanted) if self.topics else ()
        return KnownTables(job_table(self.only, wanted, self.clock), warnings=warnings)

    def _column_warnings(self, wanted: TableSchema) -> Sequence[JobWarning]:
        only = self.only
        setup = format_setup(only.source, only.table, wanted)
        messages = first_messages(only.source, self.topics)
        check_first_messages(only.source.format, setup, messages, reads_them=self.reads_first)
        remarks = first_remarks(only.reader, in_one_table(messages), wanted.fields)
        return column_warnings(only.name, remarks, only.full_key)


@dataclass(frozen=True, slots=True, kw_only=True)
class _DatabaseLook:
    """The look at the tables of a whole database; the attributes are those of `_TableLook`."""

    database: WholeDatabase
    topics: Mapping[str, TopicInfo]
    clock: Clock
    reads_first: bool

    def taken(self) -> KnownTables:
        """Read the messages from which the tables will be made, and warn of what they show."""
        if not (self.reads_first and self.topics):
            return KnownTables()
        messages = in_one_table(first_messages(self.database.source, self.topics))
        warn_of_first_messages(self.database, messages, self.clock)
        return KnownTables(first_messages=messages)


def first_look(
    tables: JobTables,
    topics: Mapping[str, TopicInfo],
    clock: Clock,
    *,
    reads_first: bool,
) -> _TableLook | _DatabaseLook:
    """The look at the tables of a job, still to be taken; for its arguments see `_TableLook`."""
    if isinstance(tables, SingleTable):
        return _TableLook(only=tables, topics=topics, clock=clock, reads_first=reads_first)
    return _DatabaseLook(database=tables, topics=topics, clock=clock, reads_first=reads_first)
