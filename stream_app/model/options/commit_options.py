"""The table options of commits and manifests, with Paimon's keys and defaults (1.4,
`CoreOptions.java`).

Parsed by core_options.
"""

from __future__ import annotations

from stream_app.model.options.option import (
    Option,
    choice_option,
    duration_option,
    integer_option,
    parse_text,
    size_option,
)

COMMIT_OPTIONS: tuple[Option, ...] = (
    choice_option("manifest.format", "avro", "Format of manifests.", "avro"),
    choice_option(
        "manifest.compression",
        "zstd",
        "Codec of manifests; null is none.",
        "zstd",
        "null",
        "deflate",
        "snappy",
        "bzip2",
        parse=parse_text,
    ),
    size_option("manifest.target-file-size", "8 mb", "Size at which manifests are merged."),
    integer_option(
        "manifest.merge-min-count", 30, "Small manifests that trigger a merge.", minimum=1
    ),
    size_option(
        "manifest.full-compaction-threshold-size",
        "16 mb",
        "Size of all small manifests and those with deletions that triggers their full merge.",
    ),
    integer_option("commit.max-retries", 10, "Attempts after a lost commit race."),
    duration_option(
        "commit.timeout", None, "Time after which a commit is given up (default: never)."
    ),
    duration_option("commit.min-retry-wait", "10 ms", "First wait after a lost commit race."),
    duration_option("commit.max-retry-wait", "10 s", "Longest wait after a lost commit race."),
)
