"""Decides which snapshots and numbers an Iceberg version takes over from its predecessor."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from stream_app.model.iceberg_metadata import IcebergMetadata, IcebergSnapshot


def kept_snapshots(
    snapshots: Sequence[IcebergSnapshot], earliest_id: int, tagged_ids: Collection[int]
) -> list[IcebergSnapshot]:
    """Return the snapshots whose files Paimon still keeps.

    Args:
        earliest_id: the number of Paimon's earliest snapshot.
        tagged_ids: the numbers of snapshots that tags keep.
    """
    return [
        snapshot
        for snapshot in snapshots
        if snapshot.snapshot_id >= earliest_id or snapshot.snapshot_id in tagged_ids
    ]


def next_version(base_metadata: IcebergMetadata | None, snapshot_id: int) -> int:
    """Return the number of a version, which is that of Paimon's snapshot while numbers ascend.

    The numbers differ after a rollback, and if two versions show one snapshot.
    """
    return snapshot_id if base_metadata is None else max(snapshot_id, base_metadata.version + 1)


def snapshot_operation(*, has_added: bool, has_removed: bool, keeps_rows: bool) -> str:
    """Return Iceberg's operation of a snapshot; incremental readers read only "append" snapshots.

    Args:
        has_removed: whether files or rows of older snapshots were removed.
        keeps_rows: whether the new files have the rows of those that they replace.
    """
    if not has_removed:
        return "append"
    if keeps_rows:
        return "replace"
    return "overwrite" if has_added else "delete"
