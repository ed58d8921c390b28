"""One line at a job's start that names the options of its table on which it does not act."""

from __future__ import annotations

import logging

from stream_app.model.options.ignored_options import ignored_options
from stream_app.table.file_store_table import FileStoreTable

_LOG = logging.getLogger("stream_app")


def warn_of_ignored_options(table: FileStoreTable) -> None:
    """Log it, unless there are none."""
    if ignored := ignored_options(table.schema.options):
        _LOG.warning("options of the table that this job does not act on: %s", ", ".join(ignored))
