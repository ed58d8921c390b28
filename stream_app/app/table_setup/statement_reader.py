"""Reads DDL statements from the source's messages, and lets tables follow their renames.

`app.job.table_assembly` calls it for the statements, and `app.job.feed_factory` for each table.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pyarrow as pa

from stream_app.app.config.job_tables.job_tables import JobTables
from stream_app.app.config.job_tables.whole_database import WholeDatabase
from stream_app.app.table_setup.format_setup import accepts_aliases
from stream_app.app.table_setup.table_pipeline import row_settings
from stream_app.cdc.ddl.ddl_messages import ddl_messages
from stream_app.cdc.ddl.ddl_parser import parse_statements
from stream_app.cdc.message_format import DdlOf
from stream_app.checkpoint.job_state import JobStateFile
from stream_app.epochs.rounds.schema_evolution import RenameRules, SchemaEvolution
from stream_app.model.source.source_renames import (
    RenameReaction,
    SourceDatabase,
    SourceRenames,
)
from stream_app.model.source.topic_name import cluster_and_name
from stream_app.table.file_store_table import FileStoreTable


@dataclass(frozen=True, slots=True)
class StatementReader:
    """A reader of DDL statements, which stores their renames in the job's state."""

    ddl_of: DdlOf
    state_file: JobStateFile
    now_ms: Callable[[], int]

    def __call__(self, messages: pa.Table) -> None:
        """Read the statements in messages. A statement that was read before changes nothing."""
        state = self.state_file.state
        renames = renames_with(state.renames, self.ddl_of, messages, self.now_ms())
        self.state_file.update(replace(state, renames=renames))


def renames_with(
    renames: SourceRenames, ddl_of: DdlOf | None, messages: pa.Table, now_ms: int
) -> SourceRenames:
    """Return the renames, extended by the statements in these messages."""
    if ddl_of is None:
        return renames
    for message in ddl_messages(messages, ddl_of):
        next_renames = renames.read_up_to(message.topic, message.partition_number, message.offset)
        if next_renames is not None:
            statements = parse_statements(message.ddl.text)
            cluster, _ = cluster_and_name(message.topic)
            database = SourceDatabase(cluster, message.ddl.database)
            renames = next_renames.after(database, statements, now_ms)
    return renames


def statement_reader_of(
    job_tables: WholeDatabase, state_file: JobStateFile, now_ms: Callable[[], int]
) -> StatementReader | None:
    """Return the reader of a job's statements, or None if the format's messages carry none."""
    ddl_of = job_tables.source.source_extractor.ddl_of
    return None if ddl_of is None else StatementReader(ddl_of, state_file, now_ms)


def evolution_of(
    job_tables: JobTables,
    name: str,
    table: FileStoreTable,
    state_file: JobStateFile,
    now_ms: Callable[[], int],
) -> SchemaEvolution | None:
    """Return the schema evolution of a job's table, or None if its schema stays fixed."""
    settings = row_settings(job_tables, table)
    if settings.evolution_rules is None:
        return None
    rename_rules = None
    reaction = job_tables.renames_of(name)
    if (
        reaction is not RenameReaction.NEW_COLUMN
        and job_tables.source.source_extractor.ddl_of is not None
    ):
        rename_rules = RenameRules(
            name=name,
            reaction=reaction,
            read_state=lambda: state_file.state,
            can_alias=accepts_aliases(settings.source_config),
            now_ms=now_ms,
        )
    return SchemaEvolution(
        settings.evolution_rules, job_tables.full_name(name), job_tables.full_key, rename_rules
    )
