"""Options of the local copies that look-ups ask.

Keys and defaults are Paimon's (1.4, `CoreOptions.java`).
"""

from __future__ import annotations

from typing import Any

from stream_app.model.options.option import Option, duration_option, size_option

LOOKUP_CACHE_FILE_RETENTION = duration_option(
    "lookup.cache-file-retention",
    "1 h",
    "Time after which a copy of a data file on an executor's disk goes that no look-up has used.",
)
LOOKUP_CACHE_MAX_DISK_SIZE = size_option(
    "lookup.cache-max-disk-size",
    None,
    "Size of the table's copies on the disk of one machine, beyond which the least recently used "
    "ones go; 0: none are made (default: no bound).",
    minimum=0,
)
LOOKUP_OPTIONS: tuple[Option[Any], ...] = (
    LOOKUP_CACHE_FILE_RETENTION,
    LOOKUP_CACHE_MAX_DISK_SIZE,
)
