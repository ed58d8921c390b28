"""Records what a committer knows of its table's snapshots, and checks that this is still true.

Used by `file_store_commit` before each snapshot and by `stream_table_commit` before each epoch. It
detects a rollback of the table, or a second process with the same checkpoint, before it writes.

Source: Paimon `operation/FileStoreCommitImpl.java#filterCommitted`.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from stream_app.errors import CheckpointError, CommitConflictError
from stream_app.model.job_epoch import JobEpoch
from stream_app.model.snapshot import CommitKind, Snapshot
from stream_app.table.commit.recorded_epochs import epochs_as_of, newest_epoch
from stream_app.table.file_store_table import FileStoreTable

ATTEMPTS_MAX = 100
"""Delta lists of snapshots that this writer tried to create; they identify its snapshots."""


@dataclass(slots=True)
class CommitHistory:
    """The commits of one commit user.

    Attributes:
        commit_user: Paimon's commit user, which survives restarts.
        known_snapshot: the version on which the caller decides; None before the first snapshot.
    """

    table: FileStoreTable
    commit_user: str
    known_snapshot: Snapshot | None
    _attempted_lists: deque[str] = field(
        init=False, default_factory=lambda: deque(maxlen=ATTEMPTS_MAX)
    )
    _created_lists: deque[str] = field(
        init=False, default_factory=lambda: deque(maxlen=ATTEMPTS_MAX)
    )
    _newest_epoch: JobEpoch | None = field(init=False, default=None)
    _latest_created_snapshot: Snapshot | None = field(init=False, default=None)

    @property
    def known_id(self) -> int:
        """The number of the known snapshot; 0 without one."""
        return 0 if self.known_snapshot is None else self.known_snapshot.snapshot_id

    @property
    def latest_snapshot(self) -> Snapshot | None:
        """The latest snapshot that this process has read or made."""
        created_snapshot = self._latest_created_snapshot
        is_newer = created_snapshot is not None and created_snapshot.snapshot_id > self.known_id
        return created_snapshot if is_newer else self.known_snapshot

    def note_known_snapshot(self, snapshot: Snapshot | None) -> None:
        """Note that later decisions are based on this snapshot."""
        self.known_snapshot = snapshot

    def last_epoch(self) -> JobEpoch | None:
        """Read this user's newest epoch in the table, and remember it."""
        self._newest_epoch = newest_epoch(self.table.snapshots, self.commit_user)
        return self._newest_epoch

    def note_attempt(self, snapshot: Snapshot) -> None:
        """Note that the writer is about to create this snapshot; the outcome may stay unknown."""
        self._attempted_lists.append(snapshot.delta_manifest_list)

    def note_created_snapshot(self, snapshot: Snapshot) -> None:
        """Note that the writer created a snapshot, which becomes known if it follows the known one.

        An overwrite never becomes known: a follower reads its changes like another writer's.
        """
        self._created_lists.append(snapshot.delta_manifest_list)
        self._latest_created_snapshot = snapshot
        if snapshot.commit_kind is CommitKind.APPEND:
            self._newest_epoch = JobEpoch(
                identifier=snapshot.commit_identifier, time_ms=snapshot.time_ms
            )
        is_next = snapshot.snapshot_id == self.known_id + 1
        if is_next and snapshot.commit_kind is not CommitKind.OVERWRITE:
            self.known_snapshot = snapshot

    def was_created(self, snapshot: Snapshot) -> bool:
        """Return whether this process made a snapshot and has already applied its changes."""
        is_overwrite = snapshot.commit_kind is CommitKind.OVERWRITE
        return snapshot.delta_manifest_list in self._created_lists and not is_overwrite

    def check_not_rolled_back(self, latest_snapshot: Snapshot | None) -> None:
        """Check that the known snapshot and the latest of this writer are still in the table.

        This writer's snapshot is newer than the known one if other writers committed in between.

        Raises:
            CheckpointError: the table was rolled back, or another snapshot has the same number.
        """
        known_snapshot, created_snapshot = self.known_snapshot, self._latest_created_snapshot
        if known_snapshot is not None:
            self._check_in_table(known_snapshot, latest_snapshot)
        if created_snapshot is not None and created_snapshot is not known_snapshot:
            self._check_in_table(created_snapshot, latest_snapshot)

    def _check_in_table(self, snapshot: Snapshot, latest_snapshot: Snapshot | None) -> None:
        """Check that the table still has a snapshot, unless it has expired."""
        snapshot_id = snapshot.snapshot_id
        latest_id = 0 if latest_snapshot is None else latest_snapshot.snapshot_id
        if latest_id < snapshot_id:
            raise CheckpointError(
                f"the table has gone back from snapshot {snapshot_id} to {latest_id}",
                where=self.table.location,
                fix="it was rolled back or recreated under a running job: restart the job with a "
                "new checkpoint",
            )
        try:
            current_snapshot = (
                latest_snapshot
                if latest_id == snapshot_id
                else self.table.snapshots.snapshot(snapshot_id)
            )
        except FileNotFoundError:  # expired
            return
        assert current_snapshot is not None
        if current_snapshot.delta_manifest_list != snapshot.delta_manifest_list:
            raise CheckpointError(
                f"snapshot {snapshot_id} of user {snapshot.commit_user} was replaced by one of "
                f"user {current_snapshot.commit_user}",
                where=self.table.location,
                fix="it was rolled back under a running job, or another writer overwrote it, as "
                "Paimon's Java can on a local file system: restart the job with a new checkpoint",
            )

    def check_alone(self, latest_snapshot: Snapshot | None) -> None:
        """Check that no other process, such as a driver believed dead, uses this commit user.

        Two processes with one commit user would mistake each other's epochs for their own. Each
        would skip records as committed that it has only read.

        Raises:
            CommitConflictError: the table has, or had, a snapshot of this commit user that this
                process did not create. Or it has an epoch whose commit seemed to fail.
        """
        if latest_snapshot is None:
            return
        self._check_snapshots()
        # The other process's snapshots may have expired; later snapshots still record its epoch.
        recorded_epoch = epochs_as_of(self.table.snapshots, latest_snapshot).get(self.commit_user)
        if recorded_epoch and (
            self._newest_epoch is None or recorded_epoch.identifier > self._newest_epoch.identifier
        ):
            raise CommitConflictError(
                "another process works with the same checkpoint: "
                f"it made epoch {recorded_epoch.identifier} "
                f"for commit user {self.commit_user}",
                where=self.table.location,
                fix="run one job for each checkpoint; if the other one is gone, start this again: "
                "it continues from the latest snapshot",
            )

    def _check_snapshots(self) -> None:
        """Check that no other process has committed as this user since the known snapshot."""
        for snapshot in self.table.snapshots.backwards(down_to=self.known_id + 1):
            delta = snapshot.delta_manifest_list
            if snapshot.commit_user != self.commit_user or delta in self._created_lists:
                continue
            commit_text = (
                f"snapshot {snapshot.snapshot_id} ({snapshot.commit_kind.value}, identifier "
            )
            commit_text += f"{snapshot.commit_identifier}) for commit user {self.commit_user}"
            if delta not in self._attempted_lists:
                raise CommitConflictError(
                    f"another process works with the same checkpoint: it made {commit_text}, while "
                    f"this one continued from snapshot {self.known_id}",
                    where=self.table.location,
                    fix="run one job for each checkpoint; if the other one is gone, start this "
                    "again: it continues from the latest snapshot",
                )
            if snapshot.commit_kind is CommitKind.APPEND:
                raise CommitConflictError(
                    "an epoch is in the table already, though making it seemed to fail: "
                    f"{commit_text}",
                    where=self.table.location,
                    fix="start the job again: it continues from the latest snapshot",
                )
