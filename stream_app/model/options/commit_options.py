"""The table options of commits and manifests, with Paimon's keys and defaults (1.4,
`CoreOptions.java`).

Parsed by core_options.
"""

from __future__ import annotations

from stream_app.model.options.option import (
    CHOICE,
    DURATION,
    INTEGER,
    MB,
    SECOND,
    SIZE,
    TEXT,
    Option,
)

MANIFEST_FORMAT = Option("manifest.format", CHOICE, "avro", "Format of manifests.", only=("avro",))
MANIFEST_COMPRESSION = Option(
    "manifest.compression",
    TEXT,
    "zstd",
    "Codec of manifests; null is none.",
    only=("zstd", "null", "deflate", "snappy", "bzip2"),
)
MANIFEST_TARGET_FILE_SIZE = Option(
    "manifest.target-file-size", SIZE, 8 * MB, "Size at which manifests are merged."
)
MANIFEST_MERGE_MIN_COUNT = Option(
    "manifest.merge-min-count", INTEGER, 30, "Small manifests that trigger a merge.", minimum=1
)
MANIFEST_FULL_COMPACTION_THRESHOLD_SIZE = Option(
    "manifest.full-compaction-threshold-size",
    SIZE,
    16 * MB,
    "Total size of small manifests and of those with deletions that triggers their full merge.",
)
COMMIT_MAX_RETRIES = Option("commit.max-retries", INTEGER, 10, "Attempts after a lost commit race.")
COMMIT_TIMEOUT = Option(
    "commit.timeout", DURATION, None, "Time after which a committer gives up (default: never)."
)
COMMIT_MIN_RETRY_WAIT = Option(
    "commit.min-retry-wait", DURATION, 10, "First wait after a lost commit race."
)
COMMIT_MAX_RETRY_WAIT = Option(
    "commit.max-retry-wait", DURATION, 10 * SECOND, "Longest wait after a lost commit race."
)
