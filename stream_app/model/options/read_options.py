"""The table options of reading and look-ups, as Paimon has them (1.4, `CoreOptions.java`).

Parsed by core_options.
"""

from __future__ import annotations

from typing import Any

from stream_app.model.options.option import Option, duration_option, size_option

SOURCE_SPLIT_TARGET_SIZE = size_option(
    "source.split.target-size",
    "128 mb",
    "Size up to which a split gathers files of a bucket.",
)
SOURCE_SPLIT_OPEN_FILE_COST = size_option(
    "source.split.open-file-cost",
    "4 mb",
    "Cost of opening a file: added to its size when compactions pack small files, and the least "
    "weight of a file or section in a split.",
    minimum=0,
)

READ_OPTIONS: tuple[Option[Any], ...] = (
    SOURCE_SPLIT_TARGET_SIZE,
    SOURCE_SPLIT_OPEN_FILE_COST,
)
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
