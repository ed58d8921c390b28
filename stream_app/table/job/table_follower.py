"""Takes in what other writers have committed, so that the driver's state is what the table says.

Used by stream_commit before each epoch and each commit. All that the driver knows of a table
(constraints of new rows, levels of buckets) follows from the snapshots; where some are gone already
it is read anew.

Source: Paimon `operation/AbstractFileStoreWrite.java` (restore), `utils/SnapshotManager.java`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from stream_app.errors import CorruptFileError
from stream_app.model.bucket_id import BucketId
from stream_app.model.snapshot import CommitKind, Snapshot
from stream_app.table.commit.commit_history import CommitHistory
from stream_app.table.compact.compactions import StreamCompactions
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.job.write_only_bound import WriteOnlyBound
from stream_app.table.versions.file_store_scan import FileStoreScan
from stream_app.table.write.write_constraints import WriteConstraints


def look_at_newest(
    table: FileStoreTable, look: Callable[[Snapshot | None], None]
) -> Snapshot | None:
    """The newest snapshot, when `look` could read what it names; again when it expires meanwhile.

    Raises:
        CorruptFileError: `look` did, and no other snapshot has come since.
    """
    while True:
        latest = table.snapshots.latest()
        try:
            look(latest)
        except CorruptFileError:
            if latest is None or table.snapshots.latest_id() == latest.snapshot_id:
                raise
        else:
            return latest


@dataclass(frozen=True, slots=True)
class TableFollower:
    """Keeps what the driver knows of one table in step with its snapshots."""

    table: FileStoreTable
    history: CommitHistory
    constraints: WriteConstraints
    coordinator: StreamCompactions
    write_only: WriteOnlyBound

    def follow(self) -> Snapshot | None:
        """Take in what others have committed since; the newest snapshot.

        Raises:
            CheckpointError: the table has gone back to an earlier snapshot.
            CommitConflictError: another process commits for our user.
            UnsupportedTableError: another writer has changed the columns.
        """
        snapshots = self.table.snapshots
        latest = snapshots.latest(near=self.history.known_id or None)
        self.history.check(latest)
        known, latest_id = self.history.known_id, 0 if latest is None else latest.snapshot_id
        if latest_id == known:
            return latest
        self.history.check_alone(latest)
        scan = FileStoreScan(self.table)
        try:
            news = [snapshots.snapshot(number) for number in range(known + 1, latest_id + 1)]
            entries = [entry for snapshot in news for entry in scan.delta(snapshot)]
            touched = {(entry.partition, entry.bucket) for entry in entries}
        except (FileNotFoundError, CorruptFileError):
            # Some are expired already, or their manifests: nothing that we know is sure.
            self.constraints.look_at_all(latest)
            entries, touched, news = [], self.coordinator.known_buckets(), []
        if any(snapshot.commit_kind is CommitKind.COMPACT for snapshot in news):
            self.write_only.note_compaction()
        self.constraints.look_at(entries)
        self.coordinator.forget(touched, latest)
        self.history.known = latest
        return latest

    def follow_with(self, buckets: Collection[BucketId] | None) -> None:
        """Follow, and have the coordinator know some buckets; None: all that have files.

        Raises:
            CorruptFileError: the newest snapshot cannot be read, and none has come since.
        """
        newest = -1
        while True:
            try:
                latest = self.follow()
                self.coordinator.restore(self._with_files(latest, buckets), latest)
            except CorruptFileError:
                before, newest = newest, self.table.snapshots.latest_id() or 0
                if newest == before:
                    raise
                # It may have expired while it was read, and there is a newer one.
            else:
                return

    def _with_files(
        self, latest: Snapshot | None, buckets: Collection[BucketId] | None
    ) -> Collection[BucketId]:
        if buckets is not None:
            return buckets
        return {(one.partition, one.bucket) for one in FileStoreScan(self.table).live(latest)}
