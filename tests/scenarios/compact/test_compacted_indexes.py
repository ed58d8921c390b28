"""A compaction beside the job changes neither the rows nor the index of keys."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from stream_app.format.binary_row import deserialize_row
from stream_app.model.snapshot import BATCH_COMMIT_IDENTIFIER, CommitKind
from stream_app.planning.key_index.index_rule import index_rule
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.job.stream_table_commit import StreamTableCommit
from stream_app.table.key_index.key_indexes import KeyIndexes
from stream_app.table.versions.file_store_scan import FileStoreScan
from stream_app.table.versions.index_manifests import index_manifest
from tests.support.jobs.cross_partition_job import CrossPartitionJob, cross_partition_table
from tests.support.jobs.table_writer import CompactInCaller, TableWriter, by_content, read_rows
from tests.support.tables.small_table import small_table
from tests.support.tables.sound_table import sound_report

pytestmark = pytest.mark.usefixtures("unsynced")
LATE = {"num_sorted_run__compaction_trigger": "9"}
"""The job itself compacts nothing."""
REMOVES = {"merge_engine": "partial-update", "partial_update__remove_record_on_delete": "true"}


@pytest.fixture(autouse=True)
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "disk").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "disk"))
    return tmp_path / "disk"


def compact(table: FileStoreTable) -> None:
    """Compact as `stream-app compact --full` does, into one file a bucket."""
    compactor = StreamTableCommit(
        table, "compactor", CompactInCaller(table), BATCH_COMMIT_IDENTIFIER
    )
    compactor.compact_fully()
    latest = table.snapshots.latest()
    assert latest is not None
    assert (latest.commit_kind, latest.commit_user) == (CommitKind.COMPACT, "compactor")
    assert all(entry.file.level > 0 for entry in FileStoreScan(table).live(latest))


def buckets_of(table: FileStoreTable) -> dict[tuple[bytes, int], list[int]]:
    """The hashes of each bucket, by the index."""
    latest = table.snapshots.latest()
    assert latest is not None
    return {
        (partition, bucket): table.hash_index_files.read(entry).tolist()
        for partition, buckets in index_manifest(table, latest.index_manifest).hash_entries.items()
        for bucket, entry in buckets.items()
    }


def buckets_of_keys(job: CrossPartitionJob) -> dict[int, tuple[str, int]]:
    """The partition and bucket of each key, by the index."""
    table, bucket_of_key = job.table, dict[int, tuple[str, int]]()
    rule, latest = index_rule(table.schema), table.snapshots.latest_id()
    assert rule is not None
    assert latest is not None
    types = table.schema.partition_type.types
    for share in range(rule.share_count):
        index = KeyIndexes.of_table(table, rule).index_at(share, latest)
        for layer in index.layers:
            ids, codes = layer.keys.batch.column("id").to_pylist(), index.find(layer.keys)
            for key, code in zip(ids, codes.tolist(), strict=True):
                if code >= 0:
                    partition, bucket = index.coded_buckets.ids[code]
                    bucket_of_key[key] = str(deserialize_row(partition, types)[0]), bucket
    return bucket_of_key


def test_buckets_as_keys_come(tmp_path: Path) -> None:
    table = small_table(
        tmp_path / "db.db" / "t", "p INT, k INT, v INT", ("p", "k"), partition_keys=("p",),
        bucket=-1, dynamic_bucket__target_row_num=3, **LATE,
    ).table  # fmt: skip
    writer = TableWriter(table)
    for epoch in range(4):
        writer.write([("+I", {"p": k % 2, "k": k, "v": epoch}) for k in range(epoch, epoch + 9)])
    rows, index = by_content(read_rows(table)), buckets_of(table)
    assert len(index) == 4
    compact(table)
    assert by_content(read_rows(table)) == rows
    assert buckets_of(table) == index
    sound_report(table)


@pytest.mark.parametrize("is_lost", [False, True])
@pytest.mark.parametrize("options", [{}, REMOVES], ids=["deduplicate", "partial-update"])
def test_keys_without_the_partition(
    tmp_path: Path, disk: Path, options: dict[str, str], is_lost: bool
) -> None:
    folder = tmp_path / "db.db" / "t"
    table = cross_partition_table(folder, dynamic_bucket__target_row_num="3", **options, **LATE)
    job = CrossPartitionJob(table)
    job.write(*(("+I", {"id": key, "p": "a", "v": 1}) for key in range(20)))
    job.write(*(("+U", {"id": key, "p": "b", "v": 2}) for key in range(0, 20, 3)))
    job.write(*(("-D", {"id": key, "p": "a", "v": 1}) for key in range(0, 20, 4)))
    rows, places = by_content(read_rows(table)), buckets_of_keys(job)
    assert len(rows) == len(places) == 15
    compact(table)
    if is_lost:
        shutil.rmtree(disk)
        disk.mkdir()
    assert by_content(read_rows(table)) == rows
    assert buckets_of_keys(job) == places
    job.write(*(("+U", {"id": key, "p": "c", "v": 3}) for key in range(20)))
    assert len(read_rows(table)) == 20
    sound_report(table)


def test_a_row_that_a_vector_has_deleted_is_not_in_an_index_made_anew(
    tmp_path: Path, disk: Path
) -> None:
    """With the row the index would send its key to the partition of a deleted row."""
    vectors = {
        "deletion_vectors__enabled": "true",
        "compaction__max_size_amplification_percent": "10000",
    }
    table = cross_partition_table(tmp_path / "db.db" / "t", **REMOVES, **vectors)
    job = CrossPartitionJob(table)
    job.write(*(("+I", {"id": key, "p": "a", "v": 1}) for key in range(500)))
    job.write(("-D", {"id": 7, "p": "a", "v": 1}))
    job.commit.compact_due()
    latest = table.snapshots.latest()
    assert latest is not None
    assert latest.index_manifest, "a vector tells what is deleted"
    shutil.rmtree(disk)
    disk.mkdir()
    assert 7 not in buckets_of_keys(job)
    job.write(("+I", {"id": 7, "p": "b", "v": 2}))
    assert [row["p"] for row in read_rows(table) if row["id"] == 7] == ["b"]
