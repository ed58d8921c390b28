"""Lists Paimon's table options that stream_app does not read, for hints on misspelled names.

`option_support` has the options for which tables are refused, or whose requests are ignored. The
others are harmless: they change neither rows nor files nor guarantees, or belong to kinds of
tables that are refused by another key. The type of each value is listed, because Paimon cannot open
a table with an unreadable value.

With ``write.sequence-number-init-mode = snapshot`` Paimon's writers look for the largest sequence
number in a snapshot's properties. stream_app's snapshots lack it, so Paimon's writers scan the
files.

Source: `CoreOptions.java` of Paimon 1.4.2, 2.0.0 and the development of 2.1, and PyPaimon 2.1.0's
`core_options.py`. `FlinkConnectorOptions.java`, `SparkConnectorOptions.java` and
`RocksDBOptions.java` have what those engines read from a table, and `Catalog.java` has the owner.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable

from stream_app.model.options.option import (
    BOOLEAN,
    DURATION,
    INTEGER,
    LONG,
    REAL,
    SIZE,
    TEXT,
    OptionKind,
    parse_integer,
    parse_long,
    parse_memory_size,
    parse_real,
    parse_stats_mode,
)

_INTEGERS = """
bitmap-index.compression-level clustering.history-partition.limit format-table.scan.list-parallelism
global-index.build.max-parallelism global-index.build.max-shard global-index.build.parallelism
global-index.thread-num local-sort.max-num-file-handles lookup.merge-records-threshold
lookup.remote-file.level-threshold metadata.stats-keep-first-n-columns mosaic.num-buckets
parquet.enable.dictionary
postpone.batch-write-fixed-bucket.rescale-load-factor read.batch-size
read.parallelism scan.bucket scan.manifest.parallelism scan.max-splits-per-task
sort-compaction.local-sample.magnification sorted-index.records-per-file
spill-compression.zstd-level variant.shredding.adaptive.maxInferBufferRow
variant.shredding.maxInferBufferRow variant.shredding.maxSchemaDepth
variant.shredding.maxSchemaWidth vector-search.lateral-join.batch-size write-max-writers-to-spill
write.batch-size zorder.var-length-contribution
"""

_LONGS = """
commit.strict-mode.last-safe-snapshot data-evolution.reassign.skip-contiguous-row-count
data-evolution.row-sidecar.max-selected-rows global-index.row-count-per-shard
scan.bounded.watermark scan.creation-time-millis
scan.file-creation-time-millis target-file-row-num
"""

_REALS = """
compaction.small-file-ratio data-evolution.row-sidecar.max-selection-ratio
lookup.cache.bloom.filter.fpp lookup.cache.high-priority-pool-ratio lookup.hash-load-factor
variant.shredding.adaptive.retentionRatio variant.shredding.minFieldCardinalityRatio
"""

_SIZES = """
bitmap-index.dictionary-block-size bitmap-index.fallback-scan-max-size blob.copy-buffer-size
blob.target-file-size cache-page-size data-evolution.row-id-conflict-rewrite.max-size
file-reader-async-threshold file.block-size local-cache.block-size
local-cache.max-size local-kv-db.block-size local-merge-buffer-size lookup.cache-max-memory-size
lookup.merge-buffer-size manifest-sort.max-rewrite-size page-size
sort-spill-buffer-size vector.target-file-size write.batch-memory
"""

_DURATIONS = """
clustering.history-partition.idle-to-full-sort partition.idle-time-to-report-statistic
scan.plan-auto-tag-for-read.time-retained snapshot.watermark-idle-timeout
streaming.read.snapshot.delay visibility-callback.check-interval visibility-callback.timeout
"""

_SWITCHES = """
async-file-write auto-create blob-as-descriptor blob-compaction.enabled
blob-view.resolve.enabled
blob-write-null-on-fetch-failure blob-write-null-on-missing-file blob.split-by-file-size
bucket-append-ordered chain-table.enabled chain-table.split.key-range-enabled
chain-table.streaming.merge-snapshot clustering.incremental clustering.incremental.optimize-write
commit.discard-duplicate-files commit.force-create-snapshot commit.native.enabled
compaction.skip-expired-partitions data-evolution.compaction.rewrite-row-ids
data-evolution.merge-into.file-pruning data-evolution.merge-into.source-persist
data-evolution.row-sidecar.enabled data-evolution.write-cols-optimization.enabled
delete.force-produce-changelog end-input.check-partition-expire
file.suffix.include.compression format-table.partition-path-only-value
global-index.enabled global-index.filter.refine-from-data incremental-between-tag-to-snapshot
key-value.sequence_number.enabled local-cache.enabled
lookup.blob-as-descriptor lookup.cache.bloom.filter.enabled lookup.remote-file.enabled
manifest-sort.enabled manifest.delete-file-drop-stats manifest.merge-optimize.enabled
manifest.sidecar.enabled metadata.stats-dense-store
partition.end-input-to-done pk-clustering-override
postpone.merge-on-read query-auth.enabled read.native.enabled
row-tracking.enabled row-tracking.partition-group-on-commit scan.fallback-branch.read-fail-fast
scan.ignore-corrupt-files scan.ignore-lost-files scan.native-plan.enabled scan.plan-sort-partition
snapshot.ignore-empty-commit table-read.sequence-number.enabled
variant.inferShreddingSchema vector-search.distribute.enabled visibility-callback.enabled
write-buffer-for-append write.native.enabled
"""

_TEXTS = """
batch-scan-mode bitmap-index.compression blob-descriptor-field blob-descriptor.source-table
blob-external-storage-field blob-external-storage-path blob-field blob-view-field branch
chain-table.chain-partition-keys changelog-file.compression changelog-file.format
changelog-file.stats-mode clustering.columns clustering.incremental.mode clustering.strategy
commit.callbacks commit.user-prefix data-file.external-paths data-file.external-paths.specific-fs
data-file.external-paths.strategy data-file.external-paths.weights
format-table.commit-hive-sync-url format-table.file.compression
format-table.implementation full-text-index.search-mode global-index.column-update-action
global-index.external-path global-index.search-mode incremental-between
incremental-between-scan-mode incremental-between-timestamp incremental-to-auto-tag local-cache.dir
local-cache.whitelist lookup.cache-spill-compression manifest-sort.partition-field
materialized-table.definition-query materialized-table.interval-freshness
materialized-table.interval-freshness.time-unit materialized-table.logical-refresh-mode
materialized-table.refresh-handler-bytes materialized-table.refresh-handler-description
materialized-table.refresh-mode materialized-table.refresh-status metadata.stats-mode.per.level
metastore.tag-to-partition metastore.tag-to-partition.preview mosaic.stats-columns partition
partition.mark-done-action partition.mark-done-action.custom.class
partition.mark-done-action.http.params partition.mark-done-action.http.url partition.sink-strategy
path pk-bitmap.index.columns pk-btree.index.columns pk-full-text.index.columns
pk-multivalue.index.columns pk-vector.index.columns primary-key scalar-index.search-mode
scan.fallback-branch scan.fallback-delta-branch scan.fallback-snapshot-branch scan.primary-branch
sort-compaction.range-strategy sort-engine spill-compression stream-scan-mode
tag.batch.customized-name tag.callbacks type upsert-key variant.shredding.inferenceMode
variant.shreddingSchema vector-field vector-index.search-mode vector.file.format video-frame-field
write.sequence-number-init-mode
"""

_OLDER = """
blob.stored-descriptor-fields changelog.precommit-compact compaction.early-max.file-num
compaction.max-sorted-run-num compaction.max.file-num log.scan.remove-normalize
lookup.dynamic-partition lookup.local-file-type orc.write.batch-size parquet.variant.shreddingSchema
partition.mark-done-action.http.timeout record-level.time-field-type scan.push-down
sequence.auto-padding sink.clustering.by-columns sink.clustering.strategy streaming-read-mode
streaming-read.shuffle-bucket-with-partition write-manifest-cache
"""

_ENGINES = """
changelog-producer.compaction-interval changelog.precommit-compact.buffer-size
changelog.precommit-compact.thread-num commit.custom-listeners
compaction.bucket-distribution-strategy end-input.watermark filesystem.job-level-settings.enabled
format-table.repair.collect-statistics format-table.statistics.parallelism
legacy-timestamp-mapping.enabled lookup.async lookup.async-thread-number
lookup.bootstrap-parallelism lookup.cache lookup.cache-rows lookup.continuous.discovery-interval
lookup.dynamic-partition.refresh-interval lookup.dynamic-partition.refresh.async
lookup.refresh.async lookup.refresh.async.pending-snapshot-count lookup.refresh.full-load-threshold
lookup.refresh.time-periods-blacklist owner partition.idle-time-to-done
partition.mark-done-action.mode partition.mark-done.recover-from-state partition.time-interval
precommit-compact read.allow.fullScan read.changelog read.shuffle-bucket-with-partition
read.stream.maxBytesPerTrigger read.stream.maxFilesPerTrigger read.stream.maxRowsPerTrigger
read.stream.maxTriggerDelayMs read.stream.minRowsPerTrigger requiredSparkConfsCheck.enabled
scan.bounded scan.dedicated-split-generation scan.infer-parallelism scan.infer-parallelism.max
scan.max-snapshot.count scan.parallelism scan.partitions scan.remove-normalize
scan.split-enumerator.batch-size scan.split-enumerator.mode scan.watermark.alignment.group
scan.watermark.alignment.max-drift scan.watermark.alignment.update-interval
scan.watermark.emit.strategy scan.watermark.idle-timeout sink.clustering.sample-factor
sink.clustering.sort-in-cluster sink.committer-cpu sink.committer-memory
sink.committer-operator-chaining sink.coordinator-commit.enabled sink.cross-partition.managed-memory
sink.key-only-deletes.enabled sink.managed.writer-buffer-memory sink.operator-uid.suffix
sink.parallelism sink.savepoint.auto-tag sink.use-managed-memory-allocator
sink.writer-coordinator.cache-expire-after-access sink.writer-coordinator.cache-memory
sink.writer-coordinator.cache-soft-values sink.writer-coordinator.enabled
sink.writer-coordinator.page-size sink.writer-coordinator.prefetch-manifests sink.writer-cpu
sink.writer-memory sink.writer-refresh-detectors source.checkpoint-align.enabled
source.checkpoint-align.timeout source.operator-uid.suffix
source.split.target-size-with-column-pruning unaware-bucket.compaction.parallelism
unaware-bucket.no-shuffle vector-search.lateral-join.parallelism
write.data-evolution.update-conflict-retry.max-attempts
write.data-evolution.update-conflict-retry.wait-ms write.hive-style-dynamic-partition.enabled
write.merge-schema write.merge-schema.explicit-cast write.merge-schema.type-widening
write.use-v2-write
"""

FIELD_KEYS = (
    *("aggregate-function", "count-limit", "default-aggregate-function", "distinct"),
    *("ignore-retract", "list-agg-delimiter", "nested-key", "sequence-group", "stats-mode"),
    "ts-field",
)
"""Suffixes of the options of a column: ``fields.<column>.aggregate-function``."""

NEWER_FIELD_KEYS = (
    *("map.shared-shredding.column-placement-policy", "map.shared-shredding.max-columns"),
    *("map.storage-layout", "nested-key-null-strategy", "nested-sequence-field"),
    *("pk-bitmap.index.options", "pk-btree.index.options", "pk-full-text.index.options"),
    *("pk-multivalue.index.options", "pk-vector.distance.metric", "pk-vector.index.options"),
    "pk-vector.index.type",
)
"""Further suffixes since Paimon 2.0, beside which rows are not merged (`merge_problems`)."""

PAIMON_PREFIXES = (
    "fields.",  # of a column: `FIELD_KEYS`
    "file-index.",  # of a column: file-index.bloom-filter.columns
    "parquet.",  # and the other formats: handed to the format's own library
    "orc.",
    "avro.",
    "csv.",
    "json.",
    "text.",
    "metadata.stats-mode.per.level.",  # the map, one key a line
    "commit.callback.",  # of a class: commit.callback.<class>.param
    "tag.callback.",
    "metadata.iceberg.rest.",  # handed to the client of an Iceberg catalog
    "btree-index.",
    "lumina.",
    "rocksdb.",
)
"""Beginnings of keys whose rest Paimon does not list."""

CORE_KEYS: dict[str, OptionKind[object]] = {
    key: kind
    for keys, kind in (
        (_INTEGERS, INTEGER),
        (_LONGS, LONG),
        (_REALS, REAL),
        (_SIZES, SIZE),
        (_DURATIONS, DURATION),
        (_SWITCHES, BOOLEAN),
        (_TEXTS, TEXT),
    )
    for key in keys.split()
}
"""Options of Paimon's core that stream_app does not read, and the kind of each one's value."""


def _one_of(*values: str) -> Callable[[str], object]:
    def check(text: str) -> None:
        if text.lower() not in values:
            raise ValueError(f"is not one of {', '.join(values)}")

    return check


def _at_least(minimum: int) -> Callable[[str], object]:
    def check(text: str) -> None:
        if parse_long(text) < minimum:
            raise ValueError(f"is below the minimum {minimum}")

    return check


def _check_size(text: str) -> None:
    if parse_memory_size(text) < 1:
        raise ValueError("is below the minimum 1")


def _check_share(text: str) -> None:
    if not 0 <= parse_real(text) < 1:
        raise ValueError("is not at least 0 and below 1")


def _check_weights(text: str) -> None:
    if any(parse_integer(weight.strip()) < 1 for weight in text.split(",")):
        raise ValueError("has a weight below 1")


def _check_url(text: str) -> None:
    if not re.fullmatch(r"[a-z][a-z0-9+.-]*:/.+", text):
        raise ValueError("is not a URL such as s3://bucket/folder")


def _check_modes(text: str) -> None:
    for entry in text.split(","):
        level, colon, mode = entry.partition(":")
        if not colon or not level.isdecimal():
            raise ValueError("is not a list such as '0:none,5:full'")
        parse_stats_mode(mode)


def _check_time(text: str) -> None:
    if not re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d{1,9})?", text, re.ASCII):
        raise ValueError("is not a time such as '2026-01-31 12:00:00'")
    datetime.datetime.fromisoformat(text)


def _check_not_empty(text: str) -> None:
    if not text.strip():
        raise ValueError("is empty")


_REFRESH = _one_of("continuous", "full", "automatic")
_SEARCH = _one_of("fast", "full", "detail")

VALUE_CHECKS: dict[str, Callable[[str], object]] = {
    "clustering.incremental.mode": _one_of("global-sort", "local-sort"),
    "commit.strict-mode.last-safe-snapshot": _at_least(-1),
    "consumer-id": _check_not_empty,
    "data-file.external-paths.weights": _check_weights,
    "data-file.path-directory": _check_not_empty,
    "format-table.implementation": _one_of("paimon", "engine"),
    "full-text-index.search-mode": _SEARCH,
    "global-index.external-path": _check_url,
    "global-index.search-mode": _SEARCH,
    "incremental-between-scan-mode": _one_of("auto", "delta", "changelog", "diff"),
    "lookup.cache.high-priority-pool-ratio": _check_share,
    "materialized-table.interval-freshness.time-unit": _one_of("second", "minute", "hour", "day"),
    "materialized-table.logical-refresh-mode": _REFRESH,
    "materialized-table.refresh-mode": _REFRESH,
    "materialized-table.refresh-status": _one_of("initializing", "activated", "suspended"),
    "metadata.stats-mode.per.level": _check_modes,
    "metastore.tag-to-partition.preview": _one_of("none", "process-time", "watermark", "batch"),
    "page-size": _check_size,
    "partition.sink-strategy": _one_of("none", "hash"),
    "read.batch-size": _at_least(1),
    "read.parallelism": _at_least(1),
    "record-level.time-field": _check_not_empty,
    "rowkind.field": _check_not_empty,
    "scalar-index.search-mode": _SEARCH,
    "scan.timestamp": _check_time,
    "sort-compaction.range-strategy": _one_of("size", "quantity"),
    "sort-engine": _one_of("min-heap", "loser-tree"),
    "variant.shredding.inferenceMode": _one_of("per-file", "adaptive"),
    "vector-index.search-mode": _SEARCH,
    "write.sequence-number-init-mode": _one_of("scan", "snapshot"),
}
"""Checks of values beyond their type; a wrong value closes the table to Paimon."""

_ICEBERG = """
metadata.iceberg.hadoop-conf-dir metadata.iceberg.manifest-legacy-version
"""

PAIMON_KEYS = CORE_KEYS.keys() | frozenset(f"{_OLDER} {_ENGINES} {_ICEBERG}".split())
"""Paimon's keys, their former names, and keys of Flink, Spark and the catalogs."""
