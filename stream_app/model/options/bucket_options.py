"""Options of tables with ``bucket = -1`` and a primary key, whose buckets come as rows come; and
of tables in which a key finds its row in any partition.

Keys and defaults are Paimon's (1.4, `CoreOptions.java`).
"""

from __future__ import annotations

from typing import Any

from stream_app.model.options.option import (
    Option,
    boolean_option,
    duration_option,
    integer_option,
    parse_integer,
    parse_long,
)

BUCKET_COUNT_MAX = 32_767
"""Paimon keeps numbers of buckets in 16 bits (`utils/Int2ShortHashMap.java`)."""


def _parse_max_buckets(text: str) -> int:
    """A whole number that is not 0."""
    if (number := parse_integer(text)) == 0:
        raise ValueError("is neither -1 nor at least 1")
    return number


DYNAMIC_BUCKET_TARGET_ROW_NUM = Option(
    key="dynamic-bucket.target-row-num",
    parse=parse_long,
    default=2_000_000,
    kind="integer",
    minimum=1,
    meaning="With bucket = -1 and a primary key: a bucket with this many keys takes no further "
    "ones.",
)
DYNAMIC_BUCKET_INITIAL_BUCKETS = integer_option(
    "dynamic-bucket.initial-buckets",
    None,
    "With bucket = -1 and a primary key: how many buckets of a partition take new keys at a time. "
    "Default: dynamic-bucket.assigner-parallelism, or else 1.",
    minimum=1,
    maximum=BUCKET_COUNT_MAX,
)
DYNAMIC_BUCKET_ASSIGNER_PARALLELISM = integer_option(
    "dynamic-bucket.assigner-parallelism",
    None,
    "Of Paimon's own writers. Here it bounds dynamic-bucket.initial-buckets, as there. With a key "
    "that lacks partition columns: tasks that place and write the rows of an epoch (default: 4).",
    minimum=1,
)
DYNAMIC_BUCKET_MAX_BUCKETS = Option(
    key="dynamic-bucket.max-buckets",
    parse=_parse_max_buckets,
    default=-1,
    kind="integer",
    minimum=-1,
    meaning="With bucket = -1 and a primary key: most buckets of a partition; -1: any number. When "
    "all are full, all take further keys. With a key that lacks partition columns it also bounds "
    "the tasks that place rows, and the first bucket of each takes further keys.",
)


def most_buckets(limit: int) -> int:
    """How many buckets a partition may have, by the value of ``dynamic-bucket.max-buckets``."""
    return BUCKET_COUNT_MAX if limit < 0 else min(limit, BUCKET_COUNT_MAX)


BUCKET_OPTIONS: tuple[Option[Any], ...] = (
    DYNAMIC_BUCKET_TARGET_ROW_NUM,
    DYNAMIC_BUCKET_INITIAL_BUCKETS,
    DYNAMIC_BUCKET_ASSIGNER_PARALLELISM,
    DYNAMIC_BUCKET_MAX_BUCKETS,
)
CROSS_PARTITION_UPSERT_INDEX_TTL = duration_option(
    "cross-partition-upsert.index-ttl",
    None,
    "Age of a bucket's newest file from which on its keys are left out of a new index. A change "
    "of such a key does not find its older row (default: never).",
)
CROSS_PARTITION_UPSERT_BOOTSTRAP_PARALLELISM = integer_option(
    "cross-partition-upsert.bootstrap-parallelism",
    10,
    "Files that a task reads at a time to make the index of keys.",
    minimum=1,
)
PARTITION_LOOKUP = boolean_option(
    "partition-lookup",
    False,
    "The primary key without its partition columns is unique in the whole table, and the source "
    "knows a row by it: a change finds its older row in any partition.",
    is_own=True,
)
CROSS_PARTITION_OPTIONS: tuple[Option[Any], ...] = (
    CROSS_PARTITION_UPSERT_INDEX_TTL,
    CROSS_PARTITION_UPSERT_BOOTSTRAP_PARALLELISM,
    PARTITION_LOOKUP,
)
