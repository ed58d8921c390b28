"""Compactions of bucketed tables without keys: neighbouring files of a bucket become one.

The manager decides for one bucket, the coordinator owns the managers of all buckets that a job
touches. They differ from those of keyed tables in what is picked, and in that writes never wait:
more files make reading slower, not wrong.

Source: Paimon `append/BucketedAppendCompactManager.java`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from stream_app.mergetree.compact.compact_executor import CompactExecutor, CompactRequest
from stream_app.mergetree.compact.compact_manager import CompactManager
from stream_app.mergetree.compact.compact_unit import CompactUnit
from stream_app.mergetree.levels import Levels
from stream_app.model.bucket_change import BucketChange
from stream_app.model.bucket_id import BucketId
from stream_app.model.data_file_meta import DataFileMeta
from stream_app.model.options.compaction_options import (
    COMPACTION_FORCE_REWRITE_ALL_FILES,
    COMPACTION_MIN_FILE_NUM,
    WRITE_ONLY,
)
from stream_app.model.snapshot import Snapshot
from stream_app.planning.compact.bucketed_append_compaction import (
    Files,
    in_sequence,
    pick_compact_before,
    pick_full,
)
from stream_app.table.compact.append_task import append_request
from stream_app.table.compact.coordinator import CompactCoordinator, files_by_bucket
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.versions.compact_refusals import compactable_entries


@dataclass(slots=True, kw_only=True)
class BucketedAppendCompactManager(CompactManager):
    """Queue and the one running compaction of a bucket; `policy` is not used.

    Attributes:
        target_file_size, compaction_file_size: bytes.
        min_file_num: neighbours that are worth a compaction.
        writes_only: the bucket is never compacted here.
        queue: files that a compaction may still pick.
    """

    target_file_size: int
    compaction_file_size: int
    min_file_num: int
    writes_only: bool
    queue: Files = ()

    def __post_init__(self) -> None:
        self.queue = in_sequence(self.levels.all_files())

    def add_new_file(self, file: DataFileMeta) -> None:
        """Take in a committed file."""
        CompactManager.add_new_file(self, file)
        self.queue = in_sequence((*self.queue, file))

    def pick(self, *, local_ms: int) -> CompactUnit | None:  # noqa: ARG002 - no rule of it
        """Neighbours that are worth a compaction; None when there are none."""
        return None if self.writes_only else self._pick()[0]

    def pick_full(self) -> CompactUnit | None:
        """Whatever lies behind the large files at the bucket's beginning."""
        picked = pick_full(
            self.queue,
            compaction_file_size=self.compaction_file_size,
            rewrite_all=self.rewrite_all,
        )
        return CompactUnit(0, picked, "full compaction") if picked else None

    def trigger_compaction(
        self, executor: CompactExecutor, *, local_ms: int, full: bool = False
    ) -> bool:
        """Begin the next compaction when one is due and none runs; True when one was begun."""
        if self._running is not None:
            return False
        if self.writes_only:
            return CompactManager.trigger_compaction(self, executor, local_ms=local_ms, full=full)
        unit, rest = (self.pick_full(), ()) if full else self._pick()
        if unit is None:
            # What can never be a neighbour again is left out.
            self.queue = self.queue if full else rest
            return False
        self.queue = rest
        self._unit = unit
        request = append_request(
            self.partition,
            self.bucket,
            unit.files,
            unit.reason,
            total_buckets=self.total_buckets,
        )
        self._running = executor.submit(request)
        return True

    def _pick(self) -> tuple[CompactUnit | None, Files]:
        picked, rest = pick_compact_before(
            self.queue,
            target_file_size=self.target_file_size,
            min_file_num=self.min_file_num,
        )
        unit = CompactUnit(0, picked, f"{len(picked)} neighbours") if picked else None
        return unit, rest

    def apply(self, change: BucketChange) -> None:
        """The committer has published `change`. A small last file may be picked again."""
        self._unit = None
        CompactManager.apply(self, change)
        last = change.added[-1:]
        if last and last[0].file_size < self.compaction_file_size:
            self.queue = in_sequence((*self.queue, *last))

    def forget_running(self) -> None:
        """The compaction failed or lost a conflict; its files may be picked again."""
        if self._unit is not None:
            self.queue = in_sequence((*self.queue, *self._unit.files))
        CompactManager.forget_running(self)

    def restore(self, levels: Levels) -> None:
        """Believe the table again, after another writer changed this bucket."""
        CompactManager.restore(self, levels)
        running = {file.file_name for file in self._unit.files} if self._unit else set()
        self.queue = in_sequence(
            file for file in self.levels.all_files() if file.file_name not in running
        )


