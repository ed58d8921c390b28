"""Finds the table of a job that a command line names."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from pathlib import Path

from stream_app.app.cli.arguments.table import table_location
from stream_app.app.config.job_tables.job_tables import JobTables
from stream_app.app.config.settings import file_io_options
from stream_app.app.opening.job_catalog import open_job_table
from stream_app.app.ops.recorded_tables import paths_of
from stream_app.catalog.identifier import name_in_path
from stream_app.errors import TableNotFoundError, UsageError
from stream_app.model.first_texts import first_texts
from stream_app.planning.sync.named_tables import nearest_table
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.opening import open_named_table

_SHOWN_NAMES_MAX = 20


def check_table_name(name: str, known_names: Collection[str], where: str) -> None:
    """Check that a job has a table of this name.

    Raises:
        UsageError: the job has no table of this name; the error suggests the nearest name.
    """
    if name in known_names:
        return
    nearest_name = nearest_table(name, known_names)
    suggestion = f"did you mean {nearest_name}? " if nearest_name else ""
    shown_names = first_texts(sorted(known_names), _SHOWN_NAMES_MAX)
    choice = f"name one of {shown_names}" if known_names else "wait for the job's first table"
    raise UsageError(f"the job has no table {name!r}", where=where, fix=f"{suggestion}{choice}")


def names_of_job(job_tables: JobTables) -> Sequence[str]:
    """Return the tables that a job knows; empty if its checkpoint cannot be read."""
    try:
        paths = paths_of(job_tables, needs_one=False)
    except UsageError:
        return []
    return [name_in_path(path) for path in paths]


def open_named_job_table(text: str, job_tables: JobTables, where: str) -> FileStoreTable:
    """Open the table of a job that the text names: by `t`, by `database.t`, or by its folder.

    Args:
        where: the place of the configuration.

    Raises:
        TableNotFoundError: the folder has no table.
        UsageError: the job has no table of this name.
    """
    options = {**file_io_options(os.environ), **job_tables.file_system}
    name = text.removeprefix(f"{job_tables.section.database}.")
    if Path(text).exists() or "/" in name or "." in name:
        return open_named_table(table_location(text, os.environ), file_io_options=options)
    try:
        path = job_tables.path(name)
        if name_in_path(path) != name:
            raise TableNotFoundError(name)
        return open_job_table(job_tables, path)
    except TableNotFoundError:
        check_table_name(name, names_of_job(job_tables), where)
        raise
