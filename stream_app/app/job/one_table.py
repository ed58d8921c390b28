"""The table of a job of one table: opened, or created as the configuration says."""

from __future__ import annotations

from stream_app.app.config.app_config import AppConfig
from stream_app.app.job.event_log import warn_of_ignored_options
from stream_app.clock import Clock
from stream_app.model.schema.table_schema import TableSchema, new_table_schema
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.opening import create_or_open


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
    return table
