"""Builds the snapshot that a commit publishes on top of the latest one.

`file_store_commit` calls it after it has decided the changes and written the files. After each
lost race it makes a new base.

Source: Paimon `operation/FileStoreCommitImpl.java`, `Snapshot.java`.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass

from stream_app.model.files.manifest_committable import ManifestCommittable
from stream_app.model.snapshot import CommitKind, Snapshot
from stream_app.table.commit.commit_changes import CommitChanges
from stream_app.table.commit.commit_files import CommitLists
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.versions.file_store_scan import FileStoreScan
from stream_app.version import VERSION


@dataclass(frozen=True, slots=True)
class CommitBase:
    """The snapshot and the schema on which a commit is based, and what the next snapshot takes.

    Attributes:
        snapshot: the latest snapshot; None without snapshots.
        schema_id: of the table's latest schema.
    """

    table: FileStoreTable
    snapshot: Snapshot | None
    schema_id: int

    @property
    def next_id(self) -> int:
        """The number of the new snapshot."""
        return 1 if self.snapshot is None else self.snapshot.snapshot_id + 1

    @property
    def next_row_id(self) -> int:
        """The row id of the next row, in tables with row tracking."""
        return (self.snapshot.next_row_id if self.snapshot else None) or 0

    def total_records(self) -> int:
        """Return the number of rows of all files; count them if the snapshot does not record it."""
        if self.snapshot is None:
            return 0
        if self.snapshot.total_record_count is not None:
            return self.snapshot.total_record_count
        return sum(entry.file.row_count for entry in FileStoreScan(self.table).live(self.snapshot))

    def watermark(self, own_watermark: int | None) -> int | None:
        """Return the later of the snapshot's watermark and the given one; None without both."""
        watermarks = (own_watermark, self.snapshot.watermark if self.snapshot else None)
        return max((mark for mark in watermarks if mark is not None), default=None)


@dataclass(frozen=True, slots=True)
class PlannedSnapshot:
    """A snapshot that a commit will publish.

    Attributes:
        changes_on: computes the changes on top of the latest snapshot.
        is_outdated: whether the commit is checked for conflicts even on top of the known snapshot.
        operation: the operation that a user requested; None for a stream's commit, as in Paimon's
            sinks.
    """

    commit_kind: CommitKind
    committable: ManifestCommittable
    changes_on: Callable[[Snapshot | None], CommitChanges]
    is_outdated: bool = False
    operation: str | None = None


def next_snapshot(
    commit_user: str,
    plan: PlannedSnapshot,
    changes: CommitChanges,
    lists: CommitLists,
    base: CommitBase,
) -> Snapshot:
    """Build the snapshot with these changes, whose manifest lists have been written.

    Args:
        changes: the commit's changes; they name the valid statistics file.
    """
    committable = plan.committable
    return Snapshot(
        snapshot_id=base.next_id,
        schema_id=base.schema_id,
        base_manifest_list=lists.base_list[0],
        base_manifest_list_size=lists.base_list[1],
        delta_manifest_list=lists.delta_list[0],
        delta_manifest_list_size=lists.delta_list[1],
        changelog_manifest_list=lists.changelog_list[0] if lists.changelog_list else None,
        changelog_manifest_list_size=lists.changelog_list[1] if lists.changelog_list else None,
        index_manifest=lists.index_manifest,
        commit_user=commit_user,
        commit_identifier=committable.identifier,
        commit_kind=plan.commit_kind,
        time_ms=base.table.clock.now_ms(),
        total_record_count=base.total_records() + changes.record_count,
        delta_record_count=changes.record_count,
        changelog_record_count=sum(entry.file.row_count for entry in changes.changelog)
        if lists.changelog_list
        else None,
        watermark=base.watermark(committable.watermark),
        statistics=changes.statistics_file,
        properties=committable.properties,
        next_row_id=base.next_row_id,
        uuid=str(uuid.uuid4()),
        writer_version=f"stream_app-{VERSION}",
        operation=plan.operation,
    )
