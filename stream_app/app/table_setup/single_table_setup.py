"""Opens or creates the table of a job of one table, and warns of its options and columns."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from stream_app.app.config.job_tables.single_table import SingleTable
from stream_app.app.config.table_config import TableConfig
from stream_app.app.opening.job_catalog import create_job_table
from stream_app.checkpoint.job_state import JobWarning
from stream_app.clock import Clock
from stream_app.message_format_registry import format_named
from stream_app.model.options.option_support import ignored_options
from stream_app.model.schema.merge.refusal_rules import RetractNotice, retract_notices
from stream_app.model.schema.table_schema import TableSchema, new_table_schema
from stream_app.planning.sync.column_remarks import TableRemark
from stream_app.table.file_store_table import FileStoreTable

_LOG = logging.getLogger(__name__)


def configured_schema(table_config: TableConfig, clock: Clock) -> TableSchema:
    """Return the schema that the configuration describes, as version 0 of a new table."""
    return new_table_schema(
        columns=table_config.all_columns,
        primary_keys=table_config.primary_keys,
        partition_keys=table_config.partition_keys,
        options=table_config.options,
        time_ms=clock.now_ms(),
        comment=table_config.comment,
    )


def open_or_create_table(
    job_tables: SingleTable, schema: TableSchema, clock: Clock
) -> FileStoreTable:
    """Open the job's table, or create it if it does not exist.

    Raises:
        UsageError, StorageError, SchemaMismatchError, UnsupportedTableError: see `create_or_open`.
    """
    table = create_job_table(job_tables, job_tables.location, schema, clock)
    warn_of_ignored_options(table)
    for notice in changes_that_fail(job_tables.source.format, table.schema):
        _LOG.warning("%s\n  where: %s\n  to fix: %s", notice.problem, table.location, notice.fix)
    return table


def changes_that_fail(source_format: str, schema: TableSchema) -> list[RetractNotice]:
    """Return the kinds of changes that the format can send and the table cannot merge."""
    if not format_named(source_format).has_changes:
        return []
    return retract_notices(schema.refusal_rules)


def warn_of_ignored_options(table: FileStoreTable) -> None:
    """Log the table options that the job ignores."""
    if ignored_keys := ignored_options(table.schema.options):
        _LOG.warning(
            "options of the table that this job does not act on: %s", ", ".join(ignored_keys)
        )


def column_warnings(
    table: str,
    remarks: Iterable[TableRemark],
    full_key_of: Callable[[str], str],
    *,
    is_lasting: bool = False,
) -> list[JobWarning]:
    """Return the warnings about columns whose values the table does not store exactly.

    Args:
        full_key_of: returns the configuration key of a format's option.
    """
    return [
        JobWarning(
            table=table,
            problem=remark.text(),
            fix=remark.remedy(full_key_of),
            is_lasting=is_lasting,
        )
        for remark in remarks
    ]
