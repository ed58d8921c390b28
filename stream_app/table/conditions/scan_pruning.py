"""Skips manifests, partitions and buckets without a matching row.

`file_store_scan` calls it, and never opens a skipped manifest. The range of partitions decides
whether a manifest is skipped. The range of buckets cannot, because older files may have another
bucket count than the table.

Source: Paimon `operation/ManifestsReader.java`, `operation/AbstractFileStoreScan.java`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from stream_app.filestore.data.file_stats import simple_stats
from stream_app.filestore.data.stats_filter import RowStats, StatsFilter
from stream_app.format.binary_row import deserialize_row
from stream_app.format.column_stats import ColumnStats
from stream_app.model.files.manifest_entry import ManifestEntry, ManifestFileMeta
from stream_app.model.schema.data_type import RowType
from stream_app.table.conditions.row_filter import BucketPruning, RowFilter, key_types_predicate
from stream_app.table.file_store_table import FileStoreTable


@dataclass(frozen=True, slots=True)
class ScanPruning:
    """The part of a condition that concerns partitions and buckets.

    Attributes:
        stats_filter: the condition on partitions; None if it uses no partition column.
        has_current_key_types: returns whether a schema gives bucket keys their current types.
            Otherwise a file of the schema may have a key in any bucket.
    """

    stats_filter: StatsFilter | None
    partition_type: RowType
    bucket_pruning: BucketPruning | None
    has_current_key_types: Callable[[int], bool]
    _partition_matches: dict[bytes, bool] = field(init=False, default_factory=dict)

    def manifests(self, metas: Sequence[ManifestFileMeta]) -> list[ManifestFileMeta]:
        """Return the manifests that may have a partition with a matching row."""
        if self.stats_filter is None:
            return list(metas)
        matches = self.stats_filter.may_match(map(self._stats_of, metas))
        return [meta for meta, passes in zip(metas, matches, strict=True) if passes]

    def entries(self, entries: Iterable[ManifestEntry]) -> Iterator[ManifestEntry]:
        """Yield the entries of partitions and buckets that may have a matching row."""
        for entry in entries:
            if self._partition_may_match(entry.partition) and (
                self.bucket_pruning is None
                or self.bucket_pruning.may_hold(entry)
                or not self.has_current_key_types(entry.file.schema_id)
            ):
                yield entry

    def _stats_of(self, meta: ManifestFileMeta) -> RowStats:
        entry_count = meta.num_added_files + meta.num_deleted_files
        stats = simple_stats(meta.partition_stats, self.partition_type)
        return entry_count, dict(zip(self.partition_type.names, stats, strict=True))

    def _partition_may_match(self, partition: bytes) -> bool:
        if self.stats_filter is None:
            return True
        if partition not in self._partition_matches:
            values = deserialize_row(partition, self.partition_type.types)
            stats = {
                name: ColumnStats(value, value, int(value is None))
                for name, value in zip(self.partition_type.names, values, strict=True)
            }
            (self._partition_matches[partition],) = self.stats_filter.may_match([(1, stats)])
        return self._partition_matches[partition]


def scan_pruning(row_filter: RowFilter | None, table: FileStoreTable) -> ScanPruning | None:
    """Return the pruning of a condition; None if it excludes nothing."""
    if row_filter is None:
        return None
    schema = table.schema
    stats_filter = None
    if set(row_filter.columns) & set(schema.partition_keys):
        stats_filter = StatsFilter(row_filter.expression, schema.fields.project(row_filter.columns))
    if stats_filter is None and row_filter.bucket_pruning is None:
        return None
    has_current_key_types = key_types_predicate(schema, table.known_schemas())
    return ScanPruning(
        stats_filter, schema.partition_type, row_filter.bucket_pruning, has_current_key_types
    )
