"""Decides the meaning of each of Paimon's table options for stream_app.

For each key, stream_app reads it (`core_options.OPTIONS`), ignores it, or refuses the table for
some purposes. Other known keys are harmless, and only `paimon_option_keys` lists them. A table with
an unknown key is refused for writing, because a writer that does not know the key may violate it.
Readers log a warning and continue.

A test compares the names and types of `paimon_option_keys` with the newest lists of Paimon.

Source: Paimon 1.4.2, 2.0.0 and the development of 2.1, `CoreOptions.java`; 1.4.2
`FlinkConnectorOptions.java`, `IcebergOptions.java`, and the readers of each option.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from stream_app.model.options.iceberg_options import (
    GLUE_CLIENT,
    HIVE_CLIENT,
    METADATA_ICEBERG_STORAGE,
)
from stream_app.model.options.indexed_columns import indexed_columns, is_written
from stream_app.model.options.option import is_true


class Purpose(enum.Enum):
    """The purpose of opening a table. The value begins the error of a refused table.

    WRITE: commit, including compactions. READ: read rows and changes. FIND: list all versions and
    files. EXPIRE: delete or tag versions.
    """

    WRITE = "stream_app cannot write this table: "
    READ = "stream_app cannot read this table: "
    FIND = "stream_app cannot find all versions and files of this table: "
    EXPIRE = "stream_app cannot expire or tag versions of this table: "


_ROWS = frozenset({Purpose.READ, Purpose.WRITE})
_WRITE = frozenset({Purpose.WRITE})
_READ = frozenset({Purpose.READ})
_VERSIONS = frozenset({Purpose.WRITE, Purpose.EXPIRE})


@dataclass(frozen=True, slots=True)
class ValueRule:
    """Values of an option, as a text and as a test."""

    text: str
    holds: Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class OptionRefusal:
    """An option that requires a feature that stream_app lacks.

    Attributes:
        key: the key, with ``*`` for a column, or ending with a dot for a prefix.
        value_rule: the values that require the feature.
        purposes: the purposes for which the table is refused.
        reason: the consequence; empty if the option's name shows it.
        is_removable: whether the rows mean the same without the option, so that ``alter --unset``
            helps.
    """

    key: str
    value_rule: ValueRule
    purposes: frozenset[Purpose]
    reason: str = ""
    is_removable: bool = False

    def is_of(self, key: str) -> bool:
        """Return whether this refusal applies to a key."""
        prefix, star, suffix = self.key.partition("*")
        if star:
            return key.startswith(prefix) and key.endswith(suffix)
        return key.startswith(self.key) if self.key.endswith(".") else key == self.key


def _other_than(*values: str) -> ValueRule:
    return ValueRule(
        f"other than {' and '.join(values)}", lambda value: value.lower() not in values
    )


def _one_of(*values: str) -> ValueRule:
    return ValueRule(", ".join(values), lambda value: value.lower() in values)


_TRUE = ValueRule("true", is_true)
_SET = ValueRule("any but empty", lambda value: bool(value.strip()))
_ANY = ValueRule("any", lambda _: True)
_NOT_MAIN = ValueRule("other than main", lambda value: value != "main")
_ABSOLUTE = ValueRule("begins with a slash", lambda value: value.startswith("/"))
_OTHER_STARTS = ("from-creation-timestamp", "from-file-creation-time", "incremental")
_SHOWS_POSTPONED_ROWS = (
    "its readers also see rows that wait for a bucket, which stream_app leaves out"
)
_PART = "Paimon's readers see other rows than the latest version's"
_OWN_FILES = "its vectors are in files of their own"
_SHOWS_BLOB_DESCRIPTORS = "its readers get the places of BLOBs instead of the bytes"
_BLOBS_ELSEWHERE = "its BLOBs are outside of the table"
_SORTS_BY_OTHER_COLUMNS = "its files are sorted by other columns than stream_app sorts by"
_MAPS = "its maps are stored in columns of their own"
_IGNORES_NESTED_RULE = "stream_app merges rows of nested columns without this rule"
_STALE_INDEX = "a compaction would leave the key index stale"
_NOBODY_CALLS = "stream_app calls nothing after its commits"
_NO_TAG_CALLS = "stream_app calls nothing after a tag"
_NOBODY_MARKS = "stream_app marks no partition as done"
_ICEBERG = "its Iceberg catalog would stay behind, and name files that an expiry deletes"
_SEVERAL = ValueRule("several, by semicolons", lambda value: ";" in value)
_ICEBERG_CLIENTS = ValueRule(
    f"other than {HIVE_CLIENT} and {GLUE_CLIENT}",
    lambda value: value not in (HIVE_CLIENT, GLUE_CLIENT),
)

REFUSALS: tuple[OptionRefusal, ...] = (
    OptionRefusal("batch-scan-mode", _other_than("none"), _READ, _PART, is_removable=True),
    OptionRefusal("blob-as-descriptor", _TRUE, _ROWS, _SHOWS_BLOB_DESCRIPTORS),
    OptionRefusal("blob-descriptor-field", _SET, _ROWS, _BLOBS_ELSEWHERE),
    OptionRefusal("blob-external-storage-field", _SET, _ROWS | {Purpose.FIND}, _BLOBS_ELSEWHERE),
    OptionRefusal("blob-view-field", _SET, _ROWS, "its BLOBs are those of another table"),
    OptionRefusal("branch", _NOT_MAIN, _ROWS | {Purpose.FIND}),
    OptionRefusal("chain-table.enabled", _TRUE, _ROWS, "its rows are those of two branches"),
    OptionRefusal("clustering.incremental", _TRUE, _WRITE, _SORTS_BY_OTHER_COLUMNS),
    OptionRefusal("commit.callbacks", _SET, _WRITE, _NOBODY_CALLS, is_removable=True),
    OptionRefusal("commit.custom-listeners", _SET, _WRITE, _NOBODY_CALLS, is_removable=True),
    OptionRefusal("data-evolution.enabled", _TRUE, _WRITE, "a row is in several files"),
    OptionRefusal("data-file.external-paths.strategy", _other_than("none"), _WRITE),
    OptionRefusal(
        "data-file.path-directory",
        _ABSOLUTE,
        frozenset({Purpose.FIND}),
    ),
    OptionRefusal("fields.*.map.storage-layout", _other_than("default"), _ROWS, _MAPS),
    OptionRefusal("fields.*.nested-key-null-strategy", _SET, _ROWS, _IGNORES_NESTED_RULE),
    OptionRefusal("fields.*.nested-sequence-field", _SET, _ROWS, _IGNORES_NESTED_RULE),
    OptionRefusal("file.compression.per.level.", _SET, _WRITE),
    OptionRefusal("file.format.per.level.", _SET, _WRITE),
    OptionRefusal("incremental-between", _ANY, _READ, _PART, is_removable=True),
    OptionRefusal("incremental-between-timestamp", _ANY, _READ, _PART, is_removable=True),
    OptionRefusal("incremental-to-auto-tag", _ANY, _READ, _PART, is_removable=True),
    OptionRefusal("index-file-in-data-file-dir", _TRUE, _WRITE),
    OptionRefusal("lock.enabled", _TRUE, _WRITE),
    OptionRefusal("metadata.iceberg.database", _SEVERAL, _VERSIONS, _ICEBERG, is_removable=True),
    OptionRefusal("metadata.iceberg.hadoop-conf-dir", _SET, _VERSIONS, _ICEBERG, is_removable=True),
    OptionRefusal(
        "metadata.iceberg.hive-client-class",
        *(_ICEBERG_CLIENTS, _VERSIONS, _ICEBERG),
        is_removable=True,
    ),
    OptionRefusal(
        "metadata.iceberg.storage",
        *(_other_than(*METADATA_ICEBERG_STORAGE.only), _VERSIONS, _ICEBERG),
        is_removable=True,
    ),
    OptionRefusal("partition.end-input-to-done", _TRUE, _WRITE, _NOBODY_MARKS, is_removable=True),
    OptionRefusal("partition.idle-time-to-done", _SET, _WRITE, _NOBODY_MARKS, is_removable=True),
    OptionRefusal("pk-bitmap.index.columns", _SET, _WRITE, _STALE_INDEX),
    OptionRefusal("pk-btree.index.columns", _SET, _WRITE, _STALE_INDEX),
    OptionRefusal("pk-clustering-override", _TRUE, _ROWS, _SORTS_BY_OTHER_COLUMNS),
    OptionRefusal("pk-full-text.index.columns", _SET, _WRITE, _STALE_INDEX),
    OptionRefusal("pk-multivalue.index.columns", _SET, _WRITE, _STALE_INDEX),
    OptionRefusal("pk-vector.index.columns", _SET, _WRITE, _STALE_INDEX),
    OptionRefusal("postpone.merge-on-read", _TRUE, _ROWS, _SHOWS_POSTPONED_ROWS),
    OptionRefusal("query-auth.enabled", _TRUE, _READ, "its catalog says which rows one may read"),
    OptionRefusal("row-tracking.enabled", _TRUE, _WRITE, "stream_app numbers no rows"),
    OptionRefusal("scan.bucket", _ANY, _READ, _PART, is_removable=True),
    OptionRefusal("scan.creation-time-millis", _ANY, _READ, _PART, is_removable=True),
    OptionRefusal("scan.fallback-branch", _SET, _READ, "another branch has some of its rows"),
    OptionRefusal("log.scan", _one_of(*_OTHER_STARTS), _READ, _PART, is_removable=True),
    OptionRefusal("scan.mode", _one_of(*_OTHER_STARTS), _READ, _PART, is_removable=True),
    OptionRefusal("scan.file-creation-time-millis", _ANY, _READ, _PART, is_removable=True),
    OptionRefusal("scan.primary-branch", _SET, _READ, "another branch has some of its rows"),
    OptionRefusal("stream-scan-mode", _other_than("none"), _READ, _PART, is_removable=True),
    OptionRefusal("tag.callbacks", _SET, _VERSIONS, _NO_TAG_CALLS, is_removable=True),
    OptionRefusal("type", _other_than("table"), _ROWS, "its files are not those of a table"),
    OptionRefusal("type", _other_than("table", "materialized-table"), frozenset({Purpose.FIND})),
    OptionRefusal("upsert-key", _SET, _WRITE),
    OptionRefusal("vector.file.format", _SET, _WRITE, _OWN_FILES),
    OptionRefusal("vector.file.format", _other_than("parquet"), _READ, _OWN_FILES),
)
"""The options that refuse a table, by key."""


def _by_key(purpose: Purpose) -> dict[str, list[OptionRefusal]]:
    """Return the refusals for a purpose by whole key; those about several keys have the key ""."""
    refusals_by_key: dict[str, list[OptionRefusal]] = {"": []}
    for refusal in REFUSALS:
        if purpose in refusal.purposes:
            key = "" if "*" in refusal.key or refusal.key.endswith(".") else refusal.key
            refusals_by_key.setdefault(key, []).append(refusal)
    return refusals_by_key


_REFUSALS_FOR = {purpose: _by_key(purpose) for purpose in Purpose}


def refusals(options: Mapping[str, str], purpose: Purpose) -> Iterator[tuple[str, OptionRefusal]]:
    """Yield the keys for which a table is refused, in the table's order, with the reasons."""
    refusals_by_key = _REFUSALS_FOR[purpose]
    for key, value in options.items():
        for refusal in (*refusals_by_key.get(key, ()), *refusals_by_key[""]):
            if refusal.is_of(key) and refusal.value_rule.holds(value):
                yield key, refusal


