"""Options of a table that have no page of their own: buckets, keys, files, commits.

Keys and defaults are Paimon's (1.4, `CoreOptions.java`). `core_options` has them all by key.
"""

from __future__ import annotations

from typing import Any

from stream_app.model.merge_engine import MERGE_ENGINES
from stream_app.model.options.changelog_producer import CHANGELOG_PRODUCERS
from stream_app.model.options.option import (
    Option,
    boolean_option,
    choice_option,
    duration_option,
    integer_option,
    parse_exact_columns,
    parse_integer,
    parse_stats_mode,
    parse_text,
    size_option,
    text_option,
)

BUCKET = Option(
    key="bucket",
    parse=parse_integer,
    default=-1,
    kind="integer",
    minimum=-2,
    meaning="Number of buckets of each partition (≥ 1). With a primary key, -1: as many as its "
    "keys need. Without one, -1: no buckets, files in the order of arrival.",
)
BUCKET_KEY = text_option(
    "bucket-key",
    None,
    "Columns that choose the bucket, comma separated; default: the primary key "
    "without the partition columns. Needed for buckets without a primary key.",
    parse=parse_exact_columns,
)
BUCKET_FUNCTION_TYPE = choice_option(
    "bucket-function.type",
    "default",
    "Hash that chooses the bucket.",
    "default",
)
MERGE_ENGINE = choice_option(
    "merge-engine",
    "deduplicate",
    "How rows of one key are merged: deduplicate keeps the newest, partial-update the newest value "
    "of each column that is not null, aggregation computes each column by a function.",
    *MERGE_ENGINES,
)
PARTIAL_UPDATE_REMOVE_RECORD_ON_DELETE = boolean_option(
    "partial-update.remove-record-on-delete",
    False,
    "With merge-engine = partial-update: a -D record removes the whole row.",
)
PARTIAL_UPDATE_REMOVE_RECORD_ON_SEQUENCE_GROUP = text_option(
    "partial-update.remove-record-on-sequence-group",
    None,
    "With merge-engine = partial-update: columns (comma separated) of sequence groups. A -D record "
    "that is in the sequence of one of these groups removes the whole row.",
)
AGGREGATION_REMOVE_RECORD_ON_DELETE = boolean_option(
    "aggregation.remove-record-on-delete",
    False,
    "With merge-engine = aggregation: a -D record removes the whole row.",
)
ROWKIND_FIELD = text_option(
    "rowkind.field",
    None,
    "Column whose text (+I, -U, +U or -D) is the kind of its row.",
)
SEQUENCE_FIELD = text_option(
    "sequence.field",
    None,
    "Columns (comma separated) that decide which version of a key is the newest, "
    "before the order of arrival; nulls are the oldest.",
)
SEQUENCE_FIELD_SORT_ORDER = choice_option(
    "sequence.field.sort-order",
    "ascending",
    "Which sequence.field value is the newest: "
    "the largest (ascending) or the smallest (descending).",
    "ascending",
    "descending",
)
CHANGELOG_PRODUCER = choice_option(
    "changelog-producer",
    "none",
    "What writes changelog files: none, input (the writer, every change as it came in), "
    "full-compaction (full compactions, what changed since the one before), or lookup (each "
    "compaction of level 0, by the older rows of its keys).",
    *CHANGELOG_PRODUCERS,
)
CHANGELOG_ROW_DEDUPLICATE = boolean_option(
    "changelog-producer.row-deduplicate",
    False,
    "Compactions tell no update whose old and new rows have the same values.",
)
CHANGELOG_ROW_DEDUPLICATE_IGNORE_FIELDS = text_option(
    "changelog-producer.row-deduplicate-ignore-fields",
    "",
    "Columns (comma separated) that changelog-producer.row-deduplicate does not compare.",
)
IGNORE_DELETE = boolean_option(
    "ignore-delete",
    False,
    "Drop -D and -U records before they are written.",
    older_keys=(
        "first-row.ignore-delete",
        "deduplicate.ignore-delete",
        "partial-update.ignore-delete",
    ),
)
IGNORE_UPDATE_BEFORE = boolean_option(
    "ignore-update-before", False, "Drop -U records before they are written."
)
FILE_FORMAT = choice_option("file.format", "parquet", "Format of new data files.", "parquet")
FILE_COMPRESSION = choice_option(
    "file.compression",
    "zstd",
    "Codec of data files.",
    "zstd",
    "none",
    "uncompressed",
    "gzip",
    "lz4",
    "snappy",
)
FILE_COMPRESSION_ZSTD_LEVEL = integer_option(
    "file.compression.zstd-level", 1, "zstd level of data files.", minimum=1, maximum=22
)
DATA_FILE_THIN_MODE = boolean_option(
    "data-file.thin-mode", False, "Leave out the _KEY_ columns of data files."
)
METADATA_STATS_MODE = text_option(
    "metadata.stats-mode",
    "truncate(16)",
    "Column statistics kept in manifests: none, counts, truncate(n) or full.",
    parse=parse_stats_mode,
)
DELETION_VECTORS_ENABLED = boolean_option(
    "deletion-vectors.enabled",
    False,
    "Compactions mark the rows that newer ones replace, so that readers need not merge. Rows can "
    "be read when level 0 is compacted.",
)
DELETION_VECTORS_BITMAP64 = boolean_option(
    "deletion-vectors.bitmap64", False, "New deletion vectors have 64 bits, as those of Iceberg."
)
DELETION_VECTOR_INDEX_FILE_TARGET_SIZE = size_option(
    "deletion-vector.index-file.target-size",
    "2 mb",
    "Size at which a writer begins a new file of deletion vectors, in tables without buckets.",
)
TARGET_FILE_SIZE = size_option(
    "target-file-size",
    None,
    "Size at which a writer begins a new data file (default: 128 mb, and 256 mb without a "
    "primary key).",
)
WRITE_BUFFER_SIZE = size_option(
    "write-buffer-size", "256 mb", "Memory of one bucket's write buffer."
)
WRITE_BUFFER_SPILLABLE = boolean_option(
    "write-buffer-spillable", True, "Spill sorted runs to local disk when the buffer is full."
)
WRITE_BUFFER_SPILL_MAX_DISK_SIZE = size_option(
    "write-buffer-spill.max-disk-size",
    None,
    "Disk that a buffer may use to spill (default: no limit).",
)
PARTITION_DEFAULT_NAME = text_option(
    "partition.default-name",
    "__DEFAULT_PARTITION__",
    "Directory of null and empty partition values.",
)
PARTITION_LEGACY_NAME = boolean_option(
    "partition.legacy-name", True, "Name DATE partitions by their day number."
)
DATA_FILE_PATH_DIRECTORY = text_option(
    "data-file.path-directory",
    None,
    "Folder of data files below the table's own (default: the table's own).",
)
DATA_FILE_PREFIX = text_option("data-file.prefix", "data-", "First part of data file names.")
CHANGELOG_FILE_PREFIX = text_option(
    "changelog-file.prefix", "changelog-", "First part of changelog file names."
)

