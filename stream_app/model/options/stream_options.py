"""The table options of which version is read, and of followers, with Paimon's keys and defaults
(1.4, `CoreOptions.java`).

Parsed by core_options.
"""

from __future__ import annotations

from typing import Any

from stream_app.model.options.option import (
    Option,
    boolean_option,
    choice_option,
    duration_option,
    parse_long,
    text_option,
)

SCAN_MODE = choice_option(
    "scan.mode",
    "default",
    "Start of a streaming read: latest-full (all rows, then changes), latest (changes from "
    "now on), compacted-full (the newest compacted version, then changes), from-timestamp, "
    "from-snapshot, from-snapshot-full. Default: from-timestamp or from-snapshot when its option "
    "is set, else latest-full. The other modes are Paimon's for batch reads.",
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
    older_keys=("log.scan",),
)
SCAN_SNAPSHOT_ID = Option(
    key="scan.snapshot-id",
    parse=parse_long,
    default=None,
    kind="integer",
    minimum=0,
    meaning="The snapshot of scan.mode from-snapshot and from-snapshot-full. A table's batch reads "
    "read it, unless they name another version.",
)
SCAN_TAG_NAME = text_option(
    "scan.tag-name", None, "A version by its tag, for batch reads that name no other."
)
SCAN_WATERMARK = Option(
    key="scan.watermark",
    parse=parse_long,
    default=None,
    kind="integer",
    minimum=0,
    meaning="The oldest version whose watermark has reached this one, for batch reads that name no "
    "other.",
)
SCAN_VERSION = text_option(
    "scan.version",
    None,
    "A version by its tag, its number, or watermark-N, for batch reads that name no other.",
)
SCAN_TIMESTAMP_MILLIS = Option(
    key="scan.timestamp-millis",
    parse=parse_long,
    default=None,
    kind="integer",
    meaning="The time of scan.mode from-timestamp: milliseconds since 1970 in UTC.",
    older_keys=("log.scan.timestamp-millis",),
)
SCAN_TIMESTAMP = text_option(
    "scan.timestamp",
    None,
    "The time of scan.mode from-timestamp as text, in local time; scan.timestamp-millis has "
    "priority.",
)
CONSUMER_ID = text_option(
    "consumer-id",
    None,
    "Name under which a streaming read stores its progress; expiry keeps what it has yet to take.",
)
CONSUMER_EXPIRATION_TIME = duration_option(
    "consumer.expiration-time",
    None,
    "Silence after which a consumer expires (default: never).",
)
CONSUMER_IGNORE_PROGRESS = boolean_option(
    "consumer.ignore-progress",
    False,
    "Begin as scan.mode says, even if the consumer has progress.",
)
CONSUMER_MODE = choice_option(
    "consumer.mode",
    "exactly-once",
    "How several readers of one consumer agree on its progress; here each consumer has one "
    "reader, so both values mean the same.",
    "exactly-once",
    "at-least-once",
)
STREAMING_READ_OVERWRITE = boolean_option(
    "streaming-read-overwrite",
    False,
    "Whether a streaming read of a table with a primary key includes the changes of OVERWRITE "
    "snapshots; stream_app refuses to follow such a table.",
)
STREAMING_READ_APPEND_OVERWRITE = boolean_option(
    "streaming-read-append-overwrite",
    False,
    "Whether a streaming read of a table without a primary key includes the rows that OVERWRITE "
    "snapshots add.",
)

STREAM_OPTIONS: tuple[Option[Any], ...] = (
    SCAN_MODE,
    SCAN_SNAPSHOT_ID,
    SCAN_TAG_NAME,
    SCAN_WATERMARK,
    SCAN_VERSION,
    SCAN_TIMESTAMP_MILLIS,
    SCAN_TIMESTAMP,
    CONSUMER_ID,
    CONSUMER_EXPIRATION_TIME,
    CONSUMER_IGNORE_PROGRESS,
    CONSUMER_MODE,
    STREAMING_READ_OVERWRITE,
    STREAMING_READ_APPEND_OVERWRITE,
)
