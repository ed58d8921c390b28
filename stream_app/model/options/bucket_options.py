"""Declares the table options of buckets: their number, and how many are added on demand.

Keys and defaults are Paimon's (1.4 and, of batch writes, 2.1, `CoreOptions.java`).
"""

from __future__ import annotations

from stream_app.model.options.option import (
    BOOLEAN,
    CHOICE,
    DURATION,
    INTEGER,
    LONG,
    SIZE,
    Option,
    OptionKind,
    parse_exact_columns,
    parse_integer,
)

BUCKET_COUNT_MAX = 32_767
"""The maximum number of buckets: Paimon keeps it in 16 bits (`utils/Int2ShortHashMap.java`)."""


def _parse_max_buckets(text: str) -> int:
    """Parse a whole number that is not 0."""
    if (max_buckets := parse_integer(text)) == 0:
        raise ValueError("is neither -1 nor at least 1")
    return max_buckets


BUCKET = Option(
    "bucket",
    INTEGER,
    -1,
    "Number of buckets of each partition (≥ 1). With a primary key, -1 gives a partition as many "
    "buckets as its keys need, and with -2 rows wait for a compaction that gives them buckets. "
    "Without a primary key, -1 means no buckets: the files are in the order of arrival.",
    minimum=-2,
)
BUCKET_KEY = Option(
    "bucket-key",
    OptionKind("text", parse_exact_columns),
    "",
    "Columns that choose the bucket, comma separated; default: the primary key "
    "without the partition columns. Needed for buckets without a primary key.",
)
BUCKET_FUNCTION_TYPE = Option(
    "bucket-function.type", CHOICE, "default", "Hash that chooses the bucket.", only=("default",)
)
DYNAMIC_BUCKET_TARGET_ROW_NUM = Option(
    "dynamic-bucket.target-row-num",
    LONG,
    2_000_000,
    "With bucket = -1 and a primary key: a bucket with this many keys takes no further ones.",
    minimum=1,
)
DYNAMIC_BUCKET_INITIAL_BUCKETS = Option(
    "dynamic-bucket.initial-buckets",
    INTEGER,
    None,
    "With bucket = -1 and a primary key: how many buckets of a partition take new keys at a time. "
    "Default: dynamic-bucket.assigner-parallelism, or else 1.",
    minimum=1,
    maximum=BUCKET_COUNT_MAX,
)
DYNAMIC_BUCKET_ASSIGNER_PARALLELISM = Option(
    "dynamic-bucket.assigner-parallelism",
    INTEGER,
    None,
    "Number of tasks by which Paimon's own writers assign buckets. stream_app, like Paimon, uses "
    "it as the upper limit of dynamic-bucket.initial-buckets. With a key that lacks partition "
    "columns, it is the number of tasks that place and write the rows of an epoch (default: 4).",
    minimum=1,
)
DYNAMIC_BUCKET_MAX_BUCKETS = Option(
    "dynamic-bucket.max-buckets",
    OptionKind("integer", _parse_max_buckets),
    -1,
    "With bucket = -1 and a primary key: maximum number of a partition's buckets; -1: no "
    "limit. When all are full, all take further keys. With a key that lacks partition columns it "
    "also bounds the tasks that place rows, and the first bucket of each takes further keys.",
    minimum=-1,
)


def bucket_count_max(max_buckets: int) -> int:
    """Return the maximum number of a partition's buckets, from ``dynamic-bucket.max-buckets``."""
    return BUCKET_COUNT_MAX if max_buckets < 0 else min(max_buckets, BUCKET_COUNT_MAX)


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
POSTPONE_DEFAULT_BUCKET_NUM = Option(
    "postpone.default-bucket-num",
    INTEGER,
    None,
    "With bucket = -2: buckets of a partition whose rows get their buckets for the first time "
    "(default: by the target of a bucket).",
    minimum=1,
)
POSTPONE_TARGET_ROW_NUM_PER_BUCKET = Option(
    "postpone.target-row-num-per-bucket",
    LONG,
    None,
    "With bucket = -2: rows of a bucket, by which a new partition gets its number of buckets "
    "(default: by postpone.target-size-per-bucket).",
    minimum=1,
)
POSTPONE_TARGET_SIZE_PER_BUCKET = Option(
    "postpone.target-size-per-bucket",
    SIZE,
    1 << 30,
    "With bucket = -2: bytes of a bucket, by which a new partition gets its number of buckets.",
)
POSTPONE_BATCH_WRITE_FIXED_BUCKET = Option(
    "postpone.batch-write-fixed-bucket",
    BOOLEAN,
    True,
    "With bucket = -2: whether an overwrite gives its rows their buckets at once, so that readers "
    "see the rows. Otherwise the rows wait for a compaction.",
)
POSTPONE_BATCH_WRITE_FIXED_BUCKET_MAX_PARALLELISM = Option(
    "postpone.batch-write-fixed-bucket.max-parallelism",
    INTEGER,
    2048,
    "With bucket = -2: maximum number of a partition's buckets that an overwrite derives from "
    "its rows. The number is a power of two, or this one.",
    minimum=1,
    maximum=BUCKET_COUNT_MAX,
)
PARTITION_LOOKUP = Option(
    "partition-lookup",
    BOOLEAN,
    False,
    "The primary key without its partition columns is unique in the whole table, and the source "
    "identifies a row by it: a change finds its older row in any partition.",
    is_own=True,
)
