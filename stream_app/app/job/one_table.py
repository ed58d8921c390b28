"""The table of a job of one table: opened, or created as the configuration says."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from stream_app.app.config.app_config import AppConfig
from stream_app.app.job.event_log import warn_of_ignored_options
from stream_app.clock import Clock
from stream_app.errors import TableNotFoundError
from stream_app.model.schema.table_schema import TableSchema, new_table_schema
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.opening import create_or_open, open_table

_LOG = logging.getLogger("stream_app")


def wanted_schema(config: AppConfig, clock: Clock) -> TableSchema:
    """The schema that the configuration asks for, as version 0 of a new table."""
    return new_table_schema(
        columns=config.table.all_columns,
        primary_keys=config.table.primary_keys,
        partition_keys=config.table.partition_keys,
        options={**_defaults(config), **config.table.options},
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


def _defaults(config: AppConfig) -> Mapping[str, str]:
    """Defaults for options that the configuration omits; an existing table keeps its own."""
    if not config.table.defaults:
        return {}
    try:
        there = open_table(config.table.path, file_io_options=config.file_system).schema.options
    except TableNotFoundError:
        there = config.table.defaults
    chosen = {key: there.get(key, value) for key, value in config.table.defaults.items()}
    for key, value in chosen.items():
        _LOG.info("table.options.%s is not set: the table has %s", key, value)
    return chosen
