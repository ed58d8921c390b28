"""What a committer knows of its table's snapshots, and whether that still holds.

Used by `file_store_commit` before each snapshot and by `stream_commit` before each epoch: a table
that was rolled back, or a second process with the same checkpoint, is found before harm is done.

Source: seed document 001 §4, Paimon `operation/FileStoreCommitImpl.java#filterCommitted`.
"""

from __future__ import annotations

from dataclasses import dataclass

from stream_app.errors import CheckpointError, CommitConflictError
from stream_app.model.snapshot import Snapshot
from stream_app.table.file_store_table import FileStoreTable


@dataclass(slots=True)
class CommitHistory:
    """The past of one user's commits.

    Attributes:
        commit_user: whose commits these are; stable over restarts.
        known: the snapshot on which decisions rest; None before the first.
    """

    table: FileStoreTable
    commit_user: str
    known: Snapshot | None

    @property
    def known_id(self) -> int:
        """Number of the known snapshot, 0 for none."""
        return 0 if self.known is None else self.known.snapshot_id

    def last_identifier(self) -> int | None:
        """The identifier of this user's newest commit; None when there is none."""
        snapshot = self.table.snapshots.latest_of_user(self.commit_user)
        return None if snapshot is None else snapshot.commit_identifier

    def advance(self, snapshot: Snapshot) -> None:
        """We have made a snapshot: directly on top of the known one, it becomes that."""
        if snapshot.snapshot_id == self.known_id + 1:
            self.known = snapshot

    def check(self, latest: Snapshot | None) -> None:
        """See that the known snapshot still belongs to the table.

        Raises:
            CheckpointError: the table has gone back, or another snapshot stands in its place.
        """
        known, latest_id = self.known, 0 if latest is None else latest.snapshot_id
        if known is None:
            return
        if latest_id < known.snapshot_id:
            raise CheckpointError(
                f"the table has gone back from snapshot {known.snapshot_id} to {latest_id}",
                where=self.table.location,
                fix="it was rolled back or made anew under a running job: restart the job with a "
                "new checkpoint",
            )
        try:
            there = latest
            if latest_id > known.snapshot_id:
                there = self.table.snapshots.snapshot(known.snapshot_id)
        except FileNotFoundError:  # expired
            return
        assert there is not None
        if there.delta_manifest_list != known.delta_manifest_list:
            raise CheckpointError(
                f"snapshot {known.snapshot_id} of user {known.commit_user} was replaced by one of "
                f"user {there.commit_user}",
                where=self.table.location,
                fix="it was rolled back under a running job, or another writer overwrote it, as "
                "Paimon's Java can on a local file system: restart the job with a new checkpoint",
            )

    def check_not_committed(self, identifier: int) -> None:
        """Look for this epoch, or a later one, above the snapshot that is known.

        A driver that was believed dead may live on and commit what its successor has begun.

        Raises:
            CommitConflictError: it is there.
        """
        ours = self.table.snapshots.latest_of_user(self.commit_user, down_to=self.known_id + 1)
        if ours is not None and ours.commit_identifier >= identifier:
            raise CommitConflictError(
                f"epoch {identifier} is in the table already: another process with the same "
                f"checkpoint made snapshot {ours.snapshot_id}",
                where=self.table.location,
                fix="run one job for each checkpoint; if the other one is gone, start this again",
            )
