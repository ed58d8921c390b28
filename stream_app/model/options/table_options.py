"""The table options that have no other module: buckets, keys, files, statistics, buffers.

Keys and defaults are Paimon's (1.4, `CoreOptions.java`). `core_options` has them all by key.
"""

from __future__ import annotations

from stream_app.model.merge_engine import MERGE_ENGINES
from stream_app.model.options.changelog_producer import CHANGELOG_PRODUCERS
from stream_app.model.options.option import (
    BOOLEAN,
    CHOICE,
    DURATION,
    HOUR,
    INTEGER,
    MB,
    SECOND,
    SIZE,
    TEXT,
    Option,
    OptionKind,
    by_level,
    parse_exact_columns,
    parse_stats_mode,
)

BUCKET = Option(
    "bucket",
    INTEGER,
    -1,
    "Number of buckets of each partition (≥ 1). With a primary key, -1: as many as its "
    "keys need; -2: rows wait for a compaction. Without one, -1: no buckets, files in the order of "
    "arrival.",
    minimum=-2,
)
BUCKET_KEY = Option(
    "bucket-key",
    OptionKind("text", parse_exact_columns),
    "",
    "Columns that choose the bucket, comma separated; default: the primary key "
    "without the partition columns. Needed for buckets without a primary key.",
)
BUCKET_FUNCTION_TYPE = Option(
    "bucket-function.type", CHOICE, "default", "Hash that chooses the bucket.", only=("default",)
)
MERGE_ENGINE = Option(
    "merge-engine",
    CHOICE,
    "deduplicate",
    "How rows of one key are merged: deduplicate keeps the newest, partial-update the newest value "
    "of each column that is not null, aggregation computes each column by a function, first-row "
    "keeps the oldest.",
    only=tuple(MERGE_ENGINES),
)
PARTIAL_UPDATE_REMOVE_RECORD_ON_DELETE = Option(
    "partial-update.remove-record-on-delete",
    BOOLEAN,
    False,
    "With merge-engine = partial-update: a -D record removes the whole row.",
)
PARTIAL_UPDATE_REMOVE_RECORD_ON_SEQUENCE_GROUP = Option(
    "partial-update.remove-record-on-sequence-group",
    TEXT,
    "",
    "With merge-engine = partial-update: columns (comma separated) of sequence groups. A -D record "
    "that is in the sequence of one of these groups removes the whole row.",
)
AGGREGATION_REMOVE_RECORD_ON_DELETE = Option(
    "aggregation.remove-record-on-delete",
    BOOLEAN,
    False,
    "With merge-engine = aggregation: a -D record removes the whole row.",
)
ROWKIND_FIELD = Option(
    "rowkind.field", TEXT, "", "Column whose text (+I, -U, +U or -D) is the kind of its row."
)
SEQUENCE_FIELD = Option(
    "sequence.field",
    TEXT,
    "",
    "Columns (comma separated) that decide which version of a key is the newest, "
    "before the order of arrival; nulls are the oldest.",
)
SEQUENCE_FIELD_SORT_ORDER = Option(
    "sequence.field.sort-order",
    CHOICE,
    "ascending",
    "Which sequence.field value is the newest: "
    "the largest (ascending) or the smallest (descending).",
    only=("ascending", "descending"),
)
CHANGELOG_PRODUCER = Option(
    "changelog-producer",
    CHOICE,
    "none",
    "What writes changelog files: none, input (the writer, every change as it came in), "
    "full-compaction (full compactions, what changed since the one before), or lookup (each "
    "compaction of level 0, by the older rows of its keys).",
    only=tuple(CHANGELOG_PRODUCERS),
)
CHANGELOG_ROW_DEDUPLICATE = Option(
    "changelog-producer.row-deduplicate",
    BOOLEAN,
    False,
    "Compactions tell no update whose old and new rows have the same values.",
)
CHANGELOG_ROW_DEDUPLICATE_IGNORE_FIELDS = Option(
    "changelog-producer.row-deduplicate-ignore-fields",
    TEXT,
    "",
    "Columns (comma separated) that changelog-producer.row-deduplicate does not compare.",
)
IGNORE_DELETE = Option(
    "ignore-delete",
    BOOLEAN,
    False,
    "Drop -D and -U records before they are written.",
    older_keys=(
        "first-row.ignore-delete",
        "deduplicate.ignore-delete",
        "partial-update.ignore-delete",
    ),
)
IGNORE_UPDATE_BEFORE = Option(
    "ignore-update-before", BOOLEAN, False, "Drop -U records before they are written."
)
PRIMARY_KEY_NULLABLE = Option(
    "primary-key.nullable",
    BOOLEAN,
    False,
    "Columns of the primary key may be null; nulls are equal as keys, and precede other values.",
)
SEQUENCE_SNAPSHOT_ORDERING = Option(
    "sequence.snapshot-ordering",
    BOOLEAN,
    False,
    "Of two rows of a key, that of the later snapshot is the newer one, so that several writers "
    "may write the table; needs write-only = true, and another job that compacts.",
)
_FORMATS = ("parquet", "orc", "avro")
_CODECS = ("zstd", "none", "uncompressed", "gzip", "lz4", "snappy")
FILE_FORMAT = Option("file.format", CHOICE, "parquet", "Format of new data files.", only=_FORMATS)
FILE_FORMAT_PER_LEVEL = Option(
    "file.format.per.level",
    by_level(_FORMATS),
    {},
    "Formats of data files of some levels, such as `0:orc,5:parquet`, in tables with a key.",
)
FILE_COMPRESSION = Option(
    "file.compression",
    CHOICE,
    "zstd",
    "Codec of data files.",
    only=_CODECS,
)
FILE_COMPRESSION_PER_LEVEL = Option(
    "file.compression.per.level",
    by_level(_CODECS),
    {},
    "Codecs of data files of some levels, such as `0:lz4,5:zstd`, in tables with a key.",
)
FILE_COMPRESSION_ZSTD_LEVEL = Option(
    "file.compression.zstd-level", INTEGER, 1, "zstd level of data files.", minimum=1, maximum=22
)
DATA_FILE_THIN_MODE = Option(
    "data-file.thin-mode", BOOLEAN, False, "Leave out the _KEY_ columns of data files."
)
METADATA_STATS_MODE = Option(
    "metadata.stats-mode",
    OptionKind("text", parse_stats_mode),
    "truncate(16)",
    "Column statistics kept in manifests: none, counts, truncate(n) or full.",
)
DELETION_VECTORS_ENABLED = Option(
    "deletion-vectors.enabled",
    BOOLEAN,
    False,
    "Compactions mark the rows that newer ones replace, so that readers need not merge. Rows can "
    "be read when level 0 is compacted.",
)
DELETION_VECTORS_MERGE_ON_READ = Option(
    "deletion-vectors.merge-on-read",
    BOOLEAN,
    False,
    "With deletion vectors, readers merge level 0 with the rest instead of leaving it out; what "
    "followers get stays the same.",
)
DELETION_VECTORS_BITMAP64 = Option(
    "deletion-vectors.bitmap64",
    BOOLEAN,
    False,
    "New deletion vectors have 64 bits, as those of Iceberg.",
)
DELETION_VECTOR_INDEX_FILE_TARGET_SIZE = Option(
    "deletion-vector.index-file.target-size",
    SIZE,
    2 * MB,
    "Size at which a writer begins a new file of deletion vectors, in tables without buckets.",
)
TARGET_FILE_SIZE = Option(
    "target-file-size",
    SIZE,
    None,
    "Size at which a writer begins a new data file (default: 128 mb, and 256 mb without a "
    "primary key).",
)
WRITE_BUFFER_SIZE = Option(
    "write-buffer-size", SIZE, 256 * MB, "Memory of one bucket's write buffer."
)
WRITE_BUFFER_SPILLABLE = Option(
    "write-buffer-spillable",
    BOOLEAN,
    True,
    "Spill sorted runs to local disk when the buffer is full.",
)
WRITE_BUFFER_SPILL_MAX_DISK_SIZE = Option(
    "write-buffer-spill.max-disk-size",
    SIZE,
    None,
    "Disk that a buffer may use to spill (default: no limit).",
)
PARTITION_DEFAULT_NAME = Option(
    "partition.default-name",
    TEXT,
    "__DEFAULT_PARTITION__",
    "Directory of null and empty partition values.",
)
PARTITION_LEGACY_NAME = Option(
    "partition.legacy-name", BOOLEAN, True, "Name DATE partitions by their day number."
)
DATA_FILE_PATH_DIRECTORY = Option(
    "data-file.path-directory",
    TEXT,
    "",
    "Folder of data files below the table's own (default: the table's own).",
)
DATA_FILE_PREFIX = Option("data-file.prefix", TEXT, "data-", "First part of data file names.")
CHANGELOG_FILE_PREFIX = Option(
    "changelog-file.prefix", TEXT, "changelog-", "First part of changelog file names."
)
LOOKUP_CACHE_FILE_RETENTION = Option(
    "lookup.cache-file-retention",
    DURATION,
    HOUR,
    "Time after which a copy of a data file on an executor's disk goes that no look-up has used.",
)
LOOKUP_CACHE_MAX_DISK_SIZE = Option(
    "lookup.cache-max-disk-size",
    SIZE,
    None,
    "Size of the table's copies on the disk of one machine, beyond which the least recently used "
    "ones go; 0: none are made (default: no bound).",
    minimum=0,
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
DYNAMIC_PARTITION_OVERWRITE = Option(
    "dynamic-partition-overwrite",
    BOOLEAN,
    True,
    "An overwrite that names no partition replaces those of its rows; else the whole table.",
)
OVERWRITE_UPGRADE = Option(
    "overwrite-upgrade",
    BOOLEAN,
    True,
    "An overwrite puts its files on the highest level, where every reader sees them at once.",
)
METASTORE_PARTITIONED_TABLE = Option(
    "metastore.partitioned-table",
    BOOLEAN,
    False,
    "Whether a Hive metastore lists the table's partitions.",
)
RENAMED_COLUMNS = Option(
    "stream-app.renamed-columns",
    TEXT,
    "",
    "Names that the source's columns had before, as `old=column, ...`. A job that follows a rename "
    "sets it: values under an old name go to the column.",
    is_own=True,
)
ROW_CHECKSUM = Option(
    "stream-app.row-checksum",
    BOOLEAN,
    False,
    "Each snapshot has the number of the table's rows and their checksum, kept up to date by the "
    "commits. It needs a changelog, or a table without a primary key.",
    is_own=True,
)
CATALOG = Option(
    "stream-app.catalog",
    TEXT,
    "",
    "The catalog that owns the table; stream_app sets it when it creates a table in a catalog, and "
    "refuses to write such a table by its path.",
    is_own=True,
)
