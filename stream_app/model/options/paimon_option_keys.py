"""The names of Paimon's table options, so that a misspelt one is found and the right one named.

Called by `core_options`, which knows the few that a writer acts on. The others are for other
engines, and the table's schema keeps them as they are. The kind of value is known too, because a
value that Paimon cannot read closes the table to it.

Source: Paimon 1.4.2 `CoreOptions.java`; `FlinkConnectorOptions.java`, `SparkConnectorOptions.java`
and `RocksDBOptions.java` for what those engines read from a table; `Catalog.java` for the owner.
"""

from __future__ import annotations

from collections.abc import Callable

from stream_app.model.options.option import (
    parse_boolean,
    parse_duration_ms,
    parse_integer,
    parse_long,
    parse_memory_size,
    parse_real,
    parse_text,
)

_INTEGERS = """
bucket changelog.num-retained.max changelog.num-retained.min clustering.history-partition.limit
commit.max-retries compaction.file-num-limit compaction.max-size-amplification-percent
compaction.min.file-num compaction.offpeak-ratio compaction.offpeak.end.hour
compaction.offpeak.start.hour compaction.size-ratio cross-partition-upsert.bootstrap-parallelism
dynamic-bucket.assigner-parallelism dynamic-bucket.initial-buckets dynamic-bucket.max-buckets
file-operation.thread-num file.compression.zstd-level full-compaction.delta-commits
global-index.build.max-parallelism global-index.build.max-shard global-index.thread-num
local-sort.max-num-file-handles lookup-compact.max-interval lookup.merge-records-threshold
lookup.remote-file.level-threshold manifest.merge-min-count metadata.stats-keep-first-n-columns
num-levels num-sorted-run.compaction-trigger num-sorted-run.stop-trigger parquet.enable.dictionary
partition.expiration-batch-size partition.expiration-max-num
postpone.batch-write-fixed-bucket.max-parallelism postpone.default-bucket-num read.batch-size
scan.manifest.parallelism scan.max-splits-per-task snapshot.expire.limit snapshot.num-retained.max
snapshot.num-retained.min sort-compaction.local-sample.magnification sort-spill-threshold
spill-compression.zstd-level tag.num-retained-max variant.shredding.maxInferBufferRow
variant.shredding.maxSchemaDepth variant.shredding.maxSchemaWidth write-max-writers-to-spill
write.batch-size zorder.var-length-contribution
"""

_LONGS = """
commit.strict-mode.last-safe-snapshot dynamic-bucket.target-row-num
global-index.row-count-per-shard scan.bounded.watermark scan.creation-time-millis
scan.file-creation-time-millis scan.snapshot-id scan.timestamp-millis scan.watermark
"""

_REALS = """
compaction.delete-ratio-threshold lookup.cache.bloom.filter.fpp
lookup.cache.high-priority-pool-ratio lookup.hash-load-factor
variant.shredding.minFieldCardinalityRatio
"""

_SIZES = """
blob.target-file-size cache-page-size compaction.incremental-size-threshold
compaction.total-size-threshold deletion-vector.index-file.target-size
file-index.in-manifest-threshold file-reader-async-threshold file.block-size
local-merge-buffer-size lookup.cache-max-disk-size lookup.cache-max-memory-size
lookup.merge-buffer-size manifest.full-compaction-threshold-size manifest.target-file-size
page-size sort-spill-buffer-size source.split.open-file-cost source.split.target-size
target-file-size vector.target-file-size write-buffer-size write-buffer-spill.max-disk-size
write.batch-memory
"""

_DURATIONS = """
changelog.time-retained clustering.history-partition.idle-to-full-sort commit.max-retry-wait
commit.min-retry-wait commit.timeout compaction.optimization-interval consumer.expiration-time
continuous.discovery-interval cross-partition-upsert.index-ttl lookup.cache-file-retention
partition.expiration-check-interval partition.expiration-time
partition.idle-time-to-report-statistic record-level.expire-time snapshot.time-retained
snapshot.watermark-idle-timeout streaming.read.snapshot.delay tag.creation-delay
tag.creation-period-duration tag.default-time-retained visibility-callback.check-interval
visibility-callback.timeout
"""

_SWITCHES = """
add-column-before-partition aggregation.remove-record-on-delete
alter-column-null-to-not-null.disabled async-file-write auto-create blob-as-descriptor
blob.split-by-file-size bucket-append-ordered chain-table.enabled
changelog-producer.row-deduplicate clustering.incremental clustering.incremental.optimize-write
commit.discard-duplicate-files commit.force-compact commit.force-create-snapshot
compaction.force-rewrite-all-files compaction.force-up-level-0 consumer.changelog-only
consumer.ignore-progress data-evolution.enabled data-file.thin-mode delete.force-produce-changelog
deletion-vectors.bitmap64 deletion-vectors.enabled deletion-vectors.modifiable
disable-explicit-type-casting dynamic-partition-overwrite end-input.check-partition-expire
file-index.read.enabled file.suffix.include.compression force-lookup
format-table.partition-path-only-value global-index.enabled ignore-delete ignore-update-before
incremental-between-tag-to-snapshot index-file-in-data-file-dir key-value.sequence_number.enabled
lookup-wait lookup.cache.bloom.filter.enabled lookup.remote-file.enabled
manifest.delete-file-drop-stats metadata.stats-dense-store metastore.partitioned-table
overwrite-upgrade partial-update.remove-record-on-delete partition.end-input-to-done
partition.legacy-name partition.timestamp-format.strict pk-clustering-override
postpone.batch-write-fixed-bucket query-auth.enabled row-tracking.enabled scan.ignore-corrupt-files
scan.ignore-lost-files scan.plan-sort-partition snapshot.clean-empty-directories
snapshot.ignore-empty-commit streaming-read-append-overwrite streaming-read-overwrite
table-read.sequence-number.enabled tag.automatic-completion tag.create-success-file
tag.time-expire-enabled variant.inferShreddingSchema visibility-callback.enabled
write-buffer-for-append write-buffer-spillable write-only
"""

