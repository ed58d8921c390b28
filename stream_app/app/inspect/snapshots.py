"""The snapshot log of a table: who committed what, and how much."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.table import Table

from stream_app.app.output.listing import Listing, time_text
from stream_app.model.manifest_entry import ManifestFileMeta
from stream_app.model.snapshot import BATCH_COMMIT_IDENTIFIER, Snapshot
from stream_app.table.file_store_table import FileStoreTable


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotRow:
    """One snapshot.

    Attributes:
        identifier: of the commit: the epoch of a stream; None for a batch.
        delta_records, total_records, changelog_records: physical rows of files.
        files_added, files_deleted: of data files, by this snapshot.
    """

    snapshot: int
    kind: str
    time: str | None
    user: str
    identifier: int | None
    schema: int
    delta_records: int | None
    total_records: int | None
    changelog_records: int | None
    files_added: int
    files_deleted: int
    changelog_files: int


def snapshot_rows(table: FileStoreTable) -> list[SnapshotRow]:
    """All snapshots that are left, oldest first."""
    rows = []
    for snapshot in table.snapshots.backwards():
        rows.append(_row(table, snapshot))
    return rows[::-1]


def snapshot_log(rows: Sequence[SnapshotRow], *, title: str | None = None) -> Table:
    """The log for rich's screens."""
    return Listing(SnapshotRow, rows).rich(title=title)


def _row(table: FileStoreTable, snapshot: Snapshot) -> SnapshotRow:
    read_list = table.manifests.read_list
    delta = read_list(snapshot.delta_manifest_list)
    changelog: list[ManifestFileMeta] = []
    if snapshot.changelog_manifest_list is not None:
        changelog = read_list(snapshot.changelog_manifest_list)
    identifier = snapshot.commit_identifier
    return SnapshotRow(
        snapshot=snapshot.snapshot_id,
        kind=snapshot.commit_kind.value,
        time=time_text(snapshot.time_millis),
        user=snapshot.commit_user,
        identifier=None if identifier == BATCH_COMMIT_IDENTIFIER else identifier,
        schema=snapshot.schema_id,
        delta_records=snapshot.delta_record_count,
        total_records=snapshot.total_record_count,
        changelog_records=snapshot.changelog_record_count,
        files_added=sum(meta.num_added_files for meta in delta),
        files_deleted=sum(meta.num_deleted_files for meta in delta),
        changelog_files=sum(meta.num_added_files for meta in changelog),
    )
