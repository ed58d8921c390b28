"""The table options of reading, with Paimon's keys and defaults (1.4, `CoreOptions.java`).

Parsed by core_options.
"""

from __future__ import annotations

from stream_app.model.options.option import DURATION, HOUR, MB, SIZE, Option

SOURCE_SPLIT_TARGET_SIZE = Option(
    "source.split.target-size",
    SIZE,
    128 * MB,
    "Size up to which a split gathers files of a bucket.",
)
SOURCE_SPLIT_OPEN_FILE_COST = Option(
    "source.split.open-file-cost",
    SIZE,
    4 * MB,
    "Cost of opening a file: added to its size when compactions pack small files, and the least "
    "weight of a file or section in a split.",
    minimum=0,
)
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