TABLE_OPTIONS: tuple[Option[Any], ...] = (
    BUCKET,
    BUCKET_KEY,
    BUCKET_FUNCTION_TYPE,
    MERGE_ENGINE,
    PARTIAL_UPDATE_REMOVE_RECORD_ON_DELETE,
    PARTIAL_UPDATE_REMOVE_RECORD_ON_SEQUENCE_GROUP,
    AGGREGATION_REMOVE_RECORD_ON_DELETE,
    ROWKIND_FIELD,
    SEQUENCE_FIELD,
    SEQUENCE_FIELD_SORT_ORDER,
    CHANGELOG_PRODUCER,
    CHANGELOG_ROW_DEDUPLICATE,
    CHANGELOG_ROW_DEDUPLICATE_IGNORE_FIELDS,
    IGNORE_DELETE,
    IGNORE_UPDATE_BEFORE,
    FILE_FORMAT,
    FILE_COMPRESSION,
    FILE_COMPRESSION_ZSTD_LEVEL,
    DATA_FILE_THIN_MODE,
    METADATA_STATS_MODE,
    DELETION_VECTORS_ENABLED,
    DELETION_VECTORS_BITMAP64,
    DELETION_VECTOR_INDEX_FILE_TARGET_SIZE,
    TARGET_FILE_SIZE,
    WRITE_BUFFER_SIZE,
    WRITE_BUFFER_SPILLABLE,
    WRITE_BUFFER_SPILL_MAX_DISK_SIZE,
    PARTITION_DEFAULT_NAME,
    PARTITION_LEGACY_NAME,
    DATA_FILE_PATH_DIRECTORY,
    DATA_FILE_PREFIX,
    CHANGELOG_FILE_PREFIX,
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
