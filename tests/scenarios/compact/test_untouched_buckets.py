"""An epoch that touches buckets for the first time does not read the whole table for each."""

from __future__ import annotations

import random
from pathlib import Path

from bench.commit.scaling import PARTITION, EndsAtOnce, MadeFiles, build
from stream_app.model.bucket_id import BucketId
from stream_app.model.files.bucket_change import BucketChange
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.job.stream_table_commit import StreamTableCommit
from stream_app.table.opening import open_file_store_table
from tests.support.files.counting_file_io import CountingFileIO

BUCKETS = 8


def _job(location: str, user: str, generator: MadeFiles) -> StreamTableCommit:
    opened_table = open_file_store_table(location)
    table = FileStoreTable(
        opened_table.location, opened_table.schema, CountingFileIO(), opened_table.clock
    )
    return StreamTableCommit(table, user, EndsAtOnce(generator))


def _epoch(job: StreamTableCommit, epoch: int, bucket: int, generator: MadeFiles) -> list[str]:
    """Commit a file of one bucket; returns the manifests that this has read."""
    io = job.table.file_io
    assert isinstance(io, CountingFileIO)
    io.read.clear()
    job.follow_and_wait()
    change = BucketChange(partition=PARTITION, bucket=bucket, added_files=(generator.flushed(),))
    job.commit_epoch(epoch, [change])
    return io.opened("manifest-")


def test_buckets_that_come_one_by_one_are_read_once(tmp_path: Path) -> None:
    location = f"{tmp_path}/bench.db/t"
    build(location, BUCKETS, 2)
    generator = MadeFiles(random.Random(1), number=1_000)
    job = _job(location, "job", generator)
    read = [_epoch(job, number, number, generator) for number in range(BUCKETS - 1)]
    assert [len(names) for names in read] == [1, *[0] * (BUCKETS - 2)]

    other_job = _job(location, "other", generator)
    _epoch(other_job, 0, BUCKETS - 1, generator)
    assert _epoch(job, BUCKETS, BUCKETS - 1, generator) != [], "another writer changed the bucket"
    runs = job.coordinator.back_pressure.sorted_run_counts()
    assert runs[BucketId(PARTITION, BUCKETS - 1)] == 3, (
        "the run that was there, the other's file, and ours"
    )
