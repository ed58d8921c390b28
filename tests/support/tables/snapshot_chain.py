"""The rules of a chain of snapshots, checked one by one on a table's files."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

from stream_app.model.bucket_id import POSTPONED
from stream_app.model.files.manifest_entry import (
    FileIdentity,
    FileKind,
    ManifestEntry,
    ManifestFileMeta,
)
from stream_app.model.snapshot import BATCH_COMMIT_IDENTIFIER, CommitKind, Snapshot
from stream_app.planning.commit.live_entries import live_entries
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.versions.file_store_scan import FileStoreScan


def check_chain(table: FileStoreTable) -> list[Snapshot]:
    """Check each snapshot and its links to others, and return all of them."""
    ids = table.snapshots.ids()
    assert ids == list(range(1, len(ids) + 1))
    snapshots = [table.snapshots.snapshot(number) for number in ids]
    earlier: list[Snapshot] = []
    identifiers: dict[str, int] = {}
    for snapshot in snapshots:
        _check_identity(snapshot, identifiers)
        _check_lists(table, snapshot)
        _check_records(table, snapshot, earlier[-1] if earlier else None)
        _check_base(table, snapshot, earlier[-1] if earlier else None)
        earlier.append(snapshot)
    if snapshots:
        _check_files(table, snapshots[-1])
    return snapshots


def _check_identity(snapshot: Snapshot, identifiers: dict[str, int]) -> None:
    last = identifiers.get(snapshot.commit_user, -1)
    if snapshot.commit_kind is CommitKind.APPEND:
        assert snapshot.commit_identifier > last, "an epoch is there twice, or out of order"
    else:
        expected = last if last >= 0 else BATCH_COMMIT_IDENTIFIER
        assert snapshot.commit_identifier == expected, (
            "compactions carry the last epoch's identifier"
        )
    identifiers[snapshot.commit_user] = snapshot.commit_identifier


def _check_lists(table: FileStoreTable, snapshot: Snapshot) -> None:
    lists = [
        (snapshot.base_manifest_list, snapshot.base_manifest_list_size),
        (snapshot.delta_manifest_list, snapshot.delta_manifest_list_size),
    ]
    if snapshot.changelog_manifest_list is not None:
        lists.append((snapshot.changelog_manifest_list, snapshot.changelog_manifest_list_size))
    for name, size in lists:
        assert size == table.file_io.size(table.paths.manifest(name))
        for meta in table.manifests.read_list(name):
            _check_manifest(table, meta)


def _check_manifest(table: FileStoreTable, meta: ManifestFileMeta) -> None:
    assert meta.file_size == table.file_io.size(table.paths.manifest(meta.file_name))
    entries = table.manifests.read_manifest(meta.file_name)
    kinds = [entry.kind for entry in entries]
    assert meta.num_added_files == kinds.count(FileKind.ADD)
    assert meta.num_deleted_files == kinds.count(FileKind.DELETE)
    buckets = [entry.bucket for entry in entries]
    assert (meta.min_bucket, meta.max_bucket) == (min(buckets), max(buckets))
    levels = [entry.file.level for entry in entries]
    assert (meta.min_level, meta.max_level) == (min(levels), max(levels))


def _check_records(table: FileStoreTable, snapshot: Snapshot, previous: Snapshot | None) -> None:
    scan = FileStoreScan(table)
    delta = scan.delta(snapshot)
    kinds = [entry.kind for entry in delta]
    assert kinds == sorted(kinds, reverse=True), "DELETEs come before ADDs"
    if snapshot.commit_kind is CommitKind.APPEND:
        assert FileKind.DELETE not in kinds
    row_gain = sum(
        entry.file.row_count if entry.kind is FileKind.ADD else -entry.file.row_count
        for entry in delta
    )
    assert snapshot.delta_record_count == row_gain
    before = 0 if previous is None else previous.total_record_count
    assert before is not None
    assert snapshot.total_record_count == before + row_gain
    live = scan.live(snapshot)
    assert snapshot.total_record_count == sum(entry.file.row_count for entry in live)
    changelog = scan.changelog(snapshot)
    if snapshot.changelog_manifest_list is None:
        assert snapshot.changelog_record_count is None
    else:
        rows = sum(entry.file.row_count for entry in changelog)
        assert snapshot.changelog_record_count == rows


def _check_base(table: FileStoreTable, snapshot: Snapshot, previous: Snapshot | None) -> None:
    base = table.manifests.read_list(snapshot.base_manifest_list)
    if previous is None:
        assert base == []
        return
    scan = FileStoreScan(table)
    inherited_manifests = scan.manifests(previous)
    assert len(base) <= len(inherited_manifests), "only merging may change the list"
    read = table.manifests.read_manifest
    entries = [entry for meta in base for entry in read(meta.file_name)]
    assert _identities(live_entries(entries)) == _identities(scan.live(previous))


def _identities(entries: list[ManifestEntry]) -> set[FileIdentity]:
    identities = {entry.identity for entry in entries}
    assert len(identities) == len(entries)
    return identities


def _check_files(table: FileStoreTable, snapshot: Snapshot) -> None:
    levels: dict[tuple[bytes, int, int], list[ManifestEntry]] = {}
    counts: dict[tuple[bytes, bool], set[int]] = {}
    for entry in FileStoreScan(table).live(snapshot):
        path = table.paths.data_file(entry.partition, entry.bucket, entry.file)
        assert table.file_io.size(path) == entry.file.file_size
        part = (entry.partition, entry.bucket == POSTPONED)
        counts.setdefault(part, set()).add(entry.total_buckets)
        if entry.file.level:
            place = (entry.partition, entry.bucket, entry.file.level)
            levels.setdefault(place, []).append(entry)
    assert all(len(of_part) == 1 for of_part in counts.values()), "a partition has one number"
    for entries in levels.values():
        files = sorted((entry.file for entry in entries), key=lambda f: table.key_of(f.min_key))
        for left, right in pairwise(files):
            assert table.key_of(left.max_key) < table.key_of(right.min_key)


def files_on_disk(table: FileStoreTable, prefix: str) -> set[str]:
    """Return the names of all files below the table that begin so."""
    return {path.name for path in Path(table.location).rglob(f"{prefix}*")}


def files_that_snapshots_name(table: FileStoreTable) -> set[str]:
    """Return the data and changelog files of all snapshots, also those that later ones replaced."""
    scan = FileStoreScan(table)
    return {
        entry.file.file_name
        for number in table.snapshots.ids()
        for snapshot in [table.snapshots.snapshot(number)]
        for entry in (*scan.delta(snapshot), *scan.changelog(snapshot))
    }
