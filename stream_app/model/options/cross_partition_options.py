"""Options of tables in which a key finds its row in any partition.

Keys and defaults are Paimon's (1.4, `CoreOptions.java`), but those that are marked as own.
"""

from __future__ import annotations

from stream_app.model.options.option import BOOLEAN, DURATION, INTEGER, Option

CROSS_PARTITION_UPSERT_INDEX_TTL = Option(
    "cross-partition-upsert.index-ttl",
    DURATION,
    None,
    "Age of a bucket's newest file from which on its keys are left out of a new index. A change "
    "of such a key does not find its older row (default: never).",
)
CROSS_PARTITION_UPSERT_BOOTSTRAP_PARALLELISM = Option(
    "cross-partition-upsert.bootstrap-parallelism",
    INTEGER,
    10,
    "Files that a task reads at a time to make the index of keys.",
    minimum=1,
)
PARTITION_LOOKUP = Option(
    "partition-lookup",
    BOOLEAN,
    False,
    "The primary key without its partition columns is unique in the whole table, and the source "
    "knows a row by it: a change finds its older row in any partition.",
    is_own=True,
)
