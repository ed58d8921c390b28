"""Commits one APPEND snapshot on top of a known snapshot, or commits nothing.

A caller, such as a replay of quarantined records, decides from the table's latest snapshot which
rows to add. Rows that other writers commit later would invalidate that decision, so the commit
refuses them. Compactions change no row and are no obstacle.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from stream_app.errors import CommitConflictError, CommitError
from stream_app.model.bucket_id import BucketId
from stream_app.model.files.bucket_change import BucketChange
from stream_app.model.files.manifest_committable import ManifestCommittable
from stream_app.model.snapshot import CommitKind, Snapshot
from stream_app.table.commit.commit_history import CommitHistory
from stream_app.table.commit.file_store_commit import FileStoreCommit
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.job.bucket_state import bucket_state
from stream_app.table.job.table_state import read_latest_snapshot
from stream_app.table.kinds.table_kind_registry import bucket_assigner, bucket_writer, table_write
from stream_app.table.versions.bucket_basis import BucketBasis
from stream_app.table.write.bucket_assigner import BucketRows
from stream_app.table.write.table_write import TableWrite
from stream_app.table.write.write_constraints import WriteConstraints


@dataclass(frozen=True, slots=True)
class SingleAppend:
    """The only commit of its commit user.

    Attributes:
        known_snapshot: the latest snapshot at the beginning; None if there was none.
        constraints: the constraints on new rows at the beginning.
    """

    table: FileStoreTable
    commit_user: str
    known_snapshot: Snapshot | None
    constraints: WriteConstraints

    @classmethod
    def begin(cls, table: FileStoreTable, commit_user: str) -> SingleAppend:
        """Read the table's latest snapshot."""
        constraints = WriteConstraints(table)
        known_snapshot, _ = read_latest_snapshot(table, constraints.read_live_files)
        return cls(table, commit_user, known_snapshot, constraints)

    def write(self, rows: pa.RecordBatch) -> Sequence[BucketChange]:
        """Write rows (`_VALUE_KIND` and the table's columns), oldest first; return the changes."""
        return self.write_buckets(bucket_assigner(self.table, self.basis).assign(rows))

    def write_buckets(
        self, rows_of_buckets: Iterable[BucketRows], deletes: Iterable[BucketRows] = ()
    ) -> Sequence[BucketChange]:
        """Write the files of rows by partition and bucket, one bucket after another.

        Args:
            deletes: deletes that precede the rows, and that no key index moves to another bucket.
        """
        next_sequence_number = self.constraints.next_sequence_number
        with TableWrite(
            self.table,
            bucket_writer,
            next_sequence_number=next_sequence_number,
            bucket_counts=self.basis.bucket_counts,
        ) as writer:
            for partition, bucket, rows in deletes:
                writer.write(BucketId(partition, bucket), rows)
                next_sequence_number += rows.num_rows
            delete_changes = writer.prepare_commit()
        try:
            with table_write(
                self.table, next_sequence_number=next_sequence_number, basis=self.basis
            ) as writer:
                for partition, bucket, rows in rows_of_buckets:
                    writer.write(BucketId(partition, bucket), rows)
                return [*delete_changes, *writer.prepare_commit()]
        except BaseException:
            self.table.discard(delete_changes)
            raise

    def commit(self, changes: Sequence[BucketChange], properties: Mapping[str, str]) -> Snapshot:
        """Publish the files; a failed commit deletes them.

        Raises:
            CommitConflictError: other writers have committed rows since `begin`.
            CommitError: other writers won every race.
        """
        commit_history = CommitHistory(self.table, self.commit_user, self.known_snapshot)
        committable = ManifestCommittable(
            identifier=0,
            changes=tuple(changes),
            properties={
                **properties,
                **bucket_state(self.table, commit_history, self.constraints).properties,
            },
        )
        try:
            return FileStoreCommit(self.table, commit_history).commit_appends(
                committable, check_base=self._check_no_new_rows
            )
        except CommitError:
            self.table.discard(changes)
            raise

    @property
    def basis(self) -> BucketBasis:
        """The basis, made from the known snapshot, by which rows are routed and written."""
        index = None if self.known_snapshot is None else self.known_snapshot.index_manifest
        return BucketBasis(
            routed_on=index,
            written_on=index,
            snapshot_id=0 if self.known_snapshot is None else self.known_snapshot.snapshot_id,
            bucket_counts=self.constraints.bucket_counts,
        )

    def _check_no_new_rows(self, latest_snapshot: Snapshot | None) -> None:
        known_id = 0 if self.known_snapshot is None else self.known_snapshot.snapshot_id
        latest_id = known_id if latest_snapshot is None else latest_snapshot.snapshot_id
        snapshots = list(self.table.snapshots.backwards(start=latest_id, down_to=known_id + 1))
        row_commits = (
            f"snapshot {snapshot.snapshot_id} of user {snapshot.commit_user}"
            for snapshot in snapshots
            if snapshot.commit_kind is not CommitKind.COMPACT
        )
        have_expired = len(snapshots) < latest_id - known_id
        reason = next(row_commits, "snapshots have expired" if have_expired else None)
        if reason is not None:
            raise CommitConflictError(
                f"others have written since snapshot {known_id}: {reason}",
                where=self.table.location,
                fix="try again when no job commits to the table",
            )
