"""The table options of commits and manifests, with Paimon's keys and defaults (1.4,
`CoreOptions.java`).

Parsed by core_options.
"""

from __future__ import annotations

from typing import Any

from stream_app.model.options.option import (
    Option,
    choice_option,
    duration_option,
    integer_option,
    parse_text,
    size_option,
)

MANIFEST_FORMAT = choice_option("manifest.format", "avro", "Format of manifests.", "avro")
MANIFEST_COMPRESSION = choice_option(
    "manifest.compression",
    "zstd",
    "Codec of manifests; null is none.",
    "zstd",
    "null",
    "deflate",
    "snappy",
    "bzip2",
    parse=parse_text,
)
MANIFEST_TARGET_FILE_SIZE = size_option(
    "manifest.target-file-size", "8 mb", "Size at which manifests are merged."
)
MANIFEST_MERGE_MIN_COUNT = integer_option(
    "manifest.merge-min-count", 30, "Small manifests that trigger a merge.", minimum=1
)
MANIFEST_FULL_COMPACTION_THRESHOLD_SIZE = size_option(
    "manifest.full-compaction-threshold-size",
    "16 mb",
    "Total size of small manifests and of those with deletions that triggers their full merge.",
)
COMMIT_MAX_RETRIES = integer_option("commit.max-retries", 10, "Attempts after a lost commit race.")
COMMIT_TIMEOUT = duration_option(
    "commit.timeout", None, "Time after which a committer gives up (default: never)."
)
COMMIT_MIN_RETRY_WAIT = duration_option(
    "commit.min-retry-wait", "10 ms", "First wait after a lost commit race."
)
COMMIT_MAX_RETRY_WAIT = duration_option(
    "commit.max-retry-wait", "10 s", "Longest wait after a lost commit race."
)

COMMIT_OPTIONS: tuple[Option[Any], ...] = (
    MANIFEST_FORMAT,
    MANIFEST_COMPRESSION,
    MANIFEST_TARGET_FILE_SIZE,
    MANIFEST_MERGE_MIN_COUNT,
    MANIFEST_FULL_COMPACTION_THRESHOLD_SIZE,
    COMMIT_MAX_RETRIES,
    COMMIT_TIMEOUT,
    COMMIT_MIN_RETRY_WAIT,
    COMMIT_MAX_RETRY_WAIT,
)
