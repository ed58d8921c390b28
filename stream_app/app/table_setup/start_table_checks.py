"""Opens a job's only table, or samples a database's messages, before the job's first record.

`start_checks` calls it after it has checked the topics and opened the checkpoint. A few messages of
each topic reveal early which records will fail.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from stream_app.app.config.job_tables.single_table import SingleTable
from stream_app.app.config.job_tables.whole_database import WholeDatabase
from stream_app.app.source.broker_connection import TopicInfo
from stream_app.app.source.first_messages import in_one_table, sample_messages
from stream_app.app.table_setup.first_message_checks import (
    check_first_messages,
    first_remarks,
    warn_of_first_messages,
)
from stream_app.app.table_setup.format_setup import format_setup
from stream_app.app.table_setup.single_table_setup import (
    column_warnings,
    configured_schema,
    open_or_create_table,
)
from stream_app.cdc.change_batch import MESSAGE_SCHEMA
from stream_app.checkpoint.job_state import JobWarning
from stream_app.clock import Clock
from stream_app.model.schema.table_schema import TableSchema
from stream_app.model.source.origin import Origin
from stream_app.model.source.source_table import SourceTable
from stream_app.table.file_store_table import FileStoreTable


@dataclass(frozen=True, slots=True)
class CheckedTable:
    """The opened table of a job of one table.

    Implements `begin_load.PreparedTables`.

    Attributes:
        warnings: warnings about columns in the first messages.
    """

    table: FileStoreTable
    warnings: Sequence[JobWarning] = ()

    def schema_for(self, _name: str, _sources: Mapping[Origin, SourceTable]) -> TableSchema:
        """See `PreparedTables.schema_for`."""
        return self.table.schema

    def begin_with(
        self, sources_of: Mapping[str, Mapping[Origin, SourceTable]]
    ) -> Mapping[str, FileStoreTable]:
        """See `PreparedTables.begin_with`; the table exists already."""
        return dict.fromkeys(sources_of, self.table)


@dataclass(frozen=True, slots=True)
class SampledDatabase:
    """A whole database, with a sample of its messages.

    Attributes:
        first_messages: the messages from which tables are made; `MESSAGE_SCHEMA`.
    """

    job_tables: WholeDatabase
    first_messages: pa.Table


CheckedTables = CheckedTable | SampledDatabase
"""The outcome of the checks: the job's only table, or a sample of its database."""


def checked_tables(
    job_tables: SingleTable | WholeDatabase,
    topics: Mapping[str, TopicInfo],
    clock: Clock,
    *,
    reads_first: bool,
) -> CheckedTables:
    """Check the first messages, and open or create the job's only table.

    Args:
        topics: the topics by name; empty if the broker was not asked.
        reads_first: whether the job will certainly read the first messages.

    Raises:
        StreamAppError: the messages do not fit the table, or the table does not fit the
            configuration.
    """
    match job_tables:
        case SingleTable():
            schema = configured_schema(job_tables.table, clock)
            warnings = _column_warnings(job_tables, topics, schema, reads_first=reads_first)
            return CheckedTable(open_or_create_table(job_tables, schema, clock), warnings)
        case WholeDatabase() if reads_first and topics:
            messages = in_one_table(sample_messages(job_tables.source, topics))
            warn_of_first_messages(job_tables, messages, clock)
            return SampledDatabase(job_tables, messages)
        case WholeDatabase():
            return SampledDatabase(job_tables, MESSAGE_SCHEMA.empty_table())


def _column_warnings(
    job_tables: SingleTable,
    topics: Mapping[str, TopicInfo],
    schema: TableSchema,
    *,
    reads_first: bool,
) -> Sequence[JobWarning]:
    """Check the first messages against the table, and return warnings about their columns."""
    if not topics:
        return ()
    setup = format_setup(job_tables.source, job_tables.table, schema)
    messages = sample_messages(job_tables.source, topics)
    check_first_messages(job_tables.source.format, setup, messages, reads_first=reads_first)
    remarks = first_remarks(
        job_tables.source.source_extractor, in_one_table(messages), schema.fields
    )
    return column_warnings(job_tables.name, remarks, job_tables.full_key)
