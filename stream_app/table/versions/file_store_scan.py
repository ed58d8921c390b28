"""Finds the files that a snapshot of a table has, and those that it added.

Source: Paimon `operation/AbstractFileStoreScan.java`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from stream_app.format.binary_row import deserialize_row, key_order
from stream_app.model.bucket_id import BucketId
from stream_app.model.files.manifest_entry import FileKind, ManifestEntry, ManifestFileMeta
from stream_app.model.snapshot import Snapshot
from stream_app.planning.commit.live_entries import live_entries
from stream_app.table.conditions.scan_pruning import ScanPruning
from stream_app.table.file_store_table import FileStoreTable


@dataclass(frozen=True, slots=True)
class FileStoreScan:
    """A reader of one table's manifests."""

    table: FileStoreTable

    def manifests(self, snapshot: Snapshot) -> list[ManifestFileMeta]:
        """Return all manifests of a snapshot, oldest first."""
        return self.manifests_before(snapshot) + self._delta_manifests(snapshot)

    def live(
        self,
        snapshot: Snapshot | None,
        buckets: Collection[BucketId] | None = None,
        pruning: ScanPruning | None = None,
    ) -> list[ManifestEntry]:
        """Return a snapshot's live files, of all buckets or of some; empty without a snapshot.

        Args:
            pruning: skips partitions and buckets without a matching row.
        """
        if snapshot is None:
            return []
        wanted_buckets = None if buckets is None else set(buckets)
        return live_entries(self._entries(self.manifests(snapshot), wanted_buckets, pruning))

    def live_in(
        self, snapshot: Snapshot | None, partitions: Collection[bytes]
    ) -> list[ManifestEntry]:
        """Return the live files of all buckets of partitions; empty without a snapshot.

        Args:
            partitions: the serialized partitions.
        """
        if snapshot is None or not partitions:
            return []
        wanted_partitions = set(partitions)
        metas = [
            meta
            for meta in self.manifests(snapshot)
            if self.may_hold_partitions(meta, wanted_partitions)
        ]
        entries = (
            entry for entry in self._entries(metas, None) if entry.partition in wanted_partitions
        )
        return live_entries(entries)

    def iterate_live(self, snapshot: Snapshot) -> Iterator[ManifestEntry]:
        """Yield a snapshot's live files manifest by manifest, for tables with very many files."""
        metas = self.manifests(snapshot)
        deleted_ids = {
            entry.identity
            for entry in self._entries([meta for meta in metas if meta.num_deleted_files], None)
            if entry.kind is FileKind.DELETE
        }
        for entry in self._entries([meta for meta in metas if meta.num_added_files], None):
            if entry.kind is FileKind.ADD and entry.identity not in deleted_ids:
                yield entry

    def manifests_before(self, snapshot: Snapshot) -> list[ManifestFileMeta]:
        """Return the manifests of a snapshot's base, which may have expired."""
        read_list = self.table.manifests.read_list
        return read_list(snapshot.base_manifest_list, snapshot.base_manifest_list_size)

    def live_before(self, snapshot: Snapshot) -> list[ManifestEntry]:
        """Return the live files of a snapshot's base."""
        return live_entries(self._entries(self.manifests_before(snapshot), None))

    def delta(self, snapshot: Snapshot, pruning: ScanPruning | None = None) -> list[ManifestEntry]:
        """Return a snapshot's changes of data files."""
        return list(self._entries(self._delta_manifests(snapshot), None, pruning))

    def changelog(
        self, snapshot: Snapshot, pruning: ScanPruning | None = None
    ) -> list[ManifestEntry]:
        """Return a snapshot's changelog files."""
        if snapshot.changelog_manifest_list is None:
            return []
        metas = self.table.manifests.read_list(
            snapshot.changelog_manifest_list, snapshot.changelog_manifest_list_size
        )
        return list(self._entries(metas, None, pruning))

    def _delta_manifests(self, snapshot: Snapshot) -> list[ManifestFileMeta]:
        return self.table.manifests.read_list(
            snapshot.delta_manifest_list, snapshot.delta_manifest_list_size
        )

    def _entries(
        self,
        metas: list[ManifestFileMeta],
        wanted_buckets: set[BucketId] | None,
        pruning: ScanPruning | None = None,
    ) -> Iterator[ManifestEntry]:
        for meta in metas if pruning is None else pruning.manifests(metas):
            if wanted_buckets is not None and not self.may_hold(meta, wanted_buckets):
                continue
            entries = self.table.manifests.read_manifest(meta.file_name, meta.file_size)
            for entry in entries if pruning is None else pruning.entries(entries):
                if wanted_buckets is None or entry.bucket_id in wanted_buckets:
                    yield entry

    def may_hold(self, meta: ManifestFileMeta, wanted_buckets: set[BucketId]) -> bool:
        """Return whether a manifest may have entries of some of these buckets."""
        low_bucket, high_bucket = meta.min_bucket, meta.max_bucket
        if low_bucket is not None and high_bucket is not None:
            wanted_buckets = {
                bucket_id
                for bucket_id in wanted_buckets
                if low_bucket <= bucket_id.bucket <= high_bucket
            }
        return self.may_hold_partitions(meta, {partition for partition, _ in wanted_buckets})

    def may_hold_partitions(self, meta: ManifestFileMeta, partitions: set[bytes]) -> bool:
        """Return whether a manifest may have entries of any of these partitions."""
        types = tuple(
            data_type.as_nullable() for data_type in self.table.schema.partition_type.types
        )
        lows = deserialize_row(meta.partition_stats.min_values, types)
        highs = deserialize_row(meta.partition_stats.max_values, types)
        # A null bound is unknown, or the column has only nulls.
        bounds = enumerate(zip(lows, highs, strict=True))
        bounded_indices = [
            index for index, (low, high) in bounds if low is not None and high is not None
        ]
        if not bounded_indices:
            return bool(partitions)
        key_of = key_order(types)
        minimum = key_of(meta.partition_stats.min_values)
        maximum = key_of(meta.partition_stats.max_values)
        for partition in partitions:
            values = key_of(partition)
            if all(
                (minimum[index],) <= (values[index],) <= (maximum[index],)
                for index in bounded_indices
            ):
                return True
        # Bounds do not include nulls.
        return any(None in deserialize_row(partition, types) for partition in partitions)
