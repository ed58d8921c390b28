"""Finds small files of a table without keys and buckets, and plans which of them are joined.

`planner_runner` runs it in a thread, because a table may have a million files, and reading their
manifests must not delay the job. The first round reads the latest snapshot manifest by manifest.
Later rounds read the delta of each following snapshot.

Source: Paimon `append/AppendCompactCoordinator.java#FilesIterator`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

from stream_app.filestore.manifests.manifest_files import ManifestFiles
from stream_app.model.bucket_id import BucketId
from stream_app.model.files.compact_request import CompactRequest
from stream_app.model.files.data_file_meta import DataFileMeta
from stream_app.model.files.manifest_entry import FileKind, ManifestEntry
from stream_app.model.options.compaction_options import (
    COMPACTION_DELETE_RATIO_THRESHOLD,
    COMPACTION_FILE_NUM_LIMIT,
    COMPACTION_MIN_FILE_NUM,
)
from stream_app.model.options.scan_options import SOURCE_SPLIT_OPEN_FILE_COST
from stream_app.model.schema.table_schema import TableSchema
from stream_app.model.snapshot import CommitKind, Snapshot
from stream_app.planning.compact.append_compaction import (
    PackRules,
    SubCoordinator,
    Task,
    plan_round,
)
from stream_app.table.compact.append.append_task import SMALL_FILES, append_request
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.versions.compact_refusals import CompactableFileCheck, compactable_entries
from stream_app.table.versions.file_store_scan import FileStoreScan

Deletions = dict[str, tuple[str, int | None]]
"""Data file → the index file with its deletion vector, and the number of deleted rows."""


@dataclass(frozen=True, slots=True)
class AppendPlan:
    """The outcome of a round.

    Attributes:
        has_more: whether the round left files unread.
        seen_id: the number of the latest snapshot whose deletions the planner knows completely.
    """

    tasks: tuple[Task, ...] = ()
    has_more: bool = False
    seen_id: int = 0


@dataclass(slots=True)
class _Round:
    """The files of a round by partition: small files, and the names of deleted files."""

    small_files: dict[bytes, list[DataFileMeta]]
    deleted_names: dict[bytes, set[str]] = field(default_factory=dict)
    _small_count: int = field(init=False, default=0)

    def add_entry(self, entry: ManifestEntry, is_small: bool) -> int:
        """Apply one manifest entry, and return the round's number of small files."""
        if entry.kind is FileKind.DELETE:
            self.deleted_names.setdefault(entry.partition, set()).add(entry.file.file_name)
        elif is_small:
            self.small_files.setdefault(entry.partition, []).append(entry.file)
            self._small_count += 1
        return self._small_count

    def forget(self) -> None:
        """Start the round again."""
        self.small_files.clear()
        self.deleted_names.clear()
        self._small_count = 0


def pack_rules(schema: TableSchema) -> PackRules:
    """Return the packing rules from the table's options."""
    return PackRules(
        target_file_size=schema.target_file_size,
        open_file_cost=schema.core_options[SOURCE_SPLIT_OPEN_FILE_COST],
        min_file_num=schema.core_options[COMPACTION_MIN_FILE_NUM],
    )


