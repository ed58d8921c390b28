"""The table that a command line names, opened with what the environment says of its file system."""

from __future__ import annotations

import os

from stream_app.app.config_settings import file_io_options
from stream_app.table.file_store_table import FileStoreTable, open_table


def named_table(location: str) -> FileStoreTable:
    """Open it.

    Raises:
        TableNotFoundError: there is no table.
        UsageError: the file system is not known, or what it needs is missing.
    """
    return open_table(location, file_io_options=file_io_options(os.environ))
