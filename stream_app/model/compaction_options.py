"""The table options that decide when a bucket is compacted, and into what.

Read by `core_options`, which has the others.
"""

from __future__ import annotations

from stream_app.model.option import Option, boolean_option, integer_option, parse_real, size_option

COMPACTION_OPTIONS: tuple[Option, ...] = (
    integer_option(
        "num-sorted-run.compaction-trigger",
        5,
        "Sorted runs of a bucket that trigger a compaction.",
        minimum=1,
    ),
    integer_option(
        "num-sorted-run.stop-trigger",
        None,
        "Sorted runs of a bucket beyond which its writes wait (default: trigger + 3).",
        minimum=1,
    ),
    integer_option(
        "num-levels", None, "Levels of a bucket's LSM tree (default: trigger + 1).", minimum=2
    ),
    integer_option(
        "compaction.max-size-amplification-percent",
        200,
        "Size of all runs but the oldest, in percent of the oldest, that triggers a full "
        "compaction.",
    ),
    integer_option(
        "compaction.size-ratio",
        1,
        "Percent by which the next run may be larger and still be picked.",
    ),
    size_option(
        "compaction.total-size-threshold",
        None,
        "A bucket that is smaller in all is merged whole whenever it has two sorted runs "
        "(default: off).",
    ),
    size_option(
        "compaction.incremental-size-threshold",
        None,
        "A bucket that holds more below its highest level is merged whole (default: off).",
    ),
    integer_option(
        "compaction.offpeak.start.hour",
        -1,
        "First hour of the day, local time, of the off-peak hours; -1: none.",
        minimum=-1,
        maximum=23,
    ),
    integer_option(
        "compaction.offpeak.end.hour",
        -1,
        "Hour of the day at which the off-peak hours are over; before the start: the next day.",
        minimum=-1,
        maximum=23,
    ),
    integer_option(
        "compaction.offpeak-ratio",
        0,
        "Percent that are added to `compaction.size-ratio` in off-peak hours.",
    ),
    integer_option(
        "compaction.min.file-num",
        5,
        "Without a primary key: small files of a partition, or neighbours in a bucket, that are "
        "worth a compaction; at least 2.",
        minimum=1,
    ),
    integer_option(
        "compaction.file-num-limit",
        100_000,
        "Without a primary key and buckets: small files that are looked at in one round.",
        minimum=1,
    ),
    Option(
        key="compaction.delete-ratio-threshold",
        parse=parse_real,
        default=0.2,
        kind="real",
        meaning="Without a primary key and buckets: a file of which a larger share is deleted is "
        "rewritten, whatever its size.",
    ),
    size_option(
        "source.split.open-file-cost",
        "4 mb",
        "What a small file counts more than its size when files are put together.",
        minimum=0,
    ),
    boolean_option(
        "compaction.force-rewrite-all-files", False, "A full compaction rewrites every file."
    ),
)
