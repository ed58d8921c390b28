"""Declares the table options of expiry: of snapshots, changelogs and partitions.

Keys and defaults are Paimon's (1.4, `CoreOptions.java`). `core_options` parses them.
"""

from __future__ import annotations

from stream_app.model.options.option import BOOLEAN, CHOICE, DURATION, HOUR, INTEGER, TEXT, Option

SNAPSHOT_NUM_RETAINED_MIN = Option(
    "snapshot.num-retained.min",
    INTEGER,
    10,
    "Minimum number of snapshots that expiry keeps, however old they are.",
    minimum=1,
)
SNAPSHOT_NUM_RETAINED_MAX = Option(
    "snapshot.num-retained.max",
    INTEGER,
    2_147_483_647,
    "Number of snapshots beyond which the earliest expire, however young they are.",
    minimum=1,
)
SNAPSHOT_TIME_RETAINED = Option(
    "snapshot.time-retained",
    DURATION,
    HOUR,
    "Time for which a snapshot is kept after the next one was committed.",
)
SNAPSHOT_EXPIRE_LIMIT = Option(
    "snapshot.expire.limit",
    INTEGER,
    50,
    "Maximum number of snapshots that expire after one commit.",
    minimum=1,
)
SNAPSHOT_EXPIRE_EXECUTION_MODE = Option(
    "snapshot.expire.execution-mode",
    CHOICE,
    "sync",
    "Whether a job expires snapshots before its next epoch (sync), or in a thread beside it "
    "(async).",
    only=("sync", "async"),
)
SNAPSHOT_CLEAN_EMPTY_DIRECTORIES = Option(
    "snapshot.clean-empty-directories",
    BOOLEAN,
    False,
    "Delete folders of buckets and partitions that expiry has emptied.",
    older_keys=("snapshot.expire.clean-empty-directories",),
)
CHANGELOG_NUM_RETAINED_MIN = Option(
    "changelog.num-retained.min",
    INTEGER,
    None,
    "Minimum number of versions whose changelog expiry keeps, however old they are (default: the "
    "minimum number of snapshots).",
    minimum=1,
)
CHANGELOG_NUM_RETAINED_MAX = Option(
    "changelog.num-retained.max",
    INTEGER,
    None,
    "Number of versions beyond which the earliest changelogs expire (default: the maximum number "
    "of snapshots).",
    minimum=1,
)
CHANGELOG_TIME_RETAINED = Option(
    "changelog.time-retained",
    DURATION,
    None,
    "Time for which the changelog of a version is kept (default: the time of snapshots).",
)
CONSUMER_CHANGELOG_ONLY = Option(
    "consumer.changelog-only",
    BOOLEAN,
    False,
    "Whether a consumer protects only unread changelogs, and not the snapshots.",
)
FILE_OPERATION_THREAD_NUM = Option(
    "file-operation.thread-num",
    INTEGER,
    None,
    "Files that expiry reads or deletes at a time (default: the number of cores).",
    minimum=1,
    older_keys=("delete-file.thread-num",),
)
PARTITION_EXPIRATION_TIME = Option(
    "partition.expiration-time",
    DURATION,
    None,
    "Age from which on a partition is dropped (default: never).",
)
PARTITION_EXPIRATION_CHECK_INTERVAL = Option(
    "partition.expiration-check-interval",
    DURATION,
    HOUR,
    "How often a job checks for expired partitions.",
)
PARTITION_EXPIRATION_STRATEGY = Option(
    "partition.expiration-strategy",
    TEXT,
    "values-time",
    "Source of a partition's age: the time in its values (values-time), or its newest file "
    "(update-time).",
)
PARTITION_EXPIRATION_MAX_NUM = Option(
    "partition.expiration-max-num",
    INTEGER,
    100,
    "Maximum number of partitions that one check drops.",
    minimum=1,
)
PARTITION_EXPIRATION_BATCH_SIZE = Option(
    "partition.expiration-batch-size",
    INTEGER,
    None,
    "Partitions that one commit drops (default: all expired ones).",
    minimum=1,
)
PARTITION_TIMESTAMP_FORMATTER = Option(
    "partition.timestamp-formatter",
    TEXT,
    "",
    "Form of the time in a partition's values, as a pattern of Java's DateTimeFormatter "
    "(default: yyyy-MM-dd HH:mm:ss, or yyyy-MM-dd).",
)
PARTITION_TIMESTAMP_PATTERN = Option(
    "partition.timestamp-pattern",
    TEXT,
    "",
    "How a partition's values combine to a time, such as '$year-$month-$day $hour:00:00' "
    "(default: the first column).",
)
PARTITION_TIMESTAMP_FORMAT_STRICT = Option(
    "partition.timestamp-format.strict",
    BOOLEAN,
    False,
    "Whether a record is bad if partition.timestamp-pattern and partition.timestamp-formatter "
    "find no time in its partition.",
)
