"""The table options of those who follow a table, with Paimon's keys and defaults (1.4,
`CoreOptions.java`).

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
    "Where a streaming read begins: latest-full (all rows, then changes), latest (changes from "
    "now on), compacted-full (the newest compacted version, then changes), from-timestamp, "
    "from-snapshot, from-snapshot-full. default: from-timestamp or from-snapshot when its "
    "option is there, else latest-full. The other modes are Paimon's for batch reads.",
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
    meaning="The snapshot of scan.mode from-snapshot and from-snapshot-full.",
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
    "The time of scan.mode from-timestamp as text, in local time; scan.timestamp-millis counts "
    "first.",
)
CONSUMER_ID = text_option(
    "consumer-id",
    None,
    "Under which name a streaming read keeps how far it has come; expiry leaves what it has "
    "not taken yet.",
)
CONSUMER_EXPIRATION_TIME = duration_option(
    "consumer.expiration-time",
    None,
    "A consumer that has written nothing for so long is forgotten (default: never).",
)
CONSUMER_IGNORE_PROGRESS = boolean_option(
    "consumer.ignore-progress",
    False,
    "Begin where scan.mode says, although the consumer has been here before.",
)
CONSUMER_MODE = choice_option(
    "consumer.mode",
    "exactly-once",
    "How several readers agree on a consumer's progress; with one, as here, both mean the "
    "same: what is written has been read by all.",
    "exactly-once",
    "at-least-once",
)
STREAMING_READ_OVERWRITE = boolean_option(
    "streaming-read-overwrite",
    False,
    "Whether a streaming read of a table with a primary key tells what an OVERWRITE snapshot "
    "changed; stream_app refuses to follow such a table.",
)
STREAMING_READ_APPEND_OVERWRITE = boolean_option(
    "streaming-read-append-overwrite",
    False,
    "Whether a streaming read of a table without a primary key tells the rows that an "
    "OVERWRITE snapshot added.",
)

STREAM_OPTIONS: tuple[Option[Any], ...] = (
    SCAN_MODE,
    SCAN_SNAPSHOT_ID,
    SCAN_TIMESTAMP_MILLIS,
    SCAN_TIMESTAMP,
    CONSUMER_ID,
    CONSUMER_EXPIRATION_TIME,
    CONSUMER_IGNORE_PROGRESS,
    CONSUMER_MODE,
    STREAMING_READ_OVERWRITE,
    STREAMING_READ_APPEND_OVERWRITE,
)
