"""Declares the table options of writers: buffers, lookup copies, commits, overwrites, own records.

Keys and defaults are Paimon's (1.4, `CoreOptions.java`).
"""

from __future__ import annotations

from stream_app.model.options.option import (
    BOOLEAN,
    DURATION,
    HOUR,
    INTEGER,
    MB,
    SECOND,
    SIZE,
    TEXT,
    Option,
)

WRITE_BUFFER_SIZE = Option(
    "write-buffer-size", SIZE, 256 * MB, "Memory of one bucket's write buffer."
)
WRITE_BUFFER_SPILLABLE = Option(
    "write-buffer-spillable",
    BOOLEAN,
    True,
    "Spill sorted runs to local disk when the buffer is full.",
)
WRITE_BUFFER_SPILL_MAX_DISK_SIZE = Option(
    "write-buffer-spill.max-disk-size",
    SIZE,
    None,
    "Disk that a buffer may use to spill (default: no limit).",
)
LOOKUP_CACHE_FILE_RETENTION = Option(
    "lookup.cache-file-retention",
    DURATION,
    HOUR,
    "Time without a lookup after which an executor deletes its copy of a data file.",
)
LOOKUP_CACHE_MAX_DISK_SIZE = Option(
    "lookup.cache-max-disk-size",
    SIZE,
    None,
    "Total size of the copies of the table's files on one machine's disk, beyond which executors "
    "delete the least recently used copies; with 0 they make no copies (default: no limit).",
    minimum=0,
)
COMMIT_MAX_RETRIES = Option("commit.max-retries", INTEGER, 10, "Attempts after a lost commit race.")
COMMIT_TIMEOUT = Option(
    "commit.timeout", DURATION, None, "Time after which a committer gives up (default: never)."
)
COMMIT_MIN_RETRY_WAIT = Option(
    "commit.min-retry-wait", DURATION, 10, "First wait after a lost commit race."
)
COMMIT_MAX_RETRY_WAIT = Option(
    "commit.max-retry-wait", DURATION, 10 * SECOND, "Longest wait after a lost commit race."
)
DYNAMIC_PARTITION_OVERWRITE = Option(
    "dynamic-partition-overwrite",
    BOOLEAN,
    True,
    "Whether an overwrite that names no partition replaces only the partitions of its rows. "
    "Otherwise it replaces the whole table.",
)
OVERWRITE_UPGRADE = Option(
    "overwrite-upgrade",
    BOOLEAN,
    True,
    "An overwrite puts its files on the highest level, where every reader sees them at once.",
)
ROW_CHECKSUM = Option(
    "stream-app.row-checksum",
    BOOLEAN,
    False,
    "Each snapshot has the number of the table's rows and their checksum, kept up to date by the "
    "commits. It needs a changelog, or a table without a primary key.",
    is_own=True,
)
METASTORE_PARTITIONED_TABLE = Option(
    "metastore.partitioned-table",
    BOOLEAN,
    False,
    "Whether a Hive metastore lists the table's partitions.",
)
CATALOG = Option(
    "stream-app.catalog",
    TEXT,
    "",
    "The catalog that owns the table; stream_app sets it when it creates a table in a catalog, and "
    "refuses to write such a table by its path.",
    is_own=True,
)
