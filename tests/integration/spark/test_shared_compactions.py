"""Small compactions share a Spark job, and the failure of one does not affect the others."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from stream_app.errors import StreamAppError
from stream_app.model.files.bucket_change import BucketChange
from stream_app.model.files.compact_request import CompactRequest, CompactUnit
from stream_app.spark.jobs.spark_compactions import DRIVER_SIZE_MAX, SparkCompactionQueue
from stream_app.table.compact.buckets.bucket_coordinator import read_live_buckets
from stream_app.table.file_store_table import FileStoreTable
from tests.support.tables.small_table import SmallTable, small_table

pytestmark = pytest.mark.spark
BUCKETS = 12


def table_of(folder: Path) -> SmallTable:
    """Two files of level 0 in each bucket."""
    small = small_table(folder, "k BIGINT, v STRING", ("k",), bucket=str(BUCKETS))
    for text in ("old", "new"):
        small.commit(*(("+I", {"k": key, "v": text}) for key in range(10 * BUCKETS)))
    return small


def requests_of(table: FileStoreTable) -> list[CompactRequest]:
    by_bucket = read_live_buckets(table, table.snapshots.latest(), None)
    return [
        CompactRequest(
            partition=partition,
            bucket=bucket,
            unit=CompactUnit(output_level=5, files=live.files, reason="test"),
            drops_deletes=True,
            max_level=5,
        )
        for (partition, bucket), live in sorted(by_bucket.items())
    ]


def jobs_of(spark: SparkSession) -> int:
    return len(spark.sparkContext.statusTracker().getJobIdsForGroup(None))


def submit_compactions(
    spark: SparkSession,
    queued_requests: list[tuple[FileStoreTable, CompactRequest]],
    driver_bytes_max: int = 0,
) -> tuple[list[Future[BucketChange]], int]:
    """The ended compactions, and the number of jobs that they took."""
    before = jobs_of(spark)
    compactions = SparkCompactionQueue(spark, 1, driver_bytes_max)
    try:
        futures = [compactions.submit(*compaction) for compaction in queued_requests]
        for future in futures:
            future.exception(120)
    finally:
        compactions.close()
    return futures, jobs_of(spark) - before


def test_small_compactions_of_two_tables_share_jobs(spark: SparkSession, tmp_path: Path) -> None:
    tables = [table_of(tmp_path / name).table for name in ("a", "b")]
    queued_requests = [(table, request) for table in tables for request in requests_of(table)]
    assert len(queued_requests) == 2 * BUCKETS
    futures, jobs = submit_compactions(spark, queued_requests)
    for (_, request), future in zip(queued_requests, futures, strict=True):
        change = future.result()
        assert (change.bucket, change.removed_files) == (request.bucket, request.unit.files)
        assert sum(file.row_count for file in change.added_files) == request.unit.files[0].row_count
    # The thread takes the first request as soon as it is there, and all others together.
    assert jobs <= 3


def test_a_failure_concerns_its_own_bucket_alone(spark: SparkSession, tmp_path: Path) -> None:
    table = table_of(tmp_path / "a").table
    requests = requests_of(table)
    broken = requests[5].unit
    missing_file = replace(broken.files[0], file_name="data-gone.parquet")
    requests[5] = replace(
        requests[5], unit=replace(broken, files=(missing_file, *broken.files[1:]))
    )
    futures, _ = submit_compactions(spark, [(table, request) for request in requests])
    errors = [future.exception() for future in futures]
    assert [number for number, error in enumerate(errors) if error] == [5]
    assert isinstance(errors[5], StreamAppError)
    assert "data-gone.parquet" in str(errors[5])
    changes = [future.result() for future in futures if not future.exception()]
    committed_names = {file.file_name for change in changes for file in change.added_files}
    written = {path.name for path in Path(table.location).rglob("data-*.parquet")}
    old = {file.file_name for request in requests for file in request.unit.files}
    assert written - old - {broken.files[0].file_name} == committed_names


def test_a_few_very_small_compactions_take_no_job(spark: SparkSession, tmp_path: Path) -> None:
    tables = [table_of(tmp_path / name).table for name in ("a", "b")]
    few = requests_of(tables[0])[:2]
    here, jobs = submit_compactions(
        spark, [(tables[0], request) for request in few], DRIVER_SIZE_MAX
    )
    assert jobs == 0
    by_spark, _ = submit_compactions(
        spark, [(tables[1], request) for request in requests_of(tables[1])[:2]]
    )
    for request, on_driver, other in zip(few, here, by_spark, strict=True):
        assert on_driver.result().removed_files == request.unit.files
        counts = [
            [file.row_count for file in future.result().added_files]
            for future in (on_driver, other)
        ]
        assert counts[0] == counts[1] == [request.unit.files[0].row_count]
    size = few[0].unit.total_size
    _, jobs = submit_compactions(spark, [(tables[0], requests_of(tables[0])[5])], size // 2)
    assert jobs == 1, "it reads too much"


def test_a_task_of_spark_repeats_what_fails_on_the_driver(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = table_of(tmp_path / "a").table
    request = requests_of(table)[0]
    missing_file = replace(request.unit.files[0], file_name="data-gone.parquet")
    unit = replace(request.unit, files=(missing_file, *request.unit.files[1:]))
    [future], jobs = submit_compactions(
        spark, [(table, replace(request, unit=unit))], DRIVER_SIZE_MAX
    )
    assert jobs == 1
    with pytest.raises(StreamAppError, match=r"data-gone\.parquet"):
        future.result()
