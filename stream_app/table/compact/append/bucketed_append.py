"""Compacts bucketed tables without keys by joining neighbouring files of a bucket.

Writes never wait for these compactions, because more files make reads slower, not wrong.

Source: Paimon `append/BucketedAppendCompactManager.java`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from stream_app.mergetree.compact.compact_manager import CompactManager
from stream_app.mergetree.levels import Levels
from stream_app.model.bucket_id import BucketId
from stream_app.model.files.bucket_change import BucketChange
from stream_app.model.files.compact_request import CompactRequest, CompactUnit
from stream_app.model.files.data_file_meta import DataFileMeta
from stream_app.model.files.manifest_entry import files_of_buckets
from stream_app.model.options.compaction_options import (
    COMPACTION_FORCE_REWRITE_ALL_FILES,
    COMPACTION_MIN_FILE_NUM,
    WRITE_ONLY,
)
from stream_app.model.schema.table_schema import TableSchema
from stream_app.model.snapshot import Snapshot
from stream_app.planning.compact.append_compaction import (
    Files,
    files_in_row_order,
    pick_compact_before,
    pick_full_rewrite,
)
from stream_app.table.compact.append.append_task import SMALL_FILES, append_request
from stream_app.table.compact.buckets.idle_buckets import LiveBucket
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.versions.compact_refusals import compactable_entries


@dataclass(slots=True)
class NeighbourPicker:
    """A picker of neighbours among the files of a bucket without keys. Implements `Picker`.

    Attributes:
        queue: files that a compaction may still pick, in the order of their rows.
    """

    schema: TableSchema
    queue: Files

    @property
    def rewrites_all(self) -> bool:
        """The option ``compaction.force-rewrite-all-files``."""
        return self.schema.core_options[COMPACTION_FORCE_REWRITE_ALL_FILES]

    def take_neighbours(self, *, is_full: bool) -> Files:
        """Take the next neighbours from the queue; empty if no compaction is worthwhile.

        Args:
            is_full: whether to take all files after the large ones at the bucket's beginning.
        """
        if is_full:
            neighbours = pick_full_rewrite(
                self.queue,
                compaction_file_size=self.schema.compaction_file_size,
                rewrites_all=self.rewrites_all,
            )
            self.queue = () if neighbours else self.queue
            return neighbours
        # Files that can never be joined leave the queue as well.
        neighbours, self.queue = pick_compact_before(
            self.queue,
            target_file_size=self.schema.target_file_size,
            min_file_num=self.schema.core_options[COMPACTION_MIN_FILE_NUM],
        )
        return neighbours

    def pick_unit(
        self,
        levels: Levels,  # noqa: ARG002 - the queue has the files that may still be joined
        *,
        local_time_ms: int,  # noqa: ARG002
        is_full: bool,
        expects_no_flush: bool,  # noqa: ARG002 - none of its rows wait
    ) -> CompactUnit | None:
        """Take the next neighbours off the queue, as a unit of level 0."""
        neighbours = self.take_neighbours(is_full=is_full)
        reason = "full compaction" if is_full else f"{len(neighbours)} neighbours"
        return CompactUnit(0, neighbours, reason) if neighbours else None

    def note_new_file(self, file: DataFileMeta, /) -> None:
        """Put the file into the queue, in the order of its rows."""
        self.queue = files_in_row_order((*self.queue, file))

    def note_applied_unit(
        self, _levels: Levels, _unit: CompactUnit, change: BucketChange, /
    ) -> None:
        """Put the last new file back into the queue if it is small."""
        for last_file in change.added_files[-1:]:
            if last_file.file_size < self.schema.compaction_file_size:
                self.note_new_file(last_file)

    def note_failed_unit(self, unit: CompactUnit, /) -> None:
        """Put the unit's files back into the queue."""
        self.queue = files_in_row_order((*self.queue, *unit.files))

    def note_replaced_levels(
        self, _old_levels: Levels, new_levels: Levels, begun_unit: CompactUnit | None, /
    ) -> None:
        """Begin a new queue, of all files but those of the running unit."""
        names = {file.file_name for file in begun_unit.files} if begun_unit else set()
        self.queue = files_in_row_order(
            file for file in new_levels.all_files() if file.file_name not in names
        )


def bucketed_append_manager(
    table: FileStoreTable, bucket_id: BucketId, live_bucket: LiveBucket
) -> CompactManager:
    """Return the manager of a bucket of a table without a primary key."""
    partition, bucket = bucket_id
    # Files above level 0 were clustered by another engine, and stay.
    level0_files = [file for file in live_bucket.files if file.level == 0]
    picker = NeighbourPicker(table.schema, files_in_row_order(level0_files))
    return CompactManager(
        partition=partition,
        bucket=bucket,
        levels=Levels(level0_files, num_levels=1, key_of=table.key_of),
        picker=None if table.options[WRITE_ONLY] else picker,
        stop_trigger=None,
        total_buckets=live_bucket.total_buckets,
    )


def neighbour_requests(
    table: FileStoreTable,
    snapshot: Snapshot | None,
    buckets: Collection[BucketId] | None = None,
    *,
    is_full: bool = False,
) -> list[CompactRequest]:
    """Plan the joins of neighbours in each bucket of a snapshot; see `CompactionPlanner`.

    Args:
        is_full: whether to rewrite all files after the large ones at each bucket's beginning.

    Raises:
        UnsupportedTableError: a file cannot be compacted.
    """
    if snapshot is None:
        return []
    entries = compactable_entries(table, snapshot, buckets)
    return [
        append_request(*bucket_id, neighbours, "full" if is_full else SMALL_FILES)
        for bucket_id, files in files_of_buckets(entries).items()
        for neighbours in _neighbour_groups(
            NeighbourPicker(table.schema, files_in_row_order(files)), is_full=is_full
        )
    ]


def _neighbour_groups(picker: NeighbourPicker, *, is_full: bool) -> Iterator[Files]:
    while neighbours := picker.take_neighbours(is_full=is_full):
        yield neighbours
