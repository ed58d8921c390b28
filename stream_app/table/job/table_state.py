"""The driver's state of one table, which `TableState` keeps.

It derives from the snapshots the constraints on new rows, the levels of buckets, and the job's
epochs in the table. It also applies other writers' commits. If their snapshots have expired, it
reads the table again.

Source: Paimon `operation/AbstractFileStoreWrite.java` (restore), `utils/SnapshotManager.java`.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from stream_app.errors import CorruptFileError
from stream_app.mergetree.compact.compact_executor import CompactExecutor
from stream_app.model.bucket_id import POSTPONED, BucketId
from stream_app.model.files.bucket_change import BucketChange
from stream_app.model.files.manifest_entry import FileKind, ManifestEntry
from stream_app.model.options.compaction_options import WRITE_ONLY
from stream_app.model.options.merge_options import SEQUENCE_SNAPSHOT_ORDERING
from stream_app.model.snapshot import CommitKind, Snapshot
from stream_app.planning.commit.snapshot_ordering import number_changes
from stream_app.planning.compact.waiting_rows import Visibility, waiting_buckets
from stream_app.table.commit.commit_history import CommitHistory
from stream_app.table.compact.compact_coordinator import CompactCoordinator
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.kinds.table_kind_registry import table_kind_of
from stream_app.table.versions.file_store_scan import FileStoreScan
from stream_app.table.versions.live_file_counts import LiveFileCounts
from stream_app.table.write.write_constraints import WriteConstraints

_LOG = logging.getLogger(__name__)
_Result = TypeVar("_Result")


def read_latest_snapshot(
    table: FileStoreTable, read_snapshot: Callable[[Snapshot | None], _Result]
) -> tuple[Snapshot | None, _Result]:
    """Return the latest snapshot that `read_snapshot` can read, and the result of `read_snapshot`.

    It retries if the snapshot expires during the read.

    Raises:
        CorruptFileError: `read_snapshot` raised it, although the snapshot is still the latest.
    """
    while True:
        latest_snapshot = table.snapshots.latest()
        try:
            return latest_snapshot, read_snapshot(latest_snapshot)
        except CorruptFileError:
            if (
                latest_snapshot is None
                or table.snapshots.latest_id() == latest_snapshot.snapshot_id
            ):
                raise


@dataclass(slots=True)
class TableState:
    """The state of one table for one committer; not thread safe.

    Attributes:
        commit_user: the checkpoint's id; a fresh one for a job that only compacts.
        executor: runs the compactions that the coordinator starts.
        last_identifier: the identifier of this user's newest commit, which compactions also carry.
            None before the first commit. Only a job without epochs passes it to the constructor.
        last_source_end: the end of that epoch in the source's form; None if the table does not
            record it.
        constraints: the constraints on new rows.
        commit_history: the known snapshot and this writer's commits.
        coordinator: the coordinator of the compactions, with the levels of its buckets.
        waiting_buckets: buckets with rows that wait for a compaction, which the coordinator may not
            know. It is an estimate, and may contain buckets without such rows.
        compaction_seen_at_s: the time when this process last saw another writer's COMPACT snapshot,
            in seconds of the steady clock.
    """

    table: FileStoreTable
    commit_user: str
    executor: CompactExecutor
    last_identifier: int | None = None
    last_source_end: str | None = field(init=False, default=None)
    constraints: WriteConstraints = field(init=False)
    commit_history: CommitHistory = field(init=False)
    coordinator: CompactCoordinator = field(init=False)
    waiting_buckets: set[BucketId] = field(init=False, default_factory=set)
    compaction_seen_at_s: float = field(init=False, default=-math.inf)

    def __post_init__(self) -> None:
        self.constraints = WriteConstraints(self.table)
        self._load_history()
        table_kind = table_kind_of(self.table.schema)
        self.coordinator = table_kind.make_coordinator(self.table, self.executor)

    @property
    def live_counts(self) -> LiveFileCounts:
        """The counts of the table's live files and their bytes."""
        return self.constraints.live_counts

    def _load_history(self) -> None:
        """Load the history and the newest epoch of this user's commits, by the latest snapshot.

        The newest epoch must not come from a snapshot above the known one. Otherwise a rollback of
        that snapshot would stay unnoticed, and the epoch would be missing.
        """
        while True:
            latest_snapshot, _ = read_latest_snapshot(self.table, self._read_live_files)
            self.commit_history = CommitHistory(self.table, self.commit_user, latest_snapshot)
            if self.last_identifier is not None:
                return
            last_epoch = self.commit_history.last_epoch()
            if (self.table.snapshots.latest_id() or 0) == self.commit_history.known_id:
                if last_epoch is not None:
                    self.last_identifier = last_epoch.identifier
                    self.last_source_end = last_epoch.source_end
                return

    def is_committed(self, epoch: int) -> bool:
        """Return whether the table already has the epoch, so that the job skips it.

        Raises:
            CheckpointError: the table had the epoch, and was rolled back since.
        """
        last_epoch = self.last_identifier
        if last_epoch is None or epoch > last_epoch:
            return False
        self.commit_history.check_not_rolled_back(self.table.snapshots.latest())
        _LOG.info(
            "epoch %d is left out: the newest commit of user %s has identifier %d",
            epoch,
            self.commit_user,
            last_epoch,
        )
        return True

    def note_epoch(
        self, append: Snapshot, changes: Sequence[BucketChange], source_end: str | None
    ) -> None:
        """Note that an APPEND snapshot has committed an epoch of this job with these changes."""
        self.last_identifier = append.commit_identifier
        self.last_source_end = source_end
        if self.table.options[SEQUENCE_SNAPSHOT_ORDERING]:
            changes = number_changes(changes, append.snapshot_id)
        self.coordinator.add_new_files(change for change in changes if change.bucket != POSTPONED)
        self.live_counts.change(changes)
        for file in (file for change in changes for file in change.added_files):
            self.constraints.add(file)

    def follow(self) -> Snapshot | None:
        """Apply other writers' commits, and return the latest snapshot.

        Raises:
            CheckpointError: the table was rolled back.
            CommitConflictError: another process uses this commit user.
            UnsupportedTableError: another writer changed the columns.
        """
        snapshots = self.table.snapshots
        latest_snapshot = snapshots.latest(known_latest_id=self.commit_history.known_id or None)
        self.commit_history.check_not_rolled_back(latest_snapshot)
        known_id = self.commit_history.known_id
        latest_id = 0 if latest_snapshot is None else latest_snapshot.snapshot_id
        if latest_id == known_id:
            return latest_snapshot
        self.commit_history.check_alone(latest_snapshot)
        scan = FileStoreScan(self.table)
        try:
            new_snapshots = [
                snapshots.snapshot(snapshot_id)
                for snapshot_id in range(known_id + 1, latest_id + 1)
            ]
            deltas = [(snapshot, list(scan.delta(snapshot))) for snapshot in new_snapshots]
            changed_buckets = {entry.bucket_id for _, delta in deltas for entry in delta}
        except (FileNotFoundError, CorruptFileError):
            # Snapshots or their manifests have expired, so the whole state may be stale.
            self._read_live_files(latest_snapshot)
            deltas = []
            changed_buckets = self.coordinator.known_buckets()
        if any(snapshot.commit_kind is CommitKind.COMPACT for snapshot, _ in deltas):
            self.compaction_seen_at_s = self.table.clock.steady_seconds()
        self.constraints.follow_other_writers([entry for _, delta in deltas for entry in delta])
        self.coordinator.reload(changed_buckets, latest_snapshot)
        for snapshot, delta in deltas:
            if not self.commit_history.was_created(snapshot):
                self.live_counts.follow(delta)
                self._note_waiting_buckets(entry for entry in delta if entry.kind is FileKind.ADD)
        self.commit_history.note_known_snapshot(latest_snapshot)
        return latest_snapshot

    def follow_and_load(self, buckets: Collection[BucketId] | None) -> None:
        """Follow, and load buckets into the coordinator; None loads all buckets with files.

        Raises:
            CorruptFileError: the latest snapshot cannot be read.
        """
        latest_id = -1
        while True:
            try:
                latest_snapshot = self.follow()
                wanted_buckets = self._wanted_buckets(latest_snapshot, buckets)
                self.coordinator.load(
                    {bucket_id for bucket_id in wanted_buckets if bucket_id.bucket != POSTPONED},
                    latest_snapshot,
                )
            except CorruptFileError:
                earlier_id, latest_id = latest_id, self.table.snapshots.latest_id() or 0
                if latest_id == earlier_id:
                    raise
                # The snapshot may have expired during the read; then a newer one exists.
            else:
                return

    def load_waiting_buckets(self) -> bool:
        """Load the buckets with rows that wait for a compaction.

        An epoch may never write to these buckets again.

        Returns:
            Whether any bucket was loaded.

        Raises:
            CheckpointError, CommitConflictError, UnsupportedTableError: as `follow`.
        """
        if self.table.options[WRITE_ONLY] or self.table.visibility is Visibility.ANY_LEVEL:
            return False
        self.follow()
        loaded_buckets = set(self.waiting_buckets)
        if loaded_buckets:
            self.follow_and_load(loaded_buckets)
            self.waiting_buckets -= loaded_buckets
        return bool(loaded_buckets)

    def _read_live_files(self, snapshot: Snapshot | None) -> None:
        self._note_waiting_buckets(self.constraints.read_live_files(snapshot))

    def _note_waiting_buckets(self, added_entries: Iterable[ManifestEntry]) -> None:
        num_levels = self.table.options.num_levels
        in_real_buckets = (entry for entry in added_entries if entry.bucket != POSTPONED)
        self.waiting_buckets.update(
            waiting_buckets(in_real_buckets, self.table.visibility, num_levels)
        )

    def _wanted_buckets(
        self, latest_snapshot: Snapshot | None, buckets: Collection[BucketId] | None
    ) -> Collection[BucketId]:
        if buckets is not None:
            return buckets
        return {entry.bucket_id for entry in FileStoreScan(self.table).live(latest_snapshot)}
