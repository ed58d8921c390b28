"""Decides which snapshots and numbers of its predecessor a version of Iceberg's metadata keeps."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from stream_app.model.iceberg_metadata import IcebergMetadata, IcebergSnapshot


def kept_snapshots(
    snapshots: Sequence[IcebergSnapshot], earliest_id: int, tagged: Collection[int]
) -> list[IcebergSnapshot]:
    """The snapshots whose files Paimon still keeps.

    Args:
        earliest_id: of Paimon's snapshots.
        tagged: numbers of snapshots that a tag keeps.
    """
    return [
        snapshot
        for snapshot in snapshots
        if snapshot.snapshot_id >= earliest_id or snapshot.snapshot_id in tagged
    ]


def next_version(base: IcebergMetadata | None, snapshot_id: int) -> int:
    """The number of a version: Paimon's snapshot, as far as numbers ascend.

    They differ after a rollback, and when two versions show one snapshot.
    """
    return snapshot_id if base is None else max(snapshot_id, base.version + 1)


def operation(*, has_added: bool, has_removed: bool, keeps_rows: bool) -> str:
    """Iceberg's operation of a snapshot; readers of new rows only read snapshots of "append".

    Args:
        has_removed: whether files or rows of older snapshots have gone.
        keeps_rows: whether the files hold the rows that they replace.
    """
    if not has_removed:
        return "append"
    if keeps_rows:
        return "replace"
    return "overwrite" if has_added else "delete"
