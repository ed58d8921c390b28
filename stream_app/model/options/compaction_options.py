"""The table options that decide when a bucket is compacted, and into what.

Read by `core_options`, which has the others.
"""

from __future__ import annotations

from typing import Any

from stream_app.model.options.option import (
    Option,
    boolean_option,
    choice_option,
    duration_option,
    integer_option,
    parse_real,
    size_option,
    text_option,
)

LEVELS_MAX = 100_000
"""Paimon's Java keeps a list of all levels, also of those without a file."""

NUM_SORTED_RUN_COMPACTION_TRIGGER = integer_option(
    "num-sorted-run.compaction-trigger",
    5,
    "Sorted runs of a bucket that trigger a compaction.",
    minimum=1,
    maximum=LEVELS_MAX,
)
NUM_SORTED_RUN_STOP_TRIGGER = integer_option(
    "num-sorted-run.stop-trigger",
    None,
    "Sorted runs of a bucket beyond which its writes wait (default: trigger + 3).",
    minimum=1,
)
NUM_LEVELS = integer_option(
    "num-levels",
    None,
    "Levels of a bucket's LSM tree (default: trigger + 1).",
    minimum=2,
    maximum=LEVELS_MAX,
)
COMPACTION_MAX_SIZE_AMPLIFICATION_PERCENT = integer_option(
    "compaction.max-size-amplification-percent",
    200,
    "Size of all runs but the oldest, in percent of the oldest, that triggers a full compaction.",
)
COMPACTION_SIZE_RATIO = integer_option(
    "compaction.size-ratio",
    1,
    "Percent by which the next run may be larger than those picked so far.",
)
COMPACTION_TOTAL_SIZE_THRESHOLD = size_option(
    "compaction.total-size-threshold",
    None,
    "Total size below which a bucket with two sorted runs is merged whole (default: off).",
)
COMPACTION_INCREMENTAL_SIZE_THRESHOLD = size_option(
    "compaction.incremental-size-threshold",
    None,
    "Size outside of a bucket's highest level from which on it is merged whole (default: off).",
)
COMPACTION_OFFPEAK_START_HOUR = integer_option(
    "compaction.offpeak.start.hour",
    -1,
    "First hour of the day, local time, of the off-peak hours; -1: none.",
    minimum=-1,
    maximum=23,
)
COMPACTION_OFFPEAK_END_HOUR = integer_option(
    "compaction.offpeak.end.hour",
    -1,
    "Hour of the day at which the off-peak hours end; before the start: the next day.",
    minimum=-1,
    maximum=23,
)
COMPACTION_OFFPEAK_RATIO = integer_option(
    "compaction.offpeak-ratio",
    0,
    "Percent to add to `compaction.size-ratio` in off-peak hours.",
)
COMPACTION_OPTIMIZATION_INTERVAL = duration_option(
    "compaction.optimization-interval",
    None,
    "Age of a bucket's last full compaction from which on it is merged whole (default: off).",
)
COMPACTION_FORCE_UP_LEVEL_0 = boolean_option(
    "compaction.force-up-level-0",
    False,
    "Merge every flush into a higher level at once.",
)
FORCE_LOOKUP = boolean_option(
    "force-lookup",
    False,
    "Compact like a table with lookups: merge level 0 upwards as `lookup-compact` says.",
)
LOOKUP_COMPACT = choice_option(
    "lookup-compact",
    "radical",
    "When a table with lookups merges level 0 upwards: after each flush (radical), or at the "
    "latest after some flushes (gentle).",
    "radical",
    "gentle",
)
LOOKUP_COMPACT_MAX_INTERVAL = integer_option(
    "lookup-compact.max-interval",
    None,
    "Flushes after which gentle lookup compaction merges level 0 (default: twice the "
    "compaction trigger; never less than the trigger).",
    minimum=1,
)
COMPACTION_MIN_FILE_NUM = integer_option(
    "compaction.min.file-num",
    5,
    "Without a primary key: number of small files of a partition, or of neighbours in a bucket, "
    "that trigger a compaction; at least 2.",
    minimum=1,
)
COMPACTION_FILE_NUM_LIMIT = integer_option(
    "compaction.file-num-limit",
    100_000,
    "Without a primary key and buckets: small files that the planner considers in one round.",
    minimum=1,
)
COMPACTION_DELETE_RATIO_THRESHOLD = Option(
    key="compaction.delete-ratio-threshold",
    parse=parse_real,
    default=0.2,
    kind="real",
    meaning="Without a primary key and buckets: share of deleted rows above which a file is "
    "rewritten, whatever its size.",
)
COMPACTION_FORCE_REWRITE_ALL_FILES = boolean_option(
    "compaction.force-rewrite-all-files", False, "A full compaction rewrites every file."
)
FULL_COMPACTION_DELTA_COMMITS = integer_option(
    "full-compaction.delta-commits",
    None,
    "Number of epochs after which all buckets are merged whole; the epoch waits for it (default: "
    "never; with changelog-producer = full-compaction 1).",
    minimum=1,
)
COMMIT_FORCE_COMPACT = boolean_option(
    "commit.force-compact",
    False,
    "Each epoch waits for its compactions before it ends.",
)
LOOKUP_WAIT = boolean_option(
    "lookup-wait",
    True,
    "Where compactions look up older rows, each epoch waits for them: its changelog ends with it.",
    older_keys=("changelog-producer.lookup-wait",),
)
PREPARE_COMMIT_WAIT_COMPACTION = boolean_option(
    "prepare-commit.wait-compaction",
    False,
    "The same as `commit.force-compact`.",
    is_own=True,
)
COMPACTION_MAX_PARALLELISM = integer_option(
    "compaction.max-parallelism",
    None,
    "Compaction units that run at a time (default: half of Spark's default parallelism, "
    "at least 1).",
    minimum=1,
    is_own=True,
)
SORT_SPILL_THRESHOLD = integer_option(
    "sort-spill-threshold",
    None,
    "Sorted runs that a compaction merges at a time; it first merges more into fewer on local "
    "disk (default: 32, or the stop trigger + 1 if that is more).",
    minimum=2,
)
RECORD_LEVEL_EXPIRE_TIME = duration_option(
    "record-level.expire-time",
    None,
    "Age from which on a full compaction drops a row (default: never).",
)
RECORD_LEVEL_TIME_FIELD = text_option(
    "record-level.time-field",
    None,
    "Column with a row's time: seconds (INT, BIGINT), milliseconds (BIGINT from "
    "10^12 on) or TIMESTAMP.",
)
CONTINUOUS_DISCOVERY_INTERVAL = duration_option(
    "continuous.discovery-interval",
    "10 s",
    "How often `compact --follow` looks for work.",
)
WRITE_ONLY = boolean_option(
    "write-only",
    False,
    "This job does not compact; another one must.",
    older_keys=("write.compaction-skip",),
)
WRITE_ONLY_STOP_TRIGGER = integer_option(
    "write-only.stop-trigger",
    None,
    "Sorted runs of a bucket beyond which a write-only job waits for the compacting job "
    "(default: ten times the stop trigger; never less than the compaction trigger + 1).",
    minimum=1,
    is_own=True,
)
WRITE_ONLY_COMPACTOR_TIMEOUT = duration_option(
    "write-only.compactor-timeout",
    "10 min",
    "Time without a committed compaction after which a waiting write-only job gives up.",
    is_own=True,
)

