"""Reads the changes between two versions of a table.

Scan modes delta and changelog read files as they are. A key that changed twice appears twice, and
with ``changelog-producer = none`` an update is only its new row. Scan mode diff merges both
versions and compares them (`diff_read`).

Source: Paimon `table/source/snapshot/IncrementalDeltaStartingScanner.java`,
`operation/MergeFileSplitRead.java#createNoMergeReader`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import pyarrow as pa

from stream_app.errors import UnsupportedTableError, UsageError
from stream_app.filestore.data.file_stats import FileStats
from stream_app.filestore.data.part_filter import ConditionPartFilter
from stream_app.filestore.data.stats_filter import StatsFilter
from stream_app.filestore.manifests.deletion_vector_files import BucketVectors
from stream_app.mergetree.key_value_batch import retract_kind_mask, rows_at
from stream_app.model.bucket_id import POSTPONED, BucketId
from stream_app.model.files.data_file_meta import DataFileMeta
from stream_app.model.files.manifest_entry import FileKind, ManifestEntry, files_of_buckets
from stream_app.model.schema.table_schema import VALUE_KIND
from stream_app.model.snapshot import CommitKind, Snapshot
from stream_app.table.conditions.row_filter import RowFilter
from stream_app.table.conditions.scan_pruning import ScanPruning, scan_pruning
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.read.diff_read import BucketVersion, DiffRead
from stream_app.table.read.incremental_range import ScanMode, SnapshotPair, SnapshotRange
from stream_app.table.read.interleaved_batches import BatchStream
from stream_app.table.read.selection import Selection
from stream_app.table.versions.deletion_vectors import deletion_vectors
from stream_app.table.versions.file_store_scan import FileStoreScan
from stream_app.table.versions.read_refusals import check_changes_readable, check_readable
from stream_app.table.versions.time_travel import numbered_snapshot


@dataclass(frozen=True, slots=True)
class IncrementalRead:
    """A read of the changes between two versions.

    Attributes:
        row_filter: a condition that also tests deletes and old rows of updates.
        shows_row_kinds: whether to show row kinds. Otherwise -U and -D rows, which could not be
            distinguished, are omitted.
        selection: gives each batch its requested rows and columns; see it for `columns`.
    """

    table: FileStoreTable
    columns: tuple[str, ...] | None = None
    row_filter: RowFilter | None = None
    shows_row_kinds: bool = False
    selection: Selection = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_changes_readable(self.table)
        selection = Selection(self.table, self.columns, self.row_filter, self.shows_row_kinds)
        object.__setattr__(self, "selection", selection)

    def streams(
        self, version_range: SnapshotRange | SnapshotPair | None, mode: ScanMode
    ) -> list[BatchStream]:
        """Return independent streams for `interleaved`, each of which reads one file or bucket.

        Raises:
            UsageError: the table lacks the changelog that the mode reads, or a snapshot has
                expired.
        """
        match version_range:
            case None:
                return []
            case SnapshotPair(start, end):
                return self._streams_of_differing_buckets(start, end)
            case SnapshotRange(start_id, end_id):
                reads_changelog = self._reads_changelog(mode)
                snapshots = map(
                    partial(numbered_snapshot, self.table), range(start_id + 1, end_id + 1)
                )
                return [
                    partial(self.file, entry.partition, entry.bucket, entry.file)
                    for snapshot in snapshots
                    for entry in self._entries(snapshot, reads_changelog=reads_changelog)
                ]

    def _reads_changelog(self, mode: ScanMode) -> bool:
        writes_changelog = self.table.options.writes_changelog
        if mode is ScanMode.CHANGELOG and not writes_changelog:
            raise UsageError(
                "scan mode changelog reads changelog files, but the table has none",
                where=f"{self.table.location}: changelog-producer = none",
                fix="use scan mode delta or diff",
            )
        return writes_changelog and mode is not ScanMode.DELTA

    def _entries(self, snapshot: Snapshot, *, reads_changelog: bool) -> list[ManifestEntry]:
        if reads_changelog:
            is_overwrite = snapshot.commit_kind is CommitKind.OVERWRITE
            return [] if is_overwrite else self.changelog_entries(snapshot)
        return self.added_entries(snapshot) if snapshot.commit_kind is CommitKind.APPEND else []

    def added_entries(self, snapshot: Snapshot) -> list[ManifestEntry]:
        """Return the files that a snapshot added, in the order in which they were written.

        Files without a matching row are omitted.
        """
        delta = FileStoreScan(self.table).delta(snapshot, self._pruning())
        return self._matching_entries([entry for entry in delta if entry.kind is FileKind.ADD])

    def changelog_entries(self, snapshot: Snapshot) -> list[ManifestEntry]:
        """Return the changelog files of a snapshot, filtered as `added_entries` does."""
        return self._matching_entries(
            FileStoreScan(self.table).changelog(snapshot, self._pruning())
        )

    def _pruning(self) -> ScanPruning | None:
        return scan_pruning(self.row_filter, self.table)

    def _matching_entries(self, entries: list[ManifestEntry]) -> list[ManifestEntry]:
        """Return the entries whose files may have a matching row.

        The read does not merge, so statistics of any column may exclude a file. Those of
        ``bucket-postpone`` are meaningless: Paimon records the first and the last key as bounds,
        although the rows are not sorted.
        """
        if (stats_filter := self._stats_filter()) is None:
            return entries
        stats = FileStats(stats_filter.columns, self.table.known_schemas())
        files = [entry.file for entry in entries]
        matches = stats_filter.may_match(
            (file.row_count, stats.of_all_columns(file)) for file in files
        )
        return [
            entry
            for entry, passes in zip(entries, matches, strict=True)
            if passes or entry.bucket == POSTPONED
        ]

    def _stats_filter(self) -> StatsFilter | None:
        if self.row_filter is None:
            return None
        columns = self.table.schema.fields.project(self.row_filter.columns)
        return StatsFilter(self.row_filter.expression, columns)

    def file(self, partition: bytes, bucket: int, file: DataFileMeta) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a data or changelog file unmerged, without empty batches.

        Raises:
            CorruptFileError: the file cannot be read.
        """
        stats_filter = self._stats_filter()
        names = frozenset(() if stats_filter is None else stats_filter.columns.names)
        bucket_files = self.table.bucket_files(
            partition,
            bucket,
            part_filter=None if stats_filter is None else ConditionPartFilter(stats_filter, names),
        )
        for batch in bucket_files.read(file):
            yield from self._choose(batch)

    def _streams_of_differing_buckets(
        self, start: Snapshot | None, end: Snapshot
    ) -> list[BatchStream]:
        """Return a stream of rows for each bucket whose files differ between two snapshots."""
        check_readable(self.table, merges_rows=True)
        if not self.table.kind_traits.merges_by_key:
            raise UnsupportedTableError(
                "rows without a primary key cannot be compared",
                where=self.table.location,
                fix="use scan mode delta",
            )
        level_min = int(self.table.skips_level0)
        pruning = self._pruning()
        start_entries, end_entries = (
            [
                entry
                for entry in FileStoreScan(self.table).live(snapshot, pruning=pruning)
                if entry.file.level >= level_min and entry.bucket != POSTPONED
            ]
            for snapshot in (start, end)
        )
        _check_bucket_counts(self.table, start_entries, end_entries)
        old_buckets = self._buckets(start, start_entries)
        new_buckets = self._buckets(end, end_entries)
        empty_bucket = BucketVersion()
        return [
            partial(
                self._bucket,
                bucket_id,
                old_buckets.get(bucket_id, empty_bucket),
                new_buckets.get(bucket_id, empty_bucket),
            )
            for bucket_id in dict.fromkeys([*new_buckets, *old_buckets])
        ]

    def _buckets(
        self, snapshot: Snapshot | None, live_entries: Sequence[ManifestEntry]
    ) -> dict[BucketId, BucketVersion]:
        vectors: Mapping[BucketId, BucketVectors] = {}
        if snapshot is not None and self.table.merges_by_vectors:
            vectors = deletion_vectors(self.table, snapshot)
        return {
            bucket_id: BucketVersion(files=files, vectors=vectors.get(bucket_id, {}))
            for bucket_id, files in files_of_buckets(live_entries).items()
        }

    def _bucket(
        self, bucket_id: BucketId, before: BucketVersion, after: BucketVersion
    ) -> Iterator[pa.RecordBatch]:
        for batch in DiffRead(self.table, keeps_deletes=self.shows_row_kinds).read(
            bucket_id, before, after
        ):
            yield from self._choose(batch)

    def _choose(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield the requested rows and columns of a batch, unless no row matches."""
        if VALUE_KIND in batch.schema.names and not self.shows_row_kinds:
            kinds = batch.column(VALUE_KIND).to_numpy()
            batch = (
                rows_at(batch, np.flatnonzero(~retract_kind_mask(kinds))) if kinds.any() else batch
            )
        matching_rows = self.selection.select(batch)
        if matching_rows.num_rows:
            yield matching_rows


def _check_bucket_counts(
    table: FileStoreTable, before: Sequence[ManifestEntry], after: Sequence[ManifestEntry]
) -> None:
    """Check that a key has the same bucket in both versions."""
    old_counts = {entry.partition: entry.total_buckets for entry in before}
    for entry in after:
        old_count = old_counts.get(entry.partition, entry.total_buckets)
        if old_count != entry.total_buckets:
            partition = table.paths.partition_path(entry.partition)
            raise UsageError(
                f"the number of buckets changes from {old_count} to {entry.total_buckets}"
                + (f" in partition {partition}" if partition else "")
                + ": the versions cannot be compared",
                where=table.location,
                fix="compare versions after the change, or use scan mode delta",
            )
