"""The key index keeps rows unique in all partitions, also with damaged or missing files."""

from __future__ import annotations

import random
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stream_app.format.binary_row import serialize_row
from stream_app.table.commit.commit_history import CommitHistory
from stream_app.table.commit.file_store_commit import FileStoreCommit
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.upkeep.rollback import plan_rollback, roll_back
from stream_app.table.versions.file_store_scan import FileStoreScan
from tests.support.files.counting_file_io import CountingFileIO
from tests.support.jobs.cross_partition_job import CrossPartitionJob, cross_partition_table
from tests.support.jobs.table_writer import read_rows
from tests.support.tables.small_table import Change
from tests.support.tables.snapshot_chain import check_chain

pytestmark = pytest.mark.usefixtures("unsynced")


@pytest.fixture(autouse=True)
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The local disk of the executor."""
    local = tmp_path / "disk"
    local.mkdir()
    monkeypatch.setenv("TMPDIR", str(local))
    return local


def rows_of(table: FileStoreTable) -> dict[int, tuple[str | None, int]]:
    rows = read_rows(table)
    places = {row["id"]: (row["p"], row["v"]) for row in rows}
    assert len(places) == len(rows), "a key has one row in all partitions"
    return places


def random_changes(
    chance: random.Random, truth: dict[int, Any], partitions: str = "abcd"
) -> list[Change]:
    changes: list[Change] = []
    for _ in range(chance.randrange(1, 60)):
        key, partition = chance.randrange(60), chance.choice(partitions)
        if chance.random() < 0.25:
            changes.append(("-D", {"id": key, "p": partition}))
            truth.pop(key, None)
        else:
            truth[key] = (partition, chance.randrange(1000))
            changes.append(("+I", {"id": key, "p": partition, "v": truth[key][1]}))
    return changes


@pytest.mark.parametrize(
    "more",
    [
        {"dynamic_bucket__target_row_num": "5", "num_sorted_run__compaction_trigger": "3"},
        {"partition_lookup": "true", "bucket": "3", "keys": "id,p"},
        {"dynamic_bucket__assigner_parallelism": "1", "changelog_producer": "lookup"},
    ],
    ids=["dynamic buckets", "fixed buckets", "one share"],
)
@pytest.mark.slow
def test_a_key_has_one_row_in_all_partitions(
    tmp_path: Path, disk: Path, seed: int, more: dict[str, str]
) -> None:
    table = cross_partition_table(tmp_path / "t", **more)
    job = CrossPartitionJob(table)
    chance, truth = random.Random(seed), dict[int, Any]()
    for _ in range(15):
        job.write(*random_changes(chance, truth))
        assert rows_of(table) == truth
        match chance.randrange(6):
            case 0:  # another executor, or a lost disk
                shutil.rmtree(disk / "stream_app-0", ignore_errors=True)
                for folder in disk.iterdir():
                    shutil.rmtree(folder)
            case 1:  # a torn file
                for file in disk.rglob("*.arrow"):
                    file.write_bytes(file.read_bytes()[:100])
            case 2:
                job.commit.compact_due()
    check_chain(table)


def test_the_index_finds_rows_that_another_writer_moved(tmp_path: Path) -> None:
    table = cross_partition_table(tmp_path / "t")
    job = CrossPartitionJob(table)
    job.write(*(("+I", {"id": key, "p": "a", "v": 1}) for key in range(8)))
    other_job = CrossPartitionJob(table, user="other")
    live = FileStoreScan(table).live(table.snapshots.latest())
    buckets = {entry.bucket for entry in live}
    assert len(buckets) > 1
    for bucket in buckets:  # a delete where the key is not does nothing
        other_job.write_into(bucket, *(("-D", {"id": key, "p": "a", "v": 1}) for key in range(4)))
    other_job.write_into(77, *(("+I", {"id": key, "p": "b", "v": 2}) for key in range(4)))
    job.write(*(("+U", {"id": key, "p": "c", "v": 3}) for key in range(0, 8, 2)))
    c, b, a = ("c", 3), ("b", 2), ("a", 1)
    assert rows_of(table) == {0: c, 1: b, 2: c, 3: b, 4: c, 5: a, 6: c, 7: a}


@pytest.mark.slow
def test_jobs_with_other_numbers_of_shares_take_turns(tmp_path: Path, seed: int) -> None:
    table = cross_partition_table(tmp_path / "t", dynamic_bucket__target_row_num="5")
    chance, truth = random.Random(seed), dict[int, Any]()
    key = "dynamic-bucket.assigner-parallelism"
    jobs = [
        CrossPartitionJob(table.with_options({key: str(shares)}), user=f"with {shares}")
        for shares in (1, 3, 4)
    ]
    for _ in range(12):
        chance.choice(jobs).write(*random_changes(chance, truth))
        assert rows_of(table) == truth


def test_dropped_partitions_have_no_keys(tmp_path: Path) -> None:
    table = cross_partition_table(tmp_path / "t")
    job = CrossPartitionJob(table)
    job.write(("+I", {"id": 1, "p": "a", "v": 1}), ("+I", {"id": 2, "p": "b", "v": 1}))
    job.write(("+U", {"id": 2, "p": "b", "v": 2}))
    commit = FileStoreCommit(table, CommitHistory(table, "dropper", table.snapshots.latest()))
    commit.drop_partitions([serialize_row(["a"], table.schema.partition_type.types)], 1)
    job.write(("-D", {"id": 1, "p": "a"}), ("+U", {"id": 2, "p": "a", "v": 3}))
    assert rows_of(table) == {2: ("a", 3)}


def test_a_rollback_frees_the_numbers_of_snapshots(tmp_path: Path) -> None:
    table = cross_partition_table(tmp_path / "t")
    job = CrossPartitionJob(table)
    job.write(("+I", {"id": 1, "p": "a", "v": 1}))
    job.write(("+I", {"id": 1, "p": "b", "v": 2}))
    job.write(("+I", {"id": 2, "p": "b", "v": 2}))  # brings the index to the second snapshot
    plan = plan_rollback(table, table.snapshots.snapshot(1))
    roll_back(table, plan, resets_consumers=False)
    job = CrossPartitionJob(table, user="next")
    job.write(("+I", {"id": 3, "p": "a", "v": 1}))
    job.write(("+I", {"id": 1, "p": "c", "v": 3}))
    assert rows_of(table) == {1: ("c", 3), 3: ("a", 1)}


def test_an_index_is_brought_forward_by_the_new_files_alone(tmp_path: Path, disk: Path) -> None:
    table = cross_partition_table(tmp_path / "t", dynamic_bucket__assigner_parallelism="1")
    files = CountingFileIO()
    job = CrossPartitionJob(replace(table, file_io=files))
    for key in range(5):
        job.write(("+I", {"id": key, "p": "a", "v": key}))
    files.read.clear()
    job.written([("+U", {"id": 0, "p": "b", "v": 9})])
    assert len([name for name in files.read if name.startswith("data-")]) == 1
    assert len(list(disk.rglob("*.arrow"))) <= 3
