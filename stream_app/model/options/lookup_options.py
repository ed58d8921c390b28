"""Options of the local copies that look-ups ask.

Keys and defaults are Paimon's (1.4, `CoreOptions.java`).
"""

from __future__ import annotations

from stream_app.model.options.option import DURATION, HOUR, SIZE, Option

LOOKUP_CACHE_FILE_RETENTION = Option(
    "lookup.cache-file-retention",
    DURATION,
    HOUR,
    "Time after which a copy of a data file on an executor's disk goes that no look-up has used.",
)
LOOKUP_CACHE_MAX_DISK_SIZE = Option(
    "lookup.cache-max-disk-size",
    SIZE,
    None,
    "Size of the table's copies on the disk of one machine, beyond which the least recently used "
    "ones go; 0: none are made (default: no bound).",
    minimum=0,
)