COMPACTION_OPTIONS: tuple[Option[Any], ...] = (
    NUM_SORTED_RUN_COMPACTION_TRIGGER,
    NUM_SORTED_RUN_STOP_TRIGGER,
    NUM_LEVELS,
    COMPACTION_MAX_SIZE_AMPLIFICATION_PERCENT,
    COMPACTION_SIZE_RATIO,
    COMPACTION_TOTAL_SIZE_THRESHOLD,
    COMPACTION_INCREMENTAL_SIZE_THRESHOLD,
    COMPACTION_OFFPEAK_START_HOUR,
    COMPACTION_OFFPEAK_END_HOUR,
    COMPACTION_OFFPEAK_RATIO,
    COMPACTION_OPTIMIZATION_INTERVAL,
    COMPACTION_FORCE_UP_LEVEL_0,
    FORCE_LOOKUP,
    LOOKUP_COMPACT,
    LOOKUP_COMPACT_MAX_INTERVAL,
    COMPACTION_MIN_FILE_NUM,
    COMPACTION_FILE_NUM_LIMIT,
    COMPACTION_DELETE_RATIO_THRESHOLD,
    COMPACTION_FORCE_REWRITE_ALL_FILES,
    FULL_COMPACTION_DELTA_COMMITS,
    COMMIT_FORCE_COMPACT,
    LOOKUP_WAIT,
    PREPARE_COMMIT_WAIT_COMPACTION,
    COMPACTION_MAX_PARALLELISM,
    SORT_SPILL_THRESHOLD,
    RECORD_LEVEL_EXPIRE_TIME,
    RECORD_LEVEL_TIME_FIELD,
    CONTINUOUS_DISCOVERY_INTERVAL,
    WRITE_ONLY,
    WRITE_ONLY_STOP_TRIGGER,
    WRITE_ONLY_COMPACTOR_TIMEOUT,
)
