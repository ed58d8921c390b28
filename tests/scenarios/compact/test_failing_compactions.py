"""The job repeats failed compactions, and stops only what depends on them."""

from __future__ import annotations

from pathlib import Path

import pytest

from stream_app.errors import CompactionError
from tests.support.jobs.compacting_table import a_table, rows
from tests.support.jobs.table_writer import (
    CompactInCaller,
    CompactInThreads,
    TableWriter,
    assert_table_is,
    read_rows,
)
from tests.support.tables.small_table import Change, write_changes
from tests.support.tables.snapshot_chain import files_on_disk

pytestmark = pytest.mark.usefixtures("unsynced")


@pytest.mark.parametrize("failures", [1, 2])
def test_a_compaction_that_failed_is_tried_again(tmp_path: Path, failures: int) -> None:
    table = a_table(tmp_path, num_sorted_run__compaction_trigger=2)
    writer = TableWriter(table, lambda table: CompactInThreads(table, failures=failures))
    for epoch in range(6):
        writer.write(rows(epoch))
        writer.commit.compact_due()
    assert set(writer.commit.coordinator.back_pressure.sorted_run_counts().values()) <= {1, 2}
    assert_table_is(writer)


def test_a_bucket_that_cannot_be_compacted_stops_the_job_at_the_stop_trigger(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Below the stop trigger the job writes the bucket, although its compactions fail."""
    options = {"num_sorted_run__compaction_trigger": 2, "num_sorted_run__stop_trigger": 6}
    writer = TableWriter(a_table(tmp_path, **options), lambda table: CompactInThreads(table, 10**6))
    for epoch in range(7):
        writer.write(rows(epoch))
        writer.commit.compact_due()
    assert set(writer.commit.coordinator.back_pressure.sorted_run_counts().values()) == {7}
    with pytest.raises(CompactionError, match=r"7 sorted runs .* \d times") as raised:
        writer.write(rows(7))
    assert "bucket-0" in raised.value.where
    assert "no executor is left" in caplog.text
    assert read_rows(writer.table) == [row for _, row in rows(6)]
    # Once the cause is fixed, the job continues.
    writer.make_executor = CompactInThreads
    writer.replay()
    writer.commit.compact_due()
    assert_table_is(writer)


def test_a_success_makes_failures_forgotten(tmp_path: Path) -> None:
    """Three failures in a row stop the job, not three in a year."""
    options = {"num_sorted_run__compaction_trigger": 2, "num_sorted_run__stop_trigger": 2}
    writer = TableWriter(a_table(tmp_path, **options), CompactInThreads)
    executor = writer.executor
    assert isinstance(executor, CompactInThreads)
    for epoch in range(12):
        executor.failures = 0 if epoch % 3 == 2 else 10**6
        if executor.failures and len(executor.requests) % 3 == 2:
            executor.failures = 0
        try:
            writer.write(rows(epoch))
        except CompactionError:
            executor.failures = 0
            writer.restart()
            writer.attempt(epoch)
    writer.commit.compact_due()
    assert_table_is(writer)


def test_only_the_bucket_that_cannot_be_compacted_stops(tmp_path: Path) -> None:
    """A file of it is damaged: the error names bucket, file and cause; other buckets go on."""
    options = {"num_sorted_run__compaction_trigger": 2, "num_sorted_run__stop_trigger": 4}
    table = a_table(tmp_path, bucket=2, **options)
    writer = TableWriter(table, CompactInCaller)
    by_bucket: dict[int, list[Change]] = {0: [], 1: []}
    for change in rows(0):
        [message] = write_changes(table, [change], 0)
        by_bucket[message.bucket].append(change)
        for file in message.added_files:
            table.file_io.delete(table.paths.data_file(b"\0" * 12, message.bucket, file))
    writer.write(rows(0))
    [broken] = (tmp_path / "db.db/t/bucket-0").iterdir()
    content = broken.read_bytes()
    broken.write_bytes(content[: len(content) // 2])
    for _ in range(4):
        writer.write(by_bucket[0])
    for _ in range(8):
        writer.write(by_bucket[1])
    with pytest.raises(CompactionError) as raised:
        writer.write(by_bucket[0])
    assert broken.name in raised.value.problem
    assert "bytes, its manifest says" in raised.value.problem
    assert "\n" not in raised.value.problem
    assert raised.value.where.endswith("bucket-0")
    before = files_on_disk(table, "data-")
    writer.attempt(writer.epoch - 2)
    assert before == files_on_disk(table, "data-"), "what the failed epoch wrote is gone"
    runs = writer.commit.coordinator.back_pressure.sorted_run_counts()
    numbers = {bucket: count for (_, bucket), count in runs.items()}
    assert (numbers[0], numbers[1] <= 2) == (5, True)
    # The file is fixed: a restarted job continues.
    broken.write_bytes(content)
    writer.replay()
    writer.commit.compact_due()
    assert_table_is(writer)


def test_a_restarted_job_waits_before_it_adds_a_run_too_many(tmp_path: Path) -> None:
    """The levels of a bucket are known only when an epoch touches it."""
    options = {"num_sorted_run__compaction_trigger": 2, "num_sorted_run__stop_trigger": 2}
    writer = TableWriter(a_table(tmp_path, **options), lambda table: CompactInThreads(table, 10**6))
    for epoch in range(3):
        writer.write(rows(epoch))
    for epoch in range(3, 6):
        writer.restart()
        with pytest.raises(CompactionError, match="3 sorted runs"):
            writer.write(rows(epoch))
    writer.make_executor = CompactInThreads
    writer.replay()
    assert max(writer.commit.coordinator.back_pressure.sorted_run_counts().values()) <= 3
    writer.commit.compact_due()
    assert_table_is(writer)
