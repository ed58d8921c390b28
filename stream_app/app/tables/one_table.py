"""The table of a job of one table: opened, or created as the configuration says."""

from __future__ import annotations

import logging

from stream_app.app.config.app_config import AppConfig
from stream_app.clock import Clock
from stream_app.message_formats import format_named
from stream_app.model.options.option_support import ignored_options
from stream_app.model.schema.table_schema import TableSchema, new_table_schema
from stream_app.model.schema.undone_rows import UndoNotice, undo_notices
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.opening import create_or_open

_LOG = logging.getLogger("stream_app")


def wanted_schema(config: AppConfig, clock: Clock) -> TableSchema:
    """The schema that the configuration asks for, as version 0 of a new table."""
    return new_table_schema(
        columns=config.table.all_columns,
        primary_keys=config.table.primary_keys,
        partition_keys=config.table.partition_keys,
        options=config.table.options,
        time_millis=clock.now_ms(),
        comment=config.table.comment,
    )


def job_table(config: AppConfig, wanted: TableSchema, clock: Clock) -> FileStoreTable:
    """Open the job's table, or create it.

    Raises:
        UsageError, StorageError, SchemaMismatchError, UnsupportedTableError: as `create_or_open`.
    """
    table = create_or_open(config.table.path, wanted, clock, file_io_options=config.file_system)
    warn_of_ignored_options(table)
    for notice in changes_that_fail(config.source.format, table.schema):
        _LOG.warning("%s\n  where: %s\n  to fix: %s", notice.what, table.location, notice.fix)
    return table


def changes_that_fail(source_format: str, schema: TableSchema) -> list[UndoNotice]:
    """Changes which messages of a format can tell, and which the table cannot merge."""
    if not format_named(source_format).tells_changes:
        return []
    return undo_notices(schema.fields, schema.primary_keys, schema.options)


def warn_of_ignored_options(table: FileStoreTable) -> None:
    """Log the table options that the job ignores, if there are any."""
    if ignored := ignored_options(table.schema.options):
        _LOG.warning("options of the table that this job does not act on: %s", ", ".join(ignored))
