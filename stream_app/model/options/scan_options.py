"""Declares the table options of reads and followers.

Keys and defaults are Paimon's (1.4, `CoreOptions.java`). `core_options` parses them.
"""

from __future__ import annotations

from stream_app.model.options.option import BOOLEAN, CHOICE, DURATION, LONG, MB, SIZE, TEXT, Option

SCAN_MODE = Option(
    "scan.mode",
    CHOICE,
    "default",
    "Start of a streaming read: latest-full (all rows, then changes), latest (changes from "
    "now on), compacted-full (the latest compacted version, then changes), from-timestamp, "
    "from-snapshot, from-snapshot-full. Default: from-timestamp or from-snapshot when its option "
    "is set, and otherwise latest-full. The other modes are Paimon's for batch reads.",
    only=(
        "default",
        "latest-full",
        "full",
        "latest",
        "compacted-full",
        "from-timestamp",
        "from-creation-timestamp",
        "from-file-creation-time",
        "from-snapshot",
        "from-snapshot-full",
        "incremental",
    ),
    older_keys=("log.scan",),
)
SCAN_SNAPSHOT_ID = Option(
    "scan.snapshot-id",
    LONG,
    None,
    "The snapshot of scan.mode from-snapshot and from-snapshot-full. A table's batch reads "
    "read it, unless they name another version.",
    minimum=0,
)
SCAN_TAG_NAME = Option(
    "scan.tag-name", TEXT, "", "A version by its tag, for batch reads that name no other."
)
SCAN_WATERMARK = Option(
    "scan.watermark",
    LONG,
    None,
    "The earliest version whose watermark reaches this one, for batch reads that name no other.",
    minimum=0,
)
SCAN_VERSION = Option(
    "scan.version",
    TEXT,
    "",
    "A version by its tag, its number, or watermark-N, for batch reads that name no other.",
)
SCAN_TIMESTAMP_MILLIS = Option(
    "scan.timestamp-millis",
    LONG,
    None,
    "The time of scan.mode from-timestamp: milliseconds since 1970 in UTC.",
    older_keys=("log.scan.timestamp-millis",),
)
SCAN_TIMESTAMP = Option(
    "scan.timestamp",
    TEXT,
    "",
    "The time of scan.mode from-timestamp as text, in local time; scan.timestamp-millis has "
    "priority.",
)
CONSUMER_ID = Option(
    "consumer-id",
    TEXT,
    "",
    "Name under which a streaming read stores its progress; expiry keeps what it has yet to read.",
)
CONSUMER_EXPIRATION_TIME = Option(
    "consumer.expiration-time",
    DURATION,
    None,
    "Time without progress after which a consumer expires (default: never).",
)
CONSUMER_IGNORE_PROGRESS = Option(
    "consumer.ignore-progress",
    BOOLEAN,
    False,
    "Begin as scan.mode says, even if the consumer has progress.",
)
CONSUMER_MODE = Option(
    "consumer.mode",
    CHOICE,
    "exactly-once",
    "How several readers of one consumer agree on its progress; here each consumer has one "
    "reader, so both values mean the same.",
    only=("exactly-once", "at-least-once"),
)
STREAMING_READ_OVERWRITE = Option(
    "streaming-read-overwrite",
    BOOLEAN,
    False,
    "Whether a streaming read of a table with a primary key includes the changes of OVERWRITE "
    "snapshots; stream_app refuses to follow such a table.",
)
STREAMING_READ_APPEND_OVERWRITE = Option(
    "streaming-read-append-overwrite",
    BOOLEAN,
    False,
    "Whether a streaming read of a table without a primary key includes the rows that OVERWRITE "
    "snapshots add.",
)
SOURCE_SPLIT_TARGET_SIZE = Option(
    "source.split.target-size",
    SIZE,
    128 * MB,
    "Size up to which a split gathers files of a bucket.",
)
SOURCE_SPLIT_OPEN_FILE_COST = Option(
    "source.split.open-file-cost",
    SIZE,
    4 * MB,
    "Cost of opening a file: added to its size when compactions pack small files, and the minimum "
    "weight of a file or section in a split.",
    minimum=0,
)
