"""Computes a snapshot's checksum of rows from the base snapshot's and the commit's files.

Another engine's snapshot has no checksum, so stream_app's next snapshot starts a new one.
`planning.commit.sum_record_rules` has the rules.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace

from stream_app.format.snapshot_properties.sum_record_json import encode_sum_record
from stream_app.model.checksum.row_sum import NO_ROWS, RowSum
from stream_app.model.checksum.sum_conditions import why_unsummed
from stream_app.model.checksum.sum_record import SUMS_OF_EMPTY_TABLE, SumRecord
from stream_app.model.files.manifest_entry import FileKind, ManifestEntry
from stream_app.model.snapshot import PROOF_PROPERTY, ROW_SUM_PROPERTY, CommitKind, Snapshot
from stream_app.planning.commit.sum_record_rules import with_changes, without_partitions
from stream_app.table.commit.commit_changes import CommitChanges
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.versions.base_sum_record import base_sum_record


def with_copied_proof(snapshot: Snapshot, base_snapshot: Snapshot | None) -> Snapshot:
    """Copy the base snapshot's proof, unless the snapshot has its own."""
    properties = snapshot.properties or {}
    proof = ((base_snapshot and base_snapshot.properties) or {}).get(PROOF_PROPERTY)
    if PROOF_PROPERTY in properties or proof is None:
        return snapshot
    return replace(snapshot, properties={**properties, PROOF_PROPERTY: proof})


def with_sum_record(
    snapshot: Snapshot,
    table: FileStoreTable,
    base_snapshot: Snapshot | None,
    changes: CommitChanges,
) -> Snapshot:
    """Add the checksum of the table's rows to the snapshot, if the table keeps one.

    Args:
        base_snapshot: the snapshot on which the commit is based; None for the first commit.
    """
    if why_unsummed(table.schema):
        return snapshot
    base_record = base_sum_record(table, base_snapshot)
    record: SumRecord | None
    if changes.next_sum_record is not None:
        record = changes.next_sum_record(base_record)
    else:
        record = _sum_record_after_commit(base_record, table, snapshot.commit_kind, changes)
    if record is None:  # later snapshots count from this one
        record = SumRecord(origin_id=snapshot.snapshot_id, partitions={})
    properties = {**(snapshot.properties or {}), ROW_SUM_PROPERTY: encode_sum_record(record)}
    return replace(snapshot, properties=properties)


def _sum_record_after_commit(
    base_record: SumRecord, table: FileStoreTable, commit_kind: CommitKind, changes: CommitChanges
) -> SumRecord | None:
    """Return the record after a commit; None if it cannot be known."""
    if commit_kind is CommitKind.OVERWRITE:
        if any(entry.kind is FileKind.ADD for entry in changes.entries):
            return None
        if changes.is_of_all:
            return SUMS_OF_EMPTY_TABLE
        return without_partitions(base_record, {entry.partition for entry in changes.entries})
    if table.kind_traits.merges_by_key:
        partition_sums = _sums_by_partition(changes.changelog)
    elif commit_kind is CommitKind.APPEND:
        partition_sums = _sums_by_partition(changes.entries)
    else:
        partition_sums = {}
    return None if partition_sums is None else with_changes(base_record, partition_sums)


def _sums_by_partition(entries: Iterable[ManifestEntry]) -> Mapping[bytes, RowSum] | None:
    """Return the files' sums by partition; None if a sum or the old row of an update is missing."""
    sums: dict[bytes, RowSum] = defaultdict(lambda: NO_ROWS)
    open_update_count = 0
    for entry in entries:
        change = entry.file.change_sum
        if change is None or entry.kind is FileKind.DELETE:
            return None
        sums[entry.partition] += change.total
        open_update_count += change.open_update_count
    return None if open_update_count else sums
