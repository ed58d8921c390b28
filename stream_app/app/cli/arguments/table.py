"""Arguments that name a table and one of its versions: ``--snapshot``, ``--tag``, and others."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Mapping
from pathlib import Path

from stream_app.app.cli.arguments.parsed_texts import timestamp_argument
from stream_app.app.config.settings import catalog_options, file_io_options
from stream_app.catalog.catalogs_file import CATALOGS_FILE, CATALOGS_VARIABLE
from stream_app.errors import UsageError
from stream_app.table.api.paimon_database import DEFAULT_WAREHOUSE
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.opening import open_named_table
from stream_app.table.versions.read_refusals import warn_of_unknown
from stream_app.table.versions.time_travel import Version

_WAREHOUSE_VARIABLE = "STREAM_APP_TABLE__WAREHOUSE"
"""The variable that overrides `DEFAULT_WAREHOUSE`, the warehouse of the example configuration."""
_DATABASE_AND_NAME = re.compile(r"([^/\\.\s]+)\.([^/\\.\s]+)")


def add_table(parser: argparse.ArgumentParser, meaning_without: str = "") -> None:
    """Add the argument TABLE.

    Args:
        meaning_without: the meaning of a command line without a table; empty if it needs one.
    """
    parser.add_argument(
        "table",
        metavar="TABLE",
        nargs="?" if meaning_without else None,
        help=f"the folder of the table, …/warehouse/db.db/table; or db.table of the warehouse "
        f"${_WAREHOUSE_VARIABLE} (default: {DEFAULT_WAREHOUSE}); or catalog.db.table of a catalog "
        f"in the file {CATALOGS_FILE} or ${CATALOGS_VARIABLE}"
        f"{meaning_without and '; '}{meaning_without}",
    )


def add_table_and_dry_run(parser: argparse.ArgumentParser) -> None:
    """Add TABLE and ``--dry-run``."""
    add_table(parser)
    parser.add_argument(
        "--dry-run", action="store_true", help="show what would be done, and change nothing"
    )


def table_location(text: str, environ: Mapping[str, str]) -> str:
    """Return the folder of a table that is named by its folder or as ``database.name``.

    Raises:
        UsageError: the text is neither.
    """
    if "\0" in text or not text.strip():
        raise UsageError(
            f"{text!r} names no table", fix="give the table's folder, or database.name"
        )
    match = _DATABASE_AND_NAME.fullmatch(text)
    if match is None or Path(text).exists():
        return text
    warehouse = environ.get(_WAREHOUSE_VARIABLE) or DEFAULT_WAREHOUSE
    return f"{warehouse.rstrip('/')}/{match[1]}.db/{match[2]}"


def open_table_argument(text: str) -> FileStoreTable:
    """Open the table, with options of the file system and of a catalog from the environment.

    Raises:
        TableNotFoundError: the table does not exist.
        UsageError: the file system is unknown, or one of its packages or settings is missing.
    """
    file_system, catalog = file_io_options(os.environ), catalog_options(os.environ)
    if catalog and _DATABASE_AND_NAME.fullmatch(text) and not Path(text).exists():
        table = open_named_table(text, catalog=catalog, file_io_options=file_system)
    else:
        location = table_location(text, os.environ)
        table = open_named_table(location, file_io_options=file_system)
    warn_of_unknown(table)
    return table


def add_version(parser: argparse.ArgumentParser) -> argparse._MutuallyExclusiveGroup:
    """Add the arguments that select a version; at most one may be given."""
    versions = parser.add_mutually_exclusive_group()
    versions.add_argument(
        "--snapshot",
        type=int,
        metavar="N",
        help="read the table as of this snapshot; default: the latest",
    )
    versions.add_argument("--tag", metavar="NAME", help="read the table as of this tag")
    versions.add_argument(
        "--timestamp",
        type=timestamp_argument,
        metavar="TIME",
        help="read the table as of this time: ISO 8601, local if it has no zone; or "
        "milliseconds since 1970",
    )
    versions.add_argument(
        "--watermark",
        type=int,
        metavar="MS",
        help="read the first snapshot whose watermark is this or later",
    )
    return versions


def version_of(args: argparse.Namespace) -> Version:
    """Return the version that the arguments name."""
    return Version(
        snapshot=args.snapshot, tag=args.tag, timestamp=args.timestamp, watermark=args.watermark
    )
