"""Another engine's DELETE of an append table with deletion vectors."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

from stream_app.format.deletion_vector import DeletionVector
from stream_app.model.snapshot import BATCH_COMMIT_IDENTIFIER, CommitKind, Snapshot
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.versions.deletion_vectors import (
    deletion_vectors,
    index_changes,
    new_index_manifest,
)
from stream_app.table.versions.file_store_scan import FileStoreScan


def delete_some(table: FileStoreTable, rng: random.Random) -> set[int]:
    """Commit one DELETE on the latest snapshot; return the keys, or none after a lost race."""
    try:
        deletion_plan = planned_delete(table, rng)
    except Exception:  # the file is gone meanwhile
        return set()
    if deletion_plan is None:
        return set()
    snapshot, row = deletion_plan
    return {row["k"]} if table.snapshots.publish(snapshot) else set()


def planned_delete(
    table: FileStoreTable, rng: random.Random
) -> tuple[Snapshot, dict[str, Any]] | None:
    """Write the files of a snapshot that deletes one row; return the snapshot and the row.

    None where there is no row, or the one that was picked is deleted already.
    """
    latest = table.snapshots.latest()
    entries = FileStoreScan(table).live(latest)
    if latest is None or not entries:
        return None
    entry = rng.choice(entries)
    bucket = entry.bucket_id
    stored_vector = (
        deletion_vectors(table, latest, [bucket]).get(bucket, {}).get(entry.file.file_name)
    )
    rows = [row for b in table.bucket_files(*bucket).read(entry.file) for row in b.to_pylist()]
    index = rng.randrange(len(rows))
    new_vector = DeletionVector.of_positions([index])
    if (
        stored_vector is not None
        and stored_vector.union(new_vector).cardinality == stored_vector.cardinality
    ):
        return None
    live = table.manifests.read_index_manifest(latest.index_manifest)
    changes = index_changes(table, live, bucket, deleted_rows={entry.file.file_name: new_vector})
    base = table.manifests.write_list(FileStoreScan(table).manifests(latest))
    delta = table.manifests.write_list([])
    snapshot = replace(
        latest, snapshot_id=latest.snapshot_id + 1, base_manifest_list=base[0],
        base_manifest_list_size=base[1], delta_manifest_list=delta[0],
        delta_manifest_list_size=delta[1], commit_user="deleter",
        index_manifest=new_index_manifest(table, latest, changes),
        commit_identifier=BATCH_COMMIT_IDENTIFIER, commit_kind=CommitKind.OVERWRITE,
        delta_record_count=0, properties=None, changelog_manifest_list=None,
        changelog_manifest_list_size=None, time_ms=table.clock.now_ms(),
    )  # fmt: skip
    return snapshot, rows[index]
