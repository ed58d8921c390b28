"""Checks a commit against the table before its snapshot is made, and names the conflicting commit.

`file_store_commit` calls it when other writers have committed since the commit was planned. The
rules are in `conflict_detection`, `schema_conflicts` and `index_changes` of `planning.commit`.

Source: Paimon `operation/commit/ConflictDetection.java`, `operation/commit/CommitScanner.java`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from stream_app.errors import CommitConflictError, CorruptFileError
from stream_app.model.files.manifest_entry import FileKind, ManifestEntry
from stream_app.model.snapshot import CommitKind, Snapshot
from stream_app.planning.commit.conflict_detection import (
    SnapshotDelta,
    cause_and_fix,
    find_conflicts,
)
from stream_app.planning.commit.index_changes import index_conflict
from stream_app.planning.commit.live_entries import live_entries
from stream_app.planning.commit.schema_conflicts import schema_conflict, schema_origin_text
from stream_app.table.commit.commit_changes import CommitChanges
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.versions.file_store_scan import FileStoreScan
from stream_app.table.versions.index_manifests import index_manifest

HISTORY_MAX = 100
"""Snapshots searched for the cause of a conflict. The cause only explains; it decides nothing."""


@dataclass(slots=True)
class CommitConflictCheck:
    """A check of commits to one table."""

    table: FileStoreTable
    _checked_schemas: set[int] = field(init=False, default_factory=set)

    def check(
        self,
        commit_kind: CommitKind,
        changes: CommitChanges,
        base_snapshot: Snapshot,
        known_id: int,
    ) -> None:
        """Check that changes do not conflict with a snapshot.

        Args:
            known_id: the snapshot for which the changes were planned.

        Raises:
            CommitConflictError: the changes conflict; `files` names the commit's files in conflict.
        """
        if commit_kind is CommitKind.OVERWRITE:
            return  # the deletes of an overwrite were computed from this snapshot
        current_entries = (
            self._files_added_since(known_id, base_snapshot)
            if commit_kind is CommitKind.APPEND
            else None
        )
        if current_entries is None:
            partitions = {entry.partition for entry in changes.entries}
            current_entries = FileStoreScan(self.table).live_in(base_snapshot, partitions)
        conflicts = find_conflicts(
            current_entries, changes.entries, self.table.key_of, changes.bucket_lookups
        )
        if not conflicts:
            return
        first_conflict = conflicts[0]
        problem, fix = cause_and_fix(first_conflict, self._deltas_latest_first(base_snapshot))
        more_text = f" (and {len(conflicts) - 1} more)" if len(conflicts) > 1 else ""
        where = self.table.paths.bucket_folder(*first_conflict.entry.bucket_id)
        error = CommitConflictError(
            f"the {commit_kind.value} commit does not fit: {problem}{more_text}",
            where=where,
            fix=fix,
        )
        raise error.about_files(conflict.entry.file.file_name for conflict in conflicts)

    def check_index(self, changes: CommitChanges, base_snapshot: Snapshot | None) -> None:
        """Check that the changed index files do not conflict with a snapshot.

        Raises:
            CommitConflictError: they conflict; `files` names the files of the buckets in conflict.
        """
        if not changes.index_entries:
            return
        buckets = {entry.bucket_id for entry in changes.index_entries}
        partitions = {
            entry.partition for entry in changes.index_entries if entry.holds_deletion_vectors
        }
        current_entries = (
            FileStoreScan(self.table).live_in(base_snapshot, partitions) if partitions else []
        )
        resulting_entries = live_entries([*current_entries, *changes.entries])
        deleted_names, added_names = (
            {entry.file.file_name for entry in changes.entries if entry.kind is kind}
            for kind in (FileKind.DELETE, FileKind.ADD)
        )
        problem = index_conflict(
            index_manifest(
                self.table, base_snapshot.index_manifest if base_snapshot else None
            ).entries,
            changes.index_entries,
            deleted_names=deleted_names - added_names,
            live_names={entry.file.file_name for entry in resulting_entries},
            needs_one_file=self.table.kind_traits.has_buckets,
        )
        if problem is not None:
            error = CommitConflictError(
                f"the index files of a commit do not fit: {problem}",
                where=self.table.location,
                fix="do nothing: the committer deletes the files, and writes the rows again",
            )
            raise error.about_files(
                entry.file.file_name for entry in changes.entries if entry.bucket_id in buckets
            )

    def checked_schema_id(self) -> int:
        """Return the number of the latest schema, which the new snapshot records.

        Raises:
            CommitConflictError: a newer schema forbids files that were written by this one.
        """
        schema = self.table.schema
        ids = self.table.schemas.ids() or [schema.schema_id]
        if ids[-1] == schema.schema_id or ids[-1] in self._checked_schemas:
            return ids[-1]
        if schema.schema_id not in ids:
            problem: str | None = f"schema {schema.schema_id}, by which it writes, is gone"
        else:
            problem = schema_conflict(schema, self.table.schemas.schema(ids[-1]))
        if problem is not None:
            later_ids = [schema_id for schema_id in ids if schema_id > schema.schema_id]
            raise self._schema_error(problem, later_ids)
        self._checked_schemas.add(ids[-1])
        return ids[-1]

    def _schema_error(self, problem: str, later_ids: list[int]) -> CommitConflictError:
        """Return the error. It names the first schema since which every schema conflicts."""
        schemas, schema = self.table.schemas, self.table.schema
        cause = schemas.latest()
        assert cause is not None, "a table has a schema"
        for later_id in reversed(later_ids):
            later_schema = schemas.schema(later_id)
            if schema_conflict(schema, later_schema) is None:
                break
            cause = later_schema
        latest_id = self.table.snapshots.latest_id() or 0
        recent_snapshots = self.table.snapshots.backwards(
            down_to=max(1, latest_id - HISTORY_MAX + 1)
        )
        return CommitConflictError(
            f"the table got schema {cause.schema_id} under a job that began with schema "
            f"{schema.schema_id}: {problem}; {schema_origin_text(cause, recent_snapshots)}",
            where=schemas.path(cause.schema_id),
            fix="start the job again: it takes the table's latest schema. If the job refuses that, "
            "take the change back",
        )

    def _files_added_since(
        self, known_id: int, base_snapshot: Snapshot
    ) -> list[ManifestEntry] | None:
        """Return live files that other writers added; None if snapshots since then have expired.

        An append deletes nothing, so it cannot conflict with older files. Reading only the
        additions is cheap, even if the table has very many files.
        """
        deltas: list[SnapshotDelta] = []
        for delta in self._deltas_latest_first(base_snapshot):
            if delta.snapshot_id <= known_id:
                return live_entries(entry for delta in reversed(deltas) for entry in delta.entries)
            deltas.append(delta)
        return None

    def _deltas_latest_first(self, base_snapshot: Snapshot) -> Iterator[SnapshotDelta]:
        scan = FileStoreScan(self.table)
        earliest_id = max(1, base_snapshot.snapshot_id - HISTORY_MAX + 1)
        for snapshot in self.table.snapshots.backwards(down_to=earliest_id):
            try:
                entries = scan.delta(snapshot)
            except CorruptFileError:  # the snapshot has just expired
                return
            yield SnapshotDelta(
                snapshot_id=snapshot.snapshot_id,
                commit_kind=snapshot.commit_kind,
                commit_user=snapshot.commit_user,
                entries=entries,
            )
