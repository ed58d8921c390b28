"""The table that a command line names."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Mapping
from pathlib import Path

from stream_app.app.config.settings import file_io_options
from stream_app.errors import UsageError
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.opening import open_table
from stream_app.table.versions.read_refusals import warn_of_unknown

WAREHOUSE = "./warehouse"
"""Of the example configuration; ``STREAM_APP_TABLE__WAREHOUSE`` names another, as for a job."""
_WAREHOUSE_VARIABLE = "STREAM_APP_TABLE__WAREHOUSE"
_DATABASE_AND_NAME = re.compile(r"([^/\\.\s]+)\.([^/\\.\s]+)")


def add_table(parser: argparse.ArgumentParser, or_all: str = "") -> None:
    """The argument TABLE.

    Args:
        or_all: what a command line without a table means; empty: it is wrong.
    """
    parser.add_argument(
        "table",
        metavar="TABLE",
        nargs="?" if or_all else None,
        help="the table's folder, …/warehouse/db.db/table; or db.table, in ./warehouse or "
        f"${_WAREHOUSE_VARIABLE}{or_all and '; '}{or_all}",
    )


def table_location(text: str, environ: Mapping[str, str]) -> str:
    """The folder of what a command line calls a table: a folder, or ``database.name``.

    Raises:
        UsageError: it can be neither.
    """
    if "\0" in text or not text.strip():
        raise UsageError(
            f"{text!r} names no table", fix="give the table's folder, or database.name"
        )
    named = _DATABASE_AND_NAME.fullmatch(text)
    if named is None or Path(text).exists():
        return text
    warehouse = environ.get(_WAREHOUSE_VARIABLE) or WAREHOUSE
    return f"{warehouse.rstrip('/')}/{named[1]}.db/{named[2]}"


def named_table(location: str) -> FileStoreTable:
    """Open it, with what the environment says of its file system.

    Raises:
        TableNotFoundError: there is no table.
        UsageError: the file system is not known, or what it needs is missing.
    """
    where = table_location(location, os.environ)
    table = open_table(where, file_io_options=file_io_options(os.environ))
    warn_of_unknown(table)
    return table
