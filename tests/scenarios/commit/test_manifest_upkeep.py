"""A commit's reads and writes do not grow with the number of commits before it."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from bench.commit.commits import LOADS, CommitCost, CommitLoad, CountedFileIO, costs, new_table
from stream_app.model.files.manifest_entry import FileKind, ManifestEntry, ManifestFileMeta
from stream_app.planning.commit.live_entries import live_entries
from stream_app.table.commit.manifest_merger import ManifestMerger
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.versions.file_store_scan import FileStoreScan

pytestmark = pytest.mark.usefixtures("unsynced")
COMMITS = 400
SMALL = {
    "manifest.target-file-size": "40 kb",
    "manifest.merge-min-count": "10",
    "manifest.full-compaction-threshold-size": "100 kb",
}
"""A two-hundredth of the usual sizes: each rule is at work within the commits of a test."""


def metas_of(table: FileStoreTable) -> list[ManifestFileMeta]:
    latest = table.snapshots.latest()
    assert latest is not None
    return FileStoreScan(table).manifests(latest)


def entries_of(table: FileStoreTable, metas: list[ManifestFileMeta]) -> list[ManifestEntry]:
    return [entry for meta in metas for entry in table.manifests.read_manifest(meta.file_name)]


def files_read(part: list[CommitCost]) -> float:
    return sum(len(cost.read) for cost in part) / len(part)


def files_written(part: list[CommitCost]) -> float:
    return sum(len(cost.written) for cost in part) / len(part)


def kilobytes(part: list[CommitCost]) -> float:
    return sum(sum(cost.read) + sum(cost.written) for cost in part) / len(part) / 1000


@pytest.mark.parametrize("name", LOADS)
def test_commits_cost_the_same_however_many_there_were(
    tmp_path: Path, seed: int, name: str
) -> None:
    table = new_table(tmp_path, SMALL)
    load = CommitLoad(table, LOADS[name], random.Random(seed))
    costs_by_commit = list(costs(table, load, COMMITS))
    early, late = costs_by_commit[80:200], costs_by_commit[-120:]
    assert files_read(late) <= 1.2 * files_read(early)
    assert files_written(late) <= 1.2 * files_written(early)
    assert kilobytes(late) <= 1.5 * kilobytes(early)
    # A list, the manifests of an append and of a compaction, and those that are merged.
    assert files_written(late) < 9
    metas = metas_of(table)
    large = [meta for meta in metas if meta.file_size >= 40_960]
    assert len(metas) - len(large) <= 2 * 10 + 1
    entries = entries_of(table, metas)
    assert len(live_entries(entries)) == load.live()
    dead_entries = len(entries) - load.live()
    assert dead_entries <= 1_000, "entries of files that are gone go with a full merge"


def test_a_full_merge_leaves_large_manifests_alone_that_lose_nothing(tmp_path: Path) -> None:
    """Partitions and buckets show which manifests may lose entries; the merge opens only these."""
    table = new_table(tmp_path, {**SMALL, "manifest.full-compaction-threshold-size": "1 gb"})
    list(costs(table, CommitLoad(table, compacts=False, rng=random.Random(1)), 150))
    later = CommitLoad(table, compacts=True, rng=random.Random(1))
    list(costs(table, later, 15, first=1000))
    metas = metas_of(table)
    before = live_entries(entries_of(table, metas))
    assert any(meta.num_deleted_files for meta in metas)
    io = table.file_io
    assert isinstance(io, CountedFileIO)
    io.read.clear()
    eager = FileStoreTable(
        table.location,
        table.with_options({"manifest.full-compaction-threshold-size": "1 kb"}).schema,
        io,
        table.clock,
    )
    merged_manifests = ManifestMerger(eager).merge(metas)
    after = entries_of(table, merged_manifests)
    assert {entry.identity for entry in after} == {entry.identity for entry in before}
    assert len(after) == len(before), "nothing that is gone is left, no DELETE either"
    assert sum(meta.num_deleted_files for meta in merged_manifests) == 0
    untouched_manifests = [meta for meta in metas if meta in merged_manifests]
    assert untouched_manifests, "a large manifest of which nothing is gone"
    assert all(meta.file_size >= 40_960 for meta in untouched_manifests)
    new = [meta for meta in merged_manifests if meta not in metas]
    assert all(40_960 <= meta.file_size < 80_000 for meta in new[:-1])


def test_manifests_reach_their_size_but_not_much_more(tmp_path: Path) -> None:
    table = new_table(tmp_path, {"manifest.target-file-size": "100 kb"})
    load = CommitLoad(table, compacts=False, rng=random.Random(2))
    changes = [change for epoch in range(700) for change in load.epoch(epoch)[0].changes]
    entries = [
        ManifestEntry(
            kind=FileKind.ADD,
            partition=change.partition,
            bucket=change.bucket,
            total_buckets=4,
            file=change.added_files[0],
        )
        for change in changes
    ]
    metas = table.manifests.write_manifests(iter(entries))
    assert len(metas) > 3
    assert all(102_400 <= meta.file_size < 120_000 for meta in metas[:-1])
    assert entries_of(table, metas) == entries
    assert table.manifests.write_manifests([]) == []
