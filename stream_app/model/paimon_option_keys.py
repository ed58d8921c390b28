"""The names of Paimon's table options, so that a misspelt one is found and the right one named.

Called by `core_options`, which knows the few that a writer acts on; the others are other engines'
business and are kept in the table's schema as they are.

Source: Paimon 1.4.2 `CoreOptions.java`; `FlinkConnectorOptions.java`, `SparkConnectorOptions.java`
and `RocksDBOptions.java` for what those engines read from a table; `Catalog.java` for the owner.
"""

from __future__ import annotations

_CORE = """
add-column-before-partition aggregation.remove-record-on-delete
alter-column-null-to-not-null.disabled async-file-write auto-create batch-scan-mode
blob-as-descriptor blob-descriptor-field blob-external-storage-field
blob-external-storage-path blob-field blob.split-by-file-size blob.target-file-size branch
bucket bucket-append-ordered bucket-function.type bucket-key cache-page-size
chain-table.chain-partition-keys chain-table.enabled changelog-file.compression
changelog-file.format changelog-file.prefix changelog-file.stats-mode changelog-producer
changelog-producer.row-deduplicate changelog-producer.row-deduplicate-ignore-fields
changelog.num-retained.max changelog.num-retained.min changelog.time-retained
clustering.columns clustering.history-partition.idle-to-full-sort
clustering.history-partition.limit clustering.incremental clustering.incremental.mode
clustering.incremental.optimize-write clustering.strategy commit.callbacks
commit.discard-duplicate-files commit.force-compact commit.force-create-snapshot
commit.max-retries commit.max-retry-wait commit.min-retry-wait
commit.strict-mode.last-safe-snapshot commit.timeout commit.user-prefix
compaction.delete-ratio-threshold compaction.file-num-limit
compaction.force-rewrite-all-files compaction.force-up-level-0
compaction.incremental-size-threshold compaction.max-size-amplification-percent
compaction.min.file-num compaction.offpeak-ratio compaction.offpeak.end.hour
compaction.offpeak.start.hour compaction.optimization-interval compaction.size-ratio
compaction.total-size-threshold consumer-id consumer.changelog-only consumer.expiration-time
consumer.ignore-progress consumer.mode continuous.discovery-interval
cross-partition-upsert.bootstrap-parallelism cross-partition-upsert.index-ttl
data-evolution.enabled data-file.external-paths data-file.external-paths.specific-fs
data-file.external-paths.strategy data-file.external-paths.weights data-file.path-directory
data-file.prefix data-file.thin-mode delete.force-produce-changelog
deletion-vector.index-file.target-size deletion-vectors.bitmap64 deletion-vectors.enabled
deletion-vectors.modifiable disable-explicit-type-casting
dynamic-bucket.assigner-parallelism dynamic-bucket.initial-buckets
dynamic-bucket.max-buckets dynamic-bucket.target-row-num dynamic-partition-overwrite
end-input.check-partition-expire file-index.in-manifest-threshold file-index.read.enabled
file-operation.thread-num file-reader-async-threshold file.block-size file.compression
file.compression.per.level file.compression.zstd-level file.format file.format.per.level
file.suffix.include.compression force-lookup format-table.commit-hive-sync-url
format-table.file.compression format-table.implementation
format-table.partition-path-only-value full-compaction.delta-commits
global-index.build.max-parallelism global-index.build.max-shard
global-index.column-update-action global-index.enabled global-index.external-path
global-index.row-count-per-shard global-index.thread-num ignore-delete ignore-update-before
incremental-between incremental-between-scan-mode incremental-between-tag-to-snapshot
incremental-between-timestamp incremental-to-auto-tag index-file-in-data-file-dir
key-value.sequence_number.enabled local-merge-buffer-size local-sort.max-num-file-handles
lookup-compact lookup-compact.max-interval lookup-wait lookup.cache-file-retention
lookup.cache-max-disk-size lookup.cache-max-memory-size lookup.cache-spill-compression
lookup.cache.bloom.filter.enabled lookup.cache.bloom.filter.fpp
lookup.cache.high-priority-pool-ratio lookup.hash-load-factor lookup.merge-buffer-size
lookup.merge-records-threshold lookup.remote-file.enabled lookup.remote-file.level-threshold
manifest.compression manifest.delete-file-drop-stats manifest.format
manifest.full-compaction-threshold-size manifest.merge-min-count manifest.target-file-size
materialized-table.definition-query materialized-table.interval-freshness
materialized-table.interval-freshness.time-unit materialized-table.logical-refresh-mode
materialized-table.refresh-handler-bytes materialized-table.refresh-handler-description
materialized-table.refresh-mode materialized-table.refresh-status merge-engine
metadata.stats-dense-store metadata.stats-keep-first-n-columns metadata.stats-mode
metadata.stats-mode.per.level metastore.partitioned-table metastore.tag-to-partition
metastore.tag-to-partition.preview num-levels num-sorted-run.compaction-trigger
num-sorted-run.stop-trigger overwrite-upgrade page-size parquet.enable.dictionary
partial-update.remove-record-on-delete partial-update.remove-record-on-sequence-group
partition partition.default-name partition.end-input-to-done partition.expiration-batch-size
partition.expiration-check-interval partition.expiration-max-num
partition.expiration-strategy partition.expiration-time
partition.idle-time-to-report-statistic partition.legacy-name partition.mark-done-action
partition.mark-done-action.custom.class partition.mark-done-action.http.params
partition.mark-done-action.http.url partition.sink-strategy
partition.timestamp-format.strict partition.timestamp-formatter partition.timestamp-pattern
path pk-clustering-override postpone.batch-write-fixed-bucket
postpone.batch-write-fixed-bucket.max-parallelism postpone.default-bucket-num primary-key
query-auth.enabled read.batch-size record-level.expire-time record-level.time-field
row-tracking.enabled rowkind.field scan.bounded.watermark scan.creation-time-millis
scan.fallback-branch scan.fallback-delta-branch scan.fallback-snapshot-branch
scan.file-creation-time-millis scan.ignore-corrupt-files scan.ignore-lost-files
scan.manifest.parallelism scan.max-splits-per-task scan.mode scan.plan-sort-partition
scan.primary-branch scan.snapshot-id scan.tag-name scan.timestamp scan.timestamp-millis
scan.version scan.watermark sequence.field sequence.field.sort-order sink.process-time-zone
sink.watermark-time-zone snapshot.clean-empty-directories snapshot.expire.execution-mode
snapshot.expire.limit snapshot.ignore-empty-commit snapshot.num-retained.max
snapshot.num-retained.min snapshot.time-retained snapshot.watermark-idle-timeout
sort-compaction.local-sample.magnification sort-compaction.range-strategy sort-engine
sort-spill-buffer-size sort-spill-threshold source.split.open-file-cost
source.split.target-size spill-compression spill-compression.zstd-level stream-scan-mode
streaming-read-append-overwrite streaming-read-overwrite streaming.read.snapshot.delay
table-read.sequence-number.enabled tag.automatic-completion tag.automatic-creation
tag.batch.customized-name tag.callbacks tag.create-success-file tag.creation-delay
tag.creation-period tag.creation-period-duration tag.default-time-retained
tag.num-retained-max tag.period-formatter tag.time-expire-enabled target-file-size type
upsert-key variant.inferShreddingSchema variant.shredding.maxInferBufferRow
variant.shredding.maxSchemaDepth variant.shredding.maxSchemaWidth
variant.shredding.minFieldCardinalityRatio variant.shreddingSchema vector-field
vector.file.format vector.target-file-size visibility-callback.check-interval
visibility-callback.enabled visibility-callback.timeout write-buffer-for-append
write-buffer-size write-buffer-spill.max-disk-size write-buffer-spillable
write-max-writers-to-spill write-only write.batch-memory write.batch-size
zorder.var-length-contribution
"""

