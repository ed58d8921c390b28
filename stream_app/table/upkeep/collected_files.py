"""Collects the files that an expired or undone version named, and that no other version needs.

The expiries of snapshots and of changelogs call it, and so does rollback. It reads manifests, and
deletes nothing.

Source: Paimon `operation/FileDeletionBase.java`, `operation/SnapshotDeletion.java`.
"""

from __future__ import annotations

from stream_app.model.snapshot import Snapshot
from stream_app.planning.upkeep.unused_files import (
    dropped_files,
    unprotected_entries,
    without_flushed_files,
)
from stream_app.table.upkeep.file_deletion import (
    FileCollector,
    NeededFilesCache,
    ProtectedVersions,
)


def collect_dropped_files(
    collector: FileCollector,
    snapshot: Snapshot,
    protected_versions: ProtectedVersions,
    cache: NeededFilesCache,
    *,
    includes_flushed: bool = True,
) -> None:
    """Collect the data files that a version removed from the table."""
    manifest_cache = collector.manifest_cache
    manifest_cache.prefetch([snapshot.delta_manifest_list], includes_manifests=True)
    entries = dropped_files(manifest_cache.entries(snapshot.delta_manifest_list) or ())
    if not includes_flushed:
        entries = without_flushed_files(entries)
    if entries:
        needed_files = protected_versions.files_needed(snapshot.snapshot_id, manifest_cache, cache)
        collector.add_data_files(unprotected_entries(entries, needed_files))


def collect_changelog_files(
    collector: FileCollector, snapshot: Snapshot, protected_versions: ProtectedVersions
) -> None:
    """Collect a version's changelog files, with the manifests that name them."""
    name = snapshot.changelog_manifest_list
    if name is None or name in protected_versions.others_changelogs:
        return
    collector.manifest_cache.prefetch([name], includes_manifests=True)
    collector.add_changelog_files(collector.manifest_cache.added_entries(name))
    collector.add_manifest_list(name, snapshot.changelog_manifest_list_size)