class BucketedAppendCompactCoordinator(CompactCoordinator):
    """Managers of the touched buckets."""

    def sorted_runs(self) -> dict[BucketId, int]:
        """None: files without keys are no runs."""
        return {}

    def _read_managers(
        self, buckets: Collection[BucketId], snapshot: Snapshot | None
    ) -> Mapping[BucketId, CompactManager]:
        return bucketed_append_managers(self.table, snapshot, buckets)


def bucketed_append_managers(
    table: FileStoreTable, snapshot: Snapshot | None, buckets: Collection[BucketId] | None = None
) -> dict[BucketId, CompactManager]:
    """A manager for each bucket as it is in a snapshot; None: for those that have files."""
    schema, options = table.schema, table.options
    return {
        bucket: BucketedAppendCompactManager(
            partition=bucket[0],
            bucket=bucket[1],
            # Files above level 0 are those that another engine has clustered: they stay.
            levels=Levels(
                [file for file in files if file.level == 0], num_levels=1, key_of=table.key_of
            ),
            policy=None,
            stop_trigger=options.stop_trigger,
            total_buckets=total_buckets,
            rewrite_all=options[COMPACTION_FORCE_REWRITE_ALL_FILES],
            target_file_size=schema.target_file_size,
            compaction_file_size=schema.compaction_file_size,
            min_file_num=options[COMPACTION_MIN_FILE_NUM],
            writes_only=options[WRITE_ONLY],
        )
        for bucket, (total_buckets, files) in files_by_bucket(table, snapshot, buckets).items()
    }


def neighbour_requests(
    table: FileStoreTable,
    snapshot: Snapshot | None,
    partitions: Collection[bytes] | None = None,
    *,
    full: bool = False,
) -> list[CompactRequest]:
    """All windows of neighbours in each bucket of a snapshot; each request can run alone.

    Args:
        partitions: serialized ones; None: all.
        full: rewrite whatever lies behind the large files at each bucket's beginning.

    Raises:
        UnsupportedTableError: a file cannot be compacted.
    """
    if snapshot is None:
        return []
    live: dict[BucketId, list[DataFileMeta]] = {}
    for entry in compactable_entries(table, snapshot, partitions):
        live.setdefault((entry.partition, entry.bucket), []).append(entry.file)
    return [
        append_request(*bucket, picked, "full" if full else "small files")
        for bucket, files in live.items()
        for picked in _windows(table, files, full=full)
    ]


def _windows(
    table: FileStoreTable, files: Sequence[DataFileMeta], *, full: bool
) -> Iterator[Files]:
    schema, queue = table.schema, in_sequence(files)
    if full:
        picked = pick_full(
            queue,
            compaction_file_size=schema.compaction_file_size,
            rewrite_all=table.options[COMPACTION_FORCE_REWRITE_ALL_FILES],
        )
        if picked:
            yield picked
        return
    while True:
        picked, queue = pick_compact_before(
            queue,
            target_file_size=schema.target_file_size,
            min_file_num=table.options[COMPACTION_MIN_FILE_NUM],
        )
        if not picked:
            return
        yield picked
