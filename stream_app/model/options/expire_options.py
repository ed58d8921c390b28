"""The table options of expiry: of snapshots, changelogs and partitions, with Paimon's keys and
defaults (1.4, `CoreOptions.java`).

Parsed by core_options.
"""

from __future__ import annotations

from typing import Any

from stream_app.model.options.option import (
    Option,
    boolean_option,
    choice_option,
    duration_option,
    integer_option,
    parse_integer,
    text_option,
)

SNAPSHOT_NUM_RETAINED_MIN = integer_option(
    "snapshot.num-retained.min", 10, "Snapshots to keep, however old.", minimum=1
)
SNAPSHOT_NUM_RETAINED_MAX = integer_option(
    "snapshot.num-retained.max",
    2_147_483_647,
    "Number of snapshots beyond which the oldest expire, however young.",
    minimum=1,
)
SNAPSHOT_TIME_RETAINED = duration_option(
    "snapshot.time-retained",
    "1 h",
    "Time for which a snapshot is kept after the next one was committed.",
)
SNAPSHOT_EXPIRE_LIMIT = integer_option(
    "snapshot.expire.limit", 50, "Most snapshots that expire after one commit.", minimum=1
)
SNAPSHOT_EXPIRE_EXECUTION_MODE = choice_option(
    "snapshot.expire.execution-mode",
    "sync",
    "Whether a job expires snapshots before its next epoch (sync), or in a thread beside it "
    "(async).",
    "sync",
    "async",
)
SNAPSHOT_CLEAN_EMPTY_DIRECTORIES = boolean_option(
    "snapshot.clean-empty-directories",
    False,
    "Delete folders of buckets and partitions that expiry has emptied.",
    older_keys=("snapshot.expire.clean-empty-directories",),
)
CHANGELOG_NUM_RETAINED_MIN = integer_option(
    "changelog.num-retained.min",
    None,
    "Versions whose changelog is kept (default: as for snapshots).",
    minimum=1,
)
CHANGELOG_NUM_RETAINED_MAX = integer_option(
    "changelog.num-retained.max",
    None,
    "Number of versions beyond which the oldest changelogs expire (default: as for snapshots).",
    minimum=1,
)
CHANGELOG_TIME_RETAINED = duration_option(
    "changelog.time-retained",
    None,
    "Time for which the changelog of a version is kept (default: as for snapshots).",
)
CONSUMER_CHANGELOG_ONLY = boolean_option(
    "consumer.changelog-only",
    False,
    "Whether a consumer protects only unread changelogs, and not the snapshots.",
)
FILE_OPERATION_THREAD_NUM = Option(
    key="file-operation.thread-num",
    parse=parse_integer,
    default=None,
    meaning="Files that expiry reads or deletes at a time (default: the number of cores).",
    kind="integer",
    minimum=1,
    older_keys=("delete-file.thread-num",),
)
PARTITION_EXPIRATION_TIME = duration_option(
    "partition.expiration-time",
    None,
    "Age from which on a partition is dropped (default: never).",
)
PARTITION_EXPIRATION_CHECK_INTERVAL = duration_option(
    "partition.expiration-check-interval",
    "1 h",
    "How often a job checks for expired partitions.",
)
PARTITION_EXPIRATION_STRATEGY = text_option(
    "partition.expiration-strategy",
    "values-time",
    "Source of a partition's age: the time in its values (values-time), or its newest file "
    "(update-time).",
)
PARTITION_EXPIRATION_MAX_NUM = integer_option(
    "partition.expiration-max-num",
    100,
    "Most partitions that one check drops.",
    minimum=1,
)
PARTITION_EXPIRATION_BATCH_SIZE = integer_option(
    "partition.expiration-batch-size",
    None,
    "Partitions that one commit drops (default: all expired ones).",
    minimum=1,
)
PARTITION_TIMESTAMP_FORMATTER = text_option(
    "partition.timestamp-formatter",
    None,
    "Form of the time in a partition's values, as a pattern of Java's DateTimeFormatter "
    "(default: yyyy-MM-dd HH:mm:ss, or yyyy-MM-dd).",
)
PARTITION_TIMESTAMP_PATTERN = text_option(
    "partition.timestamp-pattern",
    None,
    "How a partition's values combine to a time, such as '$year-$month-$day $hour:00:00' "
    "(default: the first column).",
)
PARTITION_TIMESTAMP_FORMAT_STRICT = boolean_option(
    "partition.timestamp-format.strict",
    False,
    "A record is bad when its partition has no time that the two options above can read.",
)

EXPIRE_OPTIONS: tuple[Option[Any], ...] = (
    SNAPSHOT_NUM_RETAINED_MIN,
    SNAPSHOT_NUM_RETAINED_MAX,
    SNAPSHOT_TIME_RETAINED,
    SNAPSHOT_EXPIRE_LIMIT,
    SNAPSHOT_EXPIRE_EXECUTION_MODE,
    SNAPSHOT_CLEAN_EMPTY_DIRECTORIES,
    CHANGELOG_NUM_RETAINED_MIN,
    CHANGELOG_NUM_RETAINED_MAX,
    CHANGELOG_TIME_RETAINED,
    CONSUMER_CHANGELOG_ONLY,
    FILE_OPERATION_THREAD_NUM,
    PARTITION_EXPIRATION_TIME,
    PARTITION_EXPIRATION_CHECK_INTERVAL,
    PARTITION_EXPIRATION_STRATEGY,
    PARTITION_EXPIRATION_MAX_NUM,
    PARTITION_EXPIRATION_BATCH_SIZE,
    PARTITION_TIMESTAMP_FORMATTER,
    PARTITION_TIMESTAMP_PATTERN,
    PARTITION_TIMESTAMP_FORMAT_STRICT,
)
