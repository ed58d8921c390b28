"""Computes the update from a published version of Iceberg's metadata to a Paimon snapshot.

`publisher` uses the changes since the published version. If these do not lead to the snapshot, it
uses the snapshot's live files. The new snapshot gets a summary, which Iceberg's readers show.

Source: Iceberg's table specification, "Optional Snapshot Summary Fields".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from stream_app.errors import CorruptFileError
from stream_app.filestore.iceberg_files import IcebergFiles
from stream_app.model.files.manifest_entry import ManifestEntry
from stream_app.model.iceberg_metadata import (
    DELTA_MANIFEST_LIST,
    EntryStatus,
    IcebergManifest,
    IcebergMetadata,
    IcebergSnapshot,
    ManifestContent,
)
from stream_app.model.snapshot import CommitKind, Snapshot
from stream_app.planning.iceberg.retained_history import snapshot_operation
from stream_app.planning.iceberg.visible_files import (
    IcebergLevels,
    VisibleChanges,
    iceberg_levels,
    visible_changes,
)
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.iceberg.manifest_writer import ManifestWriter
from stream_app.table.versions.file_store_scan import FileStoreScan


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionUpdate:
    """The update from a published version to a snapshot.

    Attributes:
        base_metadata: the previous version; None without one.
        manifests: the manifests of `base_metadata` whose files are carried over.
        snapshots: the snapshots of `base_metadata` that stay in the new version.
        replaces_files: whether the files of the update replace those of `snapshots`.
    """

    base_metadata: IcebergMetadata | None
    manifests: Sequence[IcebergManifest]
    snapshots: Sequence[IcebergSnapshot]
    changes: VisibleChanges
    replaces_files: bool = False


@dataclass(frozen=True, slots=True)
class VersionUpdatePlanner:
    """The decision which files an Iceberg version adds to the previous one and removes from it."""

    table: FileStoreTable
    iceberg_files: IcebergFiles

    @property
    def levels(self) -> IcebergLevels:
        """The levels whose rows Iceberg's readers see."""
        merges_by_key = self.table.kind_traits.merges_by_key
        return iceberg_levels(self.table.options, merges_by_key=merges_by_key)

    def exists(self, iceberg_snapshot: IcebergSnapshot) -> bool:
        """Return whether Paimon has this very snapshot; a rollback may have reused its number."""
        delta_list = self.table.snapshots.delta_list(iceberg_snapshot.snapshot_id)
        return delta_list == iceberg_snapshot.delta_manifest_list is not None

    def delta_update(
        self, base_metadata: IcebergMetadata, snapshot: Snapshot
    ) -> VersionUpdate | None:
        """Return the update by the changes since `base_metadata`; None if changes are missing."""
        scan = FileStoreScan(self.table)
        snapshots = self.table.snapshots
        try:
            ids_between = range(
                base_metadata.current_snapshot.snapshot_id + 1, snapshot.snapshot_id
            )
            snapshots_since = [*map(snapshots.snapshot, ids_between), snapshot]
            entries = [
                entry for snapshot_since in snapshots_since for entry in scan.delta(snapshot_since)
            ]
            manifests = self.iceberg_files.read_list(base_metadata.current_snapshot.manifest_list)
        except (FileNotFoundError, CorruptFileError):
            return None
        changes = self._changes(entries)
        return VersionUpdate(
            base_metadata=base_metadata,
            manifests=manifests,
            snapshots=base_metadata.snapshots,
            changes=changes,
        )

    def full_update(
        self,
        base_metadata: IcebergMetadata | None,
        snapshot: Snapshot,
        *,
        is_of_table: bool,
    ) -> VersionUpdate:
        """Return the update that starts again from the snapshot's live files.

        Args:
            is_of_table: whether `base_metadata` describes this table. Its history then continues
                with the snapshots that Paimon still has.
        """
        tagged_lists = {tag.snapshot.delta_manifest_list for tag in self.table.tags.tags()}
        retained_snapshots = [
            iceberg_snapshot
            for iceberg_snapshot in (
                base_metadata.snapshots if base_metadata is not None and is_of_table else ()
            )
            if iceberg_snapshot.snapshot_id < snapshot.snapshot_id
            and (
                self.exists(iceberg_snapshot)
                or iceberg_snapshot.delta_manifest_list in tagged_lists
            )
        ]
        changes = self._changes(FileStoreScan(self.table).live(snapshot))
        return VersionUpdate(
            base_metadata=base_metadata,
            manifests=(),
            snapshots=retained_snapshots,
            changes=changes,
            replaces_files=bool(retained_snapshots),
        )

    def _changes(self, entries: Iterable[ManifestEntry]) -> VisibleChanges:
        return visible_changes(entries, self.levels, self._data_file_path)

    def _data_file_path(self, entry: ManifestEntry) -> str:
        return self.table.paths.data_file(*entry.bucket_id, entry.file)


def snapshot_summary(
    update: VersionUpdate,
    snapshot: Snapshot,
    writer: ManifestWriter,
    manifests: Sequence[IcebergManifest],
    *,
    merges_by_key: bool,
) -> dict[str, str]:
    """Return the summary of an update: operation, counts and Paimon's delta manifest list."""
    data_manifests = [
        manifest for manifest in manifests if manifest.content is ManifestContent.DATA
    ]
    written_manifests = [
        manifest
        for manifest in writer.written_manifests
        if manifest.content is ManifestContent.DATA
    ]
    counts = {
        "added-data-files": sum(
            manifest.file_counts[EntryStatus.ADDED] for manifest in written_manifests
        ),
        "added-records": sum(
            manifest.row_counts[EntryStatus.ADDED] for manifest in written_manifests
        ),
        "deleted-data-files": sum(
            manifest.file_counts[EntryStatus.DELETED] for manifest in written_manifests
        ),
        "deleted-records": sum(
            manifest.row_counts[EntryStatus.DELETED] for manifest in written_manifests
        ),
        "total-data-files": sum(manifest.live_file_count for manifest in data_manifests),
        "total-records": sum(manifest.live_row_count for manifest in data_manifests),
        "total-delete-files": sum(
            manifest.live_file_count for manifest in manifests if manifest not in data_manifests
        ),
        "paimon.snapshot-id": snapshot.snapshot_id,
    }
    follows_previous = (
        bool(update.snapshots) and update.snapshots[-1].snapshot_id == snapshot.snapshot_id - 1
    )
    keeps_rows = (
        follows_previous and snapshot.commit_kind is CommitKind.COMPACT and not merges_by_key
    )
    has_vectors = any(
        manifest.file_counts[EntryStatus.ADDED]
        for manifest in writer.written_manifests
        if manifest not in written_manifests
    )
    operation_name = snapshot_operation(
        has_added=bool(update.changes.added_entries),
        has_removed=bool(update.changes.removed_paths) or has_vectors or update.replaces_files,
        keeps_rows=keeps_rows,
    )
    texts = {name: str(count) for name, count in counts.items()}
    return {"operation": operation_name, **texts, DELTA_MANIFEST_LIST: snapshot.delta_manifest_list}
