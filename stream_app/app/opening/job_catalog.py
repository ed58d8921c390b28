"""Opens and creates a job's tables, in its catalog or, without one, by their folders."""

from __future__ import annotations

import functools

from stream_app.app.config.job_tables.job_tables import JobTables
from stream_app.catalog.catalog import Catalog
from stream_app.catalog.catalog_registry import open_catalog
from stream_app.catalog.identifier import Identifier, name_in_path
from stream_app.clock import Clock, SystemClock
from stream_app.model.schema.table_schema import TableSchema
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.opening import (
    create_or_open,
    create_or_open_in_catalog,
    open_file_store_table,
    open_in_catalog,
)


def open_job_table(job_tables: JobTables, path: str, clock: Clock | None = None) -> FileStoreTable:
    """Open a table of a job.

    Args:
        path: the table's path, as `JobTables.path` returns it.

    Raises:
        TableNotFoundError, UsageError, StorageError: see `open_in_catalog`.
    """
    if not job_tables.catalog:
        return open_file_store_table(path, clock, file_io_options=job_tables.file_system)
    return open_in_catalog(job_catalog(job_tables), job_identifier(job_tables, path), clock)


def create_job_table(
    job_tables: JobTables, path: str, schema: TableSchema, clock: Clock
) -> FileStoreTable:
    """Open a table of a job, or create it if it does not exist.

    Raises:
        UsageError, StorageError, SchemaMismatchError, UnsupportedTableError: see `create_or_open`.
    """
    if not job_tables.catalog:
        return create_or_open(path, schema, clock, file_io_options=job_tables.file_system)
    return create_or_open_in_catalog(
        job_catalog(job_tables), job_identifier(job_tables, path), schema, clock
    )


def job_table_folder(job_tables: JobTables, name: str) -> str | None:
    """Return the folder of a job's table by its name, or None if the catalog lacks the table.

    Raises:
        UsageError, StorageError, NoAccessError: see `open_catalog`.
    """
    path = job_tables.path(name)
    if not job_tables.catalog:
        return path
    table = job_catalog(job_tables).table(job_identifier(job_tables, path))
    return None if table is None else table.location


def job_catalog(job_tables: JobTables) -> Catalog:
    """Return the catalog of a job that has one.

    Raises:
        UsageError, StorageError, NoAccessError: see `open_catalog`.
    """
    return _catalog(tuple(sorted({**job_tables.file_system, **job_tables.catalog}.items())))


def job_identifier(job_tables: JobTables, path: str) -> Identifier:
    """Return the identifier of a job's table in its catalog.

    Args:
        path: the table's path, as `JobTables.path` returns it.
    """
    return Identifier(job_tables.section.database, name_in_path(path))


@functools.lru_cache
def _catalog(options: tuple[tuple[str, str], ...]) -> Catalog:
    return open_catalog(dict(options), SystemClock())
