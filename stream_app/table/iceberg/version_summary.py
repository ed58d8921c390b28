"""What Iceberg's readers show of a snapshot: its operation, and counts of files and rows.

Called by `publisher`, when the manifests of a version are written.

Source: Iceberg's table specification, "Snapshots" and "Optional Snapshot Summary Fields".
"""

from __future__ import annotations

from collections.abc import Sequence

from stream_app.model.iceberg.metadata import MARK, EntryStatus, IcebergManifest, ManifestContent
from stream_app.model.snapshot import CommitKind, Snapshot
from stream_app.planning.iceberg.history import operation
from stream_app.table.iceberg.manifest_writer import ManifestWriter
from stream_app.table.iceberg.version_steps import VersionStep


def summary(
    step: VersionStep,
    snapshot: Snapshot,
    writer: ManifestWriter,
    manifests: Sequence[IcebergManifest],
    *,
    merges_by_key: bool,
) -> dict[str, str]:
    """What Iceberg's readers show of a snapshot, with the mark of Paimon's."""
    data = [one for one in manifests if one.content is ManifestContent.DATA]
    written = [one for one in writer.written if one.content is ManifestContent.DATA]
    added, deleted = EntryStatus.ADDED, EntryStatus.DELETED
    counts = {
        "added-data-files": sum(one.files[added] for one in written),
        "added-records": sum(one.rows[added] for one in written),
        "deleted-data-files": sum(one.files[deleted] for one in written),
        "deleted-records": sum(one.rows[deleted] for one in written),
        "total-data-files": sum(one.live_files for one in data),
        "total-records": sum(one.live_rows for one in data),
        "total-delete-files": sum(one.live_files for one in manifests if one not in data),
        "paimon.snapshot-id": snapshot.snapshot_id,
    }
    follows = bool(step.kept) and step.kept[-1].snapshot_id == snapshot.snapshot_id - 1
    keeps_rows = follows and snapshot.commit_kind is CommitKind.COMPACT and not merges_by_key
    has_vectors = any(one.files[added] for one in writer.written if one not in written)
    kind = operation(
        has_added=bool(step.changes.added),
        has_removed=bool(step.changes.removed) or has_vectors or step.replaces,
        keeps_rows=keeps_rows,
    )
    texts = {name: str(count) for name, count in counts.items()}
    return {"operation": kind, **texts, MARK: snapshot.delta_manifest_list}