_LEFT_BY_ENGINES = """
COLUMN_STATS_ACCURATE EXTERNAL TRANSLATED_TO_EXTERNAL bucketing_version comment connector
external external.table.purge is_managed_location last_modified_by last_modified_time location
metastore numFiles numFilesErasureCoded numRows provider rawDataSize storage_handler table_type
totalSize transient_lastDdlTime uri warehouse
"""

_LEFT_PREFIXES = ("schema.", "option.")


def is_left_by_engine(key: str) -> bool:
    """Return whether an engine records this option for itself, without an effect on writers.

    Flink stores computed columns and watermarks (``schema.``). Spark copies ``OPTIONS``
    (``option.``), and the Hive hook copies a table's parameters.

    Source: Paimon 1.4.2 `FlinkCatalog.java`, `FlinkTableFactory.java`, `PaimonMetaHook.java`;
    Spark `CatalogV2Util.scala`.
    """
    return key in _LEFT_BY_ENGINES.split() or key.startswith(_LEFT_PREFIXES)


_WRITING = """
async-file-write cache-page-size changelog-file.compression changelog-file.format
changelog-file.stats-mode file.block-size file.suffix.include.compression local-merge-buffer-size
local-sort.max-num-file-handles manifest.delete-file-drop-stats metadata.stats-dense-store
metadata.stats-keep-first-n-columns metadata.stats-mode.per.level page-size
parquet.enable.dictionary partition.sink-strategy sort-engine sort-spill-buffer-size
spill-compression spill-compression.zstd-level target-file-row-num write-buffer-for-append
variant.inferShreddingSchema variant.shreddingSchema write-max-writers-to-spill write.batch-memory
write.batch-size
"""