_TEXTS = """
batch-scan-mode blob-descriptor-field blob-external-storage-field blob-external-storage-path
blob-field branch bucket-function.type bucket-key chain-table.chain-partition-keys
changelog-file.compression changelog-file.format changelog-file.prefix changelog-file.stats-mode
changelog-producer changelog-producer.row-deduplicate-ignore-fields clustering.columns
clustering.incremental.mode clustering.strategy commit.callbacks commit.user-prefix consumer-id
consumer.mode data-file.external-paths data-file.external-paths.specific-fs
data-file.external-paths.strategy data-file.external-paths.weights data-file.path-directory
data-file.prefix file.compression file.compression.per.level file.format file.format.per.level
format-table.commit-hive-sync-url format-table.file.compression format-table.implementation
global-index.column-update-action global-index.external-path incremental-between
incremental-between-scan-mode incremental-between-timestamp incremental-to-auto-tag lookup-compact
lookup.cache-spill-compression manifest.compression manifest.format
materialized-table.definition-query materialized-table.interval-freshness
materialized-table.interval-freshness.time-unit materialized-table.logical-refresh-mode
materialized-table.refresh-handler-bytes materialized-table.refresh-handler-description
materialized-table.refresh-mode materialized-table.refresh-status merge-engine metadata.stats-mode
metadata.stats-mode.per.level metastore.tag-to-partition metastore.tag-to-partition.preview
partial-update.remove-record-on-sequence-group partition partition.default-name
partition.expiration-strategy partition.mark-done-action partition.mark-done-action.custom.class
partition.mark-done-action.http.params partition.mark-done-action.http.url partition.sink-strategy
partition.timestamp-formatter partition.timestamp-pattern path primary-key record-level.time-field
rowkind.field scan.fallback-branch scan.fallback-delta-branch scan.fallback-snapshot-branch
scan.mode scan.primary-branch scan.tag-name scan.timestamp scan.version sequence.field
sequence.field.sort-order sink.process-time-zone sink.watermark-time-zone
snapshot.expire.execution-mode sort-compaction.range-strategy sort-engine spill-compression
stream-scan-mode tag.automatic-creation tag.batch.customized-name tag.callbacks tag.creation-period
tag.period-formatter type upsert-key variant.shreddingSchema vector-field vector.file.format
"""

_OLDER = """
blob.stored-descriptor-fields changelog-producer.lookup-wait changelog.precommit-compact
deduplicate.ignore-delete delete-file.thread-num first-row.ignore-delete log.scan
log.scan.remove-normalize log.scan.timestamp-millis lookup.dynamic-partition orc.write.batch-size
parquet.variant.shreddingSchema partial-update.ignore-delete sink.clustering.by-columns
sink.clustering.strategy snapshot.expire.clean-empty-directories
streaming-read.shuffle-bucket-with-partition write.compaction-skip
"""

_ENGINES = """
changelog-producer.compaction-interval changelog.precommit-compact.buffer-size
changelog.precommit-compact.thread-num commit.custom-listeners end-input.watermark
filesystem.job-level-settings.enabled lookup.async lookup.async-thread-number
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
sink.committer-operator-chaining sink.cross-partition.managed-memory
sink.managed.writer-buffer-memory sink.operator-uid.suffix sink.parallelism sink.savepoint.auto-tag
sink.use-managed-memory-allocator sink.writer-coordinator.cache-memory
sink.writer-coordinator.enabled sink.writer-coordinator.page-size sink.writer-cpu
sink.writer-memory sink.writer-refresh-detectors source.checkpoint-align.enabled
source.checkpoint-align.timeout source.operator-uid.suffix
source.split.target-size-with-column-pruning unaware-bucket.compaction.parallelism
write.merge-schema write.merge-schema.explicit-cast write.use-v2-write
"""

FIELD_KEYS = (
    *("aggregate-function", "count-limit", "default-aggregate-function", "distinct"),
    *("ignore-retract", "list-agg-delimiter", "nested-key", "sequence-group", "stats-mode"),
    "ts-field",
)
"""Ends of the options of a column: ``fields.<column>.aggregate-function``."""

PREFIXES = (
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
    "metadata.iceberg.",  # metadata of another table format beside Paimon's
    "btree-index.",
    "lumina.",
    "rocksdb.",
)
"""Beginnings of keys whose rest Paimon does not list."""

CORE_KEYS: dict[str, Callable[[str], object]] = {
    key: parse
    for keys, parse in (
        (_INTEGERS, parse_integer),
        (_LONGS, parse_long),
        (_REALS, parse_real),
        (_SIZES, parse_memory_size),
        (_DURATIONS, parse_duration_ms),
        (_SWITCHES, parse_boolean),
        (_TEXTS, parse_text),
    )
    for key in keys.split()
}
"""Options of Paimon's core, and how each one's text is read."""

PAIMON_KEYS = CORE_KEYS.keys() | frozenset(_OLDER.split()) | frozenset(_ENGINES.split())
"""Those, their former names, and what Flink, Spark and the catalogs keep beside them."""