@dataclass(slots=True)
class AppendCompactPlanner:
    """A planner of rounds, which remembers its position in the snapshots. Not thread safe."""

    table: FileStoreTable
    _last_id: int | None = field(init=False, default=None)
    _next_id: int | None = field(init=False, default=None)
    _entries: Iterator[ManifestEntry] | None = field(init=False, default=None)
    _sub_coordinators: dict[bytes, SubCoordinator] = field(init=False, default_factory=dict)
    _deletions: Deletions = field(init=False, default_factory=dict)
    _index_manifest: str | None = field(init=False, default=None)
    _compactable_check: CompactableFileCheck = field(init=False)

    def __post_init__(self) -> None:
        self._compactable_check = CompactableFileCheck(self.table)

    def plan(
        self,
        *,
        excluded_names: Collection[str] = (),
        failed_tasks: Sequence[Task] = (),
        starts_anew: bool = False,
        last_id: int | None = None,
    ) -> AppendPlan:
        """Plan one round over at most ``compaction.file-num-limit`` small files.

        Args:
            excluded_names: names of files that a task is compacting, or that cannot be compacted.
            failed_tasks: the tasks that failed, which are planned once more.
            starts_anew: whether to forget all files and read the latest snapshot.
            last_id: the number of the last snapshot to read; None removes the limit.

        Raises:
            FileNotFoundError: a snapshot to be read has expired.
            CorruptFileError: a manifest cannot be read, maybe because it has expired.
            UnsupportedTableError: a file cannot be compacted.
        """
        self._last_id = last_id
        if starts_anew:
            self._next_id, self._entries, self._sub_coordinators = None, None, {}
        planner_round = _Round(self._still_live(failed_tasks))
        has_more = self._collect(planner_round, excluded_names)
        small_files = planner_round.small_files
        for partition, names in planner_round.deleted_names.items():
            small_files[partition] = [
                file for file in small_files.get(partition, ()) if file.file_name not in names
            ]
            if (sub_coordinator := self._sub_coordinators.get(partition)) is not None:
                self._sub_coordinators[partition] = sub_coordinator.without_files(names)
        index_file_names = _index_file_names(self.table.schema, self._deletions)
        tasks, self._sub_coordinators = plan_round(
            self._sub_coordinators, small_files, pack_rules(self.table.schema), index_file_names
        )
        # While a snapshot is partly read, some of its deletions are unknown.
        seen_id = (self._next_id or 1) - (1 if self._entries is None else 2)
        return AppendPlan(tuple(tasks), has_more=has_more, seen_id=seen_id)

    def _still_live(self, failed_tasks: Sequence[Task]) -> dict[bytes, list[DataFileMeta]]:
        """Return the failed tasks, reduced to files that are still live.

        While a task waited, a round may have read the snapshot that deletes its files. No later
        round reads that snapshot again.
        """
        latest_snapshot = self.table.snapshots.latest() if failed_tasks else None
        if latest_snapshot is None:
            return {}
        partitions = {partition for partition, _ in failed_tasks}
        live_entries = FileStoreScan(self.table).live_in(latest_snapshot, partitions)
        live_names = {entry.file.file_name for entry in live_entries}
        small_files: dict[bytes, list[DataFileMeta]] = {}
        for partition, files in failed_tasks:
            live_files = [file for file in files if file.file_name in live_names]
            small_files.setdefault(partition, []).extend(live_files)
        return small_files

    def _collect(self, planner_round: _Round, excluded_names: Collection[str]) -> bool:
        """Collect small files that are new to the planner, and return whether more may follow."""
        files_max = self.table.options[COMPACTION_FILE_NUM_LIMIT]
        while True:
            if self._entries is None:
                self._entries = self._next_entries(planner_round)
            if self._entries is None:
                return False
            for entry in self._entries:
                is_small = entry.kind is FileKind.ADD and self._is_small(entry.file, excluded_names)
                if planner_round.add_entry(entry, is_small) == files_max:
                    return True
            self._entries = None

    def _is_small(self, file: DataFileMeta, excluded_names: Collection[str]) -> bool:
        if file.schema_id <= self.table.schema.schema_id:
            self._compactable_check.check(file)
        return file.file_name not in excluded_names and is_candidate(
            self.table.schema, file, self._deletions
        )

    def _next_entries(self, planner_round: _Round) -> Iterator[ManifestEntry] | None:
        """Return the entries of the next snapshot; None if there is no further snapshot."""
        snapshots = self.table.snapshots
        scan = FileStoreScan(self.table)
        if self._next_id is None:
            latest_snapshot = snapshots.latest()
            if latest_snapshot is None:
                return None
            self._next_id = latest_snapshot.snapshot_id + 1
            self._index_manifest = latest_snapshot.index_manifest
            self._deletions = deletions_of(self.table.manifests, latest_snapshot)
            return scan.iterate_live(latest_snapshot)
        if self._last_id is not None and self._next_id > self._last_id:
            return None
        if not snapshots.exists(self._next_id) and (snapshots.latest_id() or 0) < self._next_id:
            return None
        snapshot = snapshots.snapshot(self._next_id)
        if snapshot.index_manifest != self._index_manifest:
            self._index_manifest = snapshot.index_manifest
            self._deletions = deletions_of(self.table.manifests, snapshot)
            if snapshot.commit_kind is not CommitKind.COMPACT:
                # Rows were deleted from files of earlier rounds, so the search starts again. The
                # round forgets its files, because a fresh read reports no deletions, and finds the
                # live ones again.
                self._next_id, self._sub_coordinators = None, {}
                planner_round.forget()
                return self._next_entries(planner_round)
        self._next_id += 1
        return iter(scan.delta(snapshot))


def deletions_of(manifests: ManifestFiles, snapshot: Snapshot) -> Deletions:
    """Return each data file's deletion vector as index file and cardinality, without reading it."""
    return {
        meta.data_file_name: (entry.index_file.file_name, meta.cardinality)
        for entry in manifests.read_index_manifest(snapshot.index_manifest)
        for meta in entry.index_file.deletion_vectors or ()
    }


def is_candidate(schema: TableSchema, file: DataFileMeta, deletions: Deletions) -> bool:
    """Return whether to rewrite a file, because it is small or too many of its rows are deleted."""
    if file.schema_id > schema.schema_id:
        return False  # this process does not know the newer schema and would drop its columns
    if file.file_size < schema.compaction_file_size:
        return True
    if file.file_name not in deletions:
        return False
    deleted_count = deletions[file.file_name][1]
    deleted_share_max = schema.core_options[COMPACTION_DELETE_RATIO_THRESHOLD]
    return deleted_count is None or deleted_count > file.row_count * deleted_share_max


def _index_file_names(schema: TableSchema, deletions: Deletions) -> dict[str, str] | None:
    if not schema.core_options.merges_by_vectors:
        return None
    return {name: index_file_name for name, (index_file_name, _) in deletions.items()}


def small_file_requests(
    table: FileStoreTable,
    snapshot: Snapshot | None,
    buckets: Collection[BucketId] | None = None,
    *,
    is_full: bool = False,  # noqa: ARG001 - there are no levels to fill
) -> list[CompactRequest]:
    """Plan one round over all small files of a snapshot; see `CompactionPlanner`.

    Raises:
        UnsupportedTableError: a file cannot be compacted.
    """
    if snapshot is None:
        return []
    deletions = deletions_of(table.manifests, snapshot)
    small_files: dict[bytes, list[DataFileMeta]] = {}
    for entry in compactable_entries(table, snapshot, buckets):
        if is_candidate(table.schema, entry.file, deletions):
            small_files.setdefault(entry.partition, []).append(entry.file)
    tasks, _ = plan_round(
        {}, small_files, pack_rules(table.schema), _index_file_names(table.schema, deletions)
    )
    return [append_request(partition, 0, files, SMALL_FILES) for partition, files in tasks]