_COMPACTING = """
compaction.skip-expired-partitions compaction.small-file-ratio lookup.cache-max-memory-size
lookup.cache-spill-compression lookup.cache.bloom.filter.enabled lookup.cache.bloom.filter.fpp
lookup.cache.high-priority-pool-ratio lookup.hash-load-factor lookup.merge-buffer-size
lookup.merge-records-threshold lookup.remote-file.enabled lookup.remote-file.level-threshold
"""

_COMMITTING = """
commit.discard-duplicate-files commit.force-create-snapshot commit.strict-mode.last-safe-snapshot
commit.user-prefix manifest-sort.enabled metadata.iceberg.manifest-legacy-version
precommit-compact
snapshot.ignore-empty-commit snapshot.watermark-idle-timeout visibility-callback.enabled
"""

_UPKEEP = """
end-input.check-partition-expire metastore.tag-to-partition metastore.tag-to-partition.preview
partition.idle-time-to-report-statistic partition.mark-done-action sink.savepoint.auto-tag
tag.batch.customized-name
"""

IGNORED_KEYS = frozenset(f"{_WRITING} {_COMPACTING} {_COMMITTING} {_UPKEEP}".split())
"""Keys that ask for work that jobs leave undone; a job names those of its table when it begins."""

_DONE_ANYWAY = {
    "async-file-write": "true",
    "compaction.small-file-ratio": "0.7",
    "changelog-file.format": "parquet",
    "commit.user-prefix": "",
    "lookup.cache-spill-compression": "none",
    "metadata.stats-dense-store": "true",
    "metadata.stats-keep-first-n-columns": "-1",
    "metastore.tag-to-partition.preview": "none",
    "partition.idle-time-to-report-statistic": "0 ms",
    "partition.sink-strategy": "none",
    "sort-engine": "loser-tree",
    "spill-compression": "lz4",
}
"""Values that ask for nothing else than what is done; of other keys ``false``."""

_IGNORED_PREFIXES = ("parquet.", "metadata.stats-mode.per.level.")


def ignored_options(options: Mapping[str, str]) -> list[str]:
    """Return the keys of a table's options that jobs ignore, in order."""
    return sorted(key for key, value in options.items() if _is_ignored(key, value))


def _is_ignored(key: str, value: str) -> bool:
    if key == "tag.automatic-creation":
        return value.lower() == "batch"
    if key.startswith("file-index."):
        return any(not is_written(index) for index in indexed_columns({key: value}))
    if key.startswith("fields."):
        return key.endswith(".stats-mode")
    if key in IGNORED_KEYS:
        return value.lower() not in ("", _DONE_ANYWAY.get(key, "false"))
    return key.startswith(_IGNORED_PREFIXES)