_OLDER = """
blob.stored-descriptor-fields changelog-producer.lookup-wait changelog.precommit-compact
deduplicate.ignore-delete delete-file.thread-num first-row.ignore-delete log.scan
log.scan.remove-normalize log.scan.timestamp-millis lookup.dynamic-partition
orc.write.batch-size parquet.variant.shreddingSchema partial-update.ignore-delete
sink.clustering.by-columns sink.clustering.strategy snapshot.expire.clean-empty-directories
streaming-read.shuffle-bucket-with-partition write.compaction-skip
"""

_ENGINES = """
changelog-producer.compaction-interval changelog.precommit-compact.buffer-size
changelog.precommit-compact.thread-num commit.custom-listeners end-input.watermark
filesystem.job-level-settings.enabled lookup.async lookup.async-thread-number
lookup.bootstrap-parallelism lookup.cache lookup.cache-rows
lookup.continuous.discovery-interval lookup.dynamic-partition.refresh-interval
lookup.dynamic-partition.refresh.async lookup.refresh.async
lookup.refresh.async.pending-snapshot-count lookup.refresh.full-load-threshold
lookup.refresh.time-periods-blacklist owner partition.idle-time-to-done
partition.mark-done-action.mode partition.mark-done.recover-from-state
partition.time-interval precommit-compact read.allow.fullScan read.changelog
read.shuffle-bucket-with-partition read.stream.maxBytesPerTrigger
read.stream.maxFilesPerTrigger read.stream.maxRowsPerTrigger read.stream.maxTriggerDelayMs
read.stream.minRowsPerTrigger requiredSparkConfsCheck.enabled scan.bounded
scan.dedicated-split-generation scan.infer-parallelism scan.infer-parallelism.max
scan.max-snapshot.count scan.parallelism scan.partitions scan.remove-normalize
scan.split-enumerator.batch-size scan.split-enumerator.mode scan.watermark.alignment.group
scan.watermark.alignment.max-drift scan.watermark.alignment.update-interval
scan.watermark.emit.strategy scan.watermark.idle-timeout sink.clustering.sample-factor
sink.clustering.sort-in-cluster sink.committer-cpu sink.committer-memory
sink.committer-operator-chaining sink.cross-partition.managed-memory
sink.managed.writer-buffer-memory sink.operator-uid.suffix sink.parallelism
sink.savepoint.auto-tag sink.use-managed-memory-allocator
sink.writer-coordinator.cache-memory sink.writer-coordinator.enabled
sink.writer-coordinator.page-size sink.writer-cpu sink.writer-memory
sink.writer-refresh-detectors source.checkpoint-align.enabled
source.checkpoint-align.timeout source.operator-uid.suffix
source.split.target-size-with-column-pruning unaware-bucket.compaction.parallelism
write.merge-schema write.merge-schema.explicit-cast write.use-v2-write
"""

PREFIXES = (
    "fields.",  # of a column: fields.<column>.aggregate-function
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

CORE_KEYS = frozenset(_CORE.split())
"""Options of Paimon's core."""

PAIMON_KEYS = CORE_KEYS | frozenset(_OLDER.split()) | frozenset(_ENGINES.split())
"""Those, their former names, and what Flink, Spark and the catalogs keep beside them."""
