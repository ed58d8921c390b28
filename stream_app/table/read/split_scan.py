"""Plans the read of a snapshot as splits.

1. Skip manifests, partitions and buckets without a matching row (`scan_pruning`).
2. Skip files without a matching key, because they have no version of a matching row.
3. Skip sections in which no file has a matching row, unless the merge engine computes rows that no
   file has. Values never exclude a single file of a section, because an older version would
   reappear.
4. Pack the rest into splits (`planning.read.split_generator`).

Planning opens no data file.

Source: Paimon `table/source/snapshot/SnapshotReaderImpl.java`,
`operation/KeyValueFileStoreScan.java`, `operation/AppendOnlyFileStoreScan.java`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from stream_app.filestore.data.file_stats import FileStats
from stream_app.filestore.data.stats_filter import StatsFilter
from stream_app.format.column_stats import ColumnStats
from stream_app.mergetree.interval_partition import Section, partition_into_sections
from stream_app.model.bucket_id import POSTPONED, BucketId
from stream_app.model.files.data_file_meta import DataFileMeta
from stream_app.model.files.data_split import DataSplit, SplitGroup
from stream_app.model.files.index_file_meta import IndexManifestEntry
from stream_app.model.files.joined_files import JoinedFiles, group_joined_files
from stream_app.model.files.manifest_entry import files_of_buckets
from stream_app.model.options.scan_options import (
    SOURCE_SPLIT_OPEN_FILE_COST,
    SOURCE_SPLIT_TARGET_SIZE,
)
from stream_app.model.snapshot import Snapshot
from stream_app.model.traits.merge_engine import traits_of
from stream_app.planning.read.split_generator import (
    SplitRules,
    append_groups,
    joined_groups,
    merge_tree_groups,
    section_files,
)
from stream_app.table.conditions.index_pruning import ColumnAndKind, index_pruning
from stream_app.table.conditions.row_filter import RowFilter
from stream_app.table.conditions.scan_pruning import scan_pruning
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.versions.file_store_scan import FileStoreScan
from stream_app.table.versions.read_refusals import warn_of_unknown_parts


@dataclass(frozen=True, slots=True)
class SplitScan:
    """A planner of one table's reads.

    Attributes:
        row_filter: the condition that a row must fulfil; None: all rows.
        level_min: the lowest level to read. None: the default of a batch read, which ignores
            level 0 if readers need no merge above it.
    """

    table: FileStoreTable
    row_filter: RowFilter | None = None
    level_min: int | None = None
    _unknown_indexes: set[ColumnAndKind] = field(
        init=False, default_factory=set, repr=False, compare=False
    )

    def splits(self, snapshot: Snapshot | None) -> list[DataSplit]:
        """Return the splits of a snapshot, bucket by bucket; empty without a snapshot.

        Raises:
            CorruptFileError: a manifest is missing or cannot be read.
        """
        pruning = scan_pruning(self.row_filter, self.table)
        live_entries = FileStoreScan(self.table).live(snapshot, pruning=pruning)
        level_min = self.level_min
        if level_min is None:
            level_min = int(self.table.skips_level0)
        live_entries = [
            entry
            for entry in live_entries
            if entry.file.level >= level_min and entry.bucket != POSTPONED
        ]
        if snapshot is None or not live_entries:
            return []
        warn_of_unknown_parts(self.table, "fields of its snapshots", snapshot.unknown_fields)
        unknown_fields = {name for entry in live_entries for name in entry.file.unknown_fields}
        warn_of_unknown_parts(self.table, "fields of its manifests", sorted(unknown_fields))
        vector_entries = self._vector_entries(snapshot)
        splits = []
        for bucket_id, files in files_of_buckets(live_entries).items():
            bucket_entries = vector_entries.get(bucket_id, [])
            for group in self.groups(files):
                splits.append(self._split(snapshot, bucket_id, group, bucket_entries))
        return splits

    def groups(self, files: Sequence[DataFileMeta]) -> list[SplitGroup]:
        """Return groups of a bucket's files that are read together; steps 2 to 4."""
        options = self.table.options
        file_stats = self._file_stats()
        rules = SplitRules(
            target_size=options[SOURCE_SPLIT_TARGET_SIZE],
            open_file_cost=options[SOURCE_SPLIT_OPEN_FILE_COST],
        )
        if self.table.schema.joins_files:
            joined_files = group_joined_files(files)
            return joined_groups(self._matching_joined_files(joined_files, file_stats), rules)
        if not self.table.kind_traits.merges_by_key:
            return append_groups(self._matching_files(files, file_stats), rules)
        files_with_key = self._matching_by_stats(files, file_stats.of_key_columns)
        sections = partition_into_sections(files_with_key, self.table.key_of)
        return merge_tree_groups(self._matching_sections(sections, file_stats), rules)

    def _split(
        self,
        snapshot: Snapshot,
        bucket_id: BucketId,
        group: SplitGroup,
        vector_entries: Sequence[IndexManifestEntry],
    ) -> DataSplit:
        """Return a group of files as a split, with the index files of their deletion vectors."""
        names = {file.file_name for file in group.files}
        return DataSplit(
            snapshot_id=snapshot.snapshot_id,
            schema_id=self.table.schema.schema_id,
            partition=bucket_id.partition,
            bucket=bucket_id.bucket,
            files=group.files,
            is_raw=group.is_raw,
            index_entries=tuple(
                entry for entry in vector_entries if names & set(entry.index_file.data_file_names)
            ),
        )

    def _file_stats(self) -> FileStats:
        schema = self.table.schema
        columns = () if self.row_filter is None else self.row_filter.columns
        return FileStats(schema.fields.project(columns), self.table.known_schemas())

    def _matching_by_stats(
        self,
        files: Sequence[DataFileMeta],
        stats_of: Callable[[DataFileMeta], Mapping[str, ColumnStats]],
    ) -> list[DataFileMeta]:
        if self.row_filter is None:
            return list(files)
        columns = self.table.schema.fields.project(self.row_filter.columns)
        condition = StatsFilter(self.row_filter.expression, columns)
        matches = condition.may_match((file.row_count, stats_of(file)) for file in files)
        return [file for file, passes in zip(files, matches, strict=True) if passes]

    def _matching_files(
        self, files: Sequence[DataFileMeta], file_stats: FileStats
    ) -> list[DataFileMeta]:
        """Return the files in which a row may match, by statistics and indexes."""
        matching_files = self._matching_by_stats(files, file_stats.of_all_columns)
        indexes = index_pruning(self.table, self.row_filter, self._unknown_indexes)
        if indexes is None:
            return matching_files
        return [file for file in matching_files if indexes.may_hold(file)]

    def _matching_joined_files(
        self, joined_files: Sequence[JoinedFiles], file_stats: FileStats
    ) -> list[JoinedFiles]:
        """Return the groups in which a row may match; only groups of one file can be excluded."""
        single_files = [group.files[0] for group in joined_files if len(group.files) == 1]
        matching_names = {file.file_name for file in self._matching_files(single_files, file_stats)}
        return [
            group
            for group in joined_files
            if len(group.files) > 1 or group.files[0].file_name in matching_names
        ]

    def _matching_sections(
        self, sections: Sequence[Section], file_stats: FileStats
    ) -> Sequence[Section]:
        if self.row_filter is None:
            return sections
        may_prune = traits_of(self.table.options.merge_engine).may_prune_by_value
        files = [file for section in sections for file in section_files(section)]
        matching_names = {file.file_name for file in self._matching_files(files, file_stats)}
        return [
            section
            for section in sections
            if (len(section) > 1 and not may_prune)
            or any(file.file_name in matching_names for file in section_files(section))
        ]

    def _vector_entries(self, snapshot: Snapshot) -> dict[BucketId, list[IndexManifestEntry]]:
        entries_by_bucket: dict[BucketId, list[IndexManifestEntry]] = {}
        if not self.table.kind_traits.merges_by_key or self.table.merges_by_vectors:
            for entry in self.table.manifests.read_index_manifest(snapshot.index_manifest):
                if entry.holds_deletion_vectors:
                    entries_by_bucket.setdefault(entry.bucket_id, []).append(entry)
        return entries_by_bucket
