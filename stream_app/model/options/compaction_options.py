"""Declares the table options that decide when and how a bucket is compacted.

`core_options` collects them.
"""

from __future__ import annotations

from stream_app.model.options.option import (
    BOOLEAN,
    CHOICE,
    DURATION,
    INTEGER,
    MINUTE,
    REAL,
    SECOND,
    SIZE,
    TEXT,
    Option,
)

LEVELS_MAX = 100_000
"""The maximum number of levels, because Paimon's Java lists even the levels without a file."""

NUM_SORTED_RUN_COMPACTION_TRIGGER = Option(
    "num-sorted-run.compaction-trigger",
    INTEGER,
    5,
    "Sorted runs of a bucket that trigger a compaction.",
    minimum=1,
    maximum=LEVELS_MAX,
)
NUM_SORTED_RUN_STOP_TRIGGER = Option(
    "num-sorted-run.stop-trigger",
    INTEGER,
    None,
    "Sorted runs of a bucket beyond which its writes wait (default: the compaction trigger + 3).",
    minimum=1,
)
NUM_LEVELS = Option(
    "num-levels",
    INTEGER,
    None,
    "Levels of a bucket's LSM tree (default: the compaction trigger + 1).",
    minimum=2,
    maximum=LEVELS_MAX,
)
COMPACTION_MAX_SIZE_AMPLIFICATION_PERCENT = Option(
    "compaction.max-size-amplification-percent",
    INTEGER,
    200,
    "Size of all runs but the oldest, in percent of the oldest, that triggers a full compaction.",
)
COMPACTION_SIZE_RATIO = Option(
    "compaction.size-ratio",
    INTEGER,
    1,
    "Percent by which the next run may be larger than those picked so far.",
)
COMPACTION_TOTAL_SIZE_THRESHOLD = Option(
    "compaction.total-size-threshold",
    SIZE,
    None,
    "Total size below which a bucket with two sorted runs is merged whole (default: off).",
)
COMPACTION_INCREMENTAL_SIZE_THRESHOLD = Option(
    "compaction.incremental-size-threshold",
    SIZE,
    None,
    "Size outside of a bucket's highest level from which on it is merged whole (default: off).",
)
COMPACTION_OFFPEAK_START_HOUR = Option(
    "compaction.offpeak.start.hour",
    INTEGER,
    -1,
    "First hour of the day, local time, of the off-peak hours, or -1.",
    minimum=-1,
    maximum=23,
)
COMPACTION_OFFPEAK_END_HOUR = Option(
    "compaction.offpeak.end.hour",
    INTEGER,
    -1,
    "Hour of the day at which the off-peak hours end. If it is before the first hour, they end on "
    "the next day.",
    minimum=-1,
    maximum=23,
)
COMPACTION_OFFPEAK_RATIO = Option(
    "compaction.offpeak-ratio",
    INTEGER,
    0,
    "Percent to add to `compaction.size-ratio` in off-peak hours.",
)
COMPACTION_OPTIMIZATION_INTERVAL = Option(
    "compaction.optimization-interval",
    DURATION,
    None,
    "Age of a bucket's last full compaction from which on it is merged whole (default: off).",
)
COMPACTION_FORCE_UP_LEVEL_0 = Option(
    "compaction.force-up-level-0", BOOLEAN, False, "Merge every flush into a higher level at once."
)
FORCE_LOOKUP = Option(
    "force-lookup",
    BOOLEAN,
    False,
    "Compact like a table with lookups: merge level 0 upwards as `lookup-compact` says.",
)
LOOKUP_COMPACT = Option(
    "lookup-compact",
    CHOICE,
    "radical",
    "When a table with lookups merges level 0 upwards: after each flush (radical), or at the "
    "latest after lookup-compact.max-interval flushes (gentle).",
    only=("radical", "gentle"),
)
LOOKUP_COMPACT_MAX_INTERVAL = Option(
    "lookup-compact.max-interval",
    INTEGER,
    None,
    "Flushes after which gentle lookup compaction merges level 0 (default: twice the "
    "compaction trigger; never less than the trigger).",
    minimum=1,
)
COMPACTION_MIN_FILE_NUM = Option(
    "compaction.min.file-num",
    INTEGER,
    5,
    "Without a primary key: number of small files of a partition, or of neighbours in a bucket, "
    "that trigger a compaction; at least 2.",
    minimum=1,
)
COMPACTION_FILE_NUM_LIMIT = Option(
    "compaction.file-num-limit",
    INTEGER,
    100_000,
    "Without a primary key and buckets: small files that the planner considers in one round.",
    minimum=1,
)
COMPACTION_DELETE_RATIO_THRESHOLD = Option(
    "compaction.delete-ratio-threshold",
    REAL,
    0.2,
    "Without a primary key and buckets: share of deleted rows above which a file is "
    "rewritten, whatever its size.",
)
COMPACTION_FORCE_REWRITE_ALL_FILES = Option(
    "compaction.force-rewrite-all-files", BOOLEAN, False, "A full compaction rewrites every file."
)
FULL_COMPACTION_DELTA_COMMITS = Option(
    "full-compaction.delta-commits",
    INTEGER,
    None,
    "Number of epochs after which all buckets are merged whole; the last of these epochs waits for "
    "the compaction (default: never, but 1 with changelog-producer = full-compaction). Paimon 2 "
    "opens no table that has both this option and changelog-producer = lookup.",
    minimum=1,
)
COMMIT_FORCE_COMPACT = Option(
    "commit.force-compact", BOOLEAN, False, "Each epoch waits for its compactions before it ends."
)
LOOKUP_WAIT = Option(
    "lookup-wait",
    BOOLEAN,
    True,
    "Where compactions look up older rows, each epoch waits for its compactions, so that its "
    "changelog is complete when it ends.",
    older_keys=("changelog-producer.lookup-wait",),
)
PREPARE_COMMIT_WAIT_COMPACTION = Option(
    "prepare-commit.wait-compaction",
    BOOLEAN,
    False,
    "The same as `commit.force-compact`.",
    is_own=True,
)
COMPACTION_MAX_PARALLELISM = Option(
    "compaction.max-parallelism",
    INTEGER,
    None,
    "Compaction units that run at a time (default: half of Spark's default parallelism, "
    "at least 1).",
    minimum=1,
    is_own=True,
)
SORT_SPILL_THRESHOLD = Option(
    "sort-spill-threshold",
    INTEGER,
    None,
    "Sorted runs that a compaction merges at a time; it first merges more into fewer on local "
    "disk (default: 32, or the stop trigger + 1 if that is more).",
    minimum=2,
)
RECORD_LEVEL_EXPIRE_TIME = Option(
    "record-level.expire-time",
    DURATION,
    None,
    "Age from which on a compaction drops a row, if no level above its output has files "
    "(default: never).",
)
RECORD_LEVEL_TIME_FIELD = Option(
    "record-level.time-field",
    TEXT,
    "",
    "Column with a row's time: seconds (INT, BIGINT), milliseconds (BIGINT from "
    "10^12 on) or TIMESTAMP.",
)
CONTINUOUS_DISCOVERY_INTERVAL = Option(
    "continuous.discovery-interval",
    DURATION,
    10 * SECOND,
    "How often `compact --follow` looks for work.",
)
WRITE_ONLY = Option(
    "write-only",
    BOOLEAN,
    False,
    "A job that writes the table does not compact it; another job must.",
    older_keys=("write.compaction-skip",),
)
WRITE_ONLY_STOP_TRIGGER = Option(
    "write-only.stop-trigger",
    INTEGER,
    None,
    "Sorted runs of a bucket beyond which a write-only job waits for the compacting job "
    "(default: ten times the stop trigger; never less than the compaction trigger + 1).",
    minimum=1,
    is_own=True,
)
WRITE_ONLY_COMPACTOR_TIMEOUT = Option(
    "write-only.compactor-timeout",
    DURATION,
    10 * MINUTE,
    "Time without a committed compaction after which a waiting write-only job gives up.",
    is_own=True,
)
