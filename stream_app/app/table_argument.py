"""The table that a command line names, and the parsers of the verbs that take one."""

from __future__ import annotations

import argparse
import os
from typing import Any

from stream_app.app.config_settings import file_io_options
from stream_app.table.file_store_table import FileStoreTable, open_table


def add_table_parser(
    verbs: Any, name: str, *, summary: str, description: str, epilog: str
) -> argparse.ArgumentParser:
    """The parser of a verb that works on a table; the verb adds what is its own."""
    parser: argparse.ArgumentParser = verbs.add_parser(
        name,
        help=summary,
        description=description,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add_table(parser)
    return parser


def add_table(parser: argparse.ArgumentParser) -> None:
    """The argument TABLE."""
    parser.add_argument(
        "table", metavar="TABLE", help="the table's folder, …/warehouse/db.db/table"
    )


def named_table(location: str) -> FileStoreTable:
    """Open it, with what the environment says of its file system.

    Raises:
        TableNotFoundError: there is no table.
        UsageError: the file system is not known, or what it needs is missing.
    """
    return open_table(location, file_io_options=file_io_options(os.environ))
