"""Declares the table options of files: formats, codecs, statistics, indexes, names, manifests.

Keys and defaults are Paimon's (1.4, `CoreOptions.java`).
"""

from __future__ import annotations

from stream_app.model.options.option import (
    BOOLEAN,
    CHOICE,
    INTEGER,
    MB,
    SIZE,
    TEXT,
    Option,
    OptionKind,
    by_level,
    parse_stats_mode,
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
INDEX_FILE_IN_DATA_FILE_DIR = Option(
    "index-file-in-data-file-dir",
    BOOLEAN,
    False,
    "Index files are beside the data files of their bucket; such tables are only read.",
)
DATA_EVOLUTION_ENABLED = Option(
    "data-evolution.enabled",
    BOOLEAN,
    False,
    "The columns of a row may be in several files, which readers join by the rows' numbers. BLOBs "
    "need it. Such tables are only read.",
)
DELETION_VECTORS_ENABLED = Option(
    "deletion-vectors.enabled",
    BOOLEAN,
    False,
    "Compactions mark the rows that newer ones replace, so that readers need not merge. Readers "
    "see a row only after its level 0 has been compacted.",
)
DELETION_VECTORS_MERGE_ON_READ = Option(
    "deletion-vectors.merge-on-read",
    BOOLEAN,
    False,
    "With deletion vectors, readers merge level 0 with the rest instead of leaving it out. "
    "Followers get the same changes either way.",
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
FILE_INDEX_IN_MANIFEST_THRESHOLD = Option(
    "file-index.in-manifest-threshold",
    SIZE,
    500,
    "Size beyond which the index of a data file is a file beside it, and not in the manifest.",
)
FILE_INDEX_READ_ENABLED = Option(
    "file-index.read.enabled", BOOLEAN, True, "Readers skip files by their file indexes."
)
TARGET_FILE_SIZE = Option(
    "target-file-size",
    SIZE,
    None,
    "Size at which a writer begins a new data file (default: 128 mb, and 256 mb without a "
    "primary key).",
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
MANIFEST_FORMAT = Option("manifest.format", CHOICE, "avro", "Format of manifests.", only=("avro",))
MANIFEST_COMPRESSION = Option(
    "manifest.compression",
    TEXT,
    "zstd",
    "Codec of manifests; null leaves them uncompressed.",
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
