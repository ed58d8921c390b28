"""A job computes the right numbers about its compactions, also with real files."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from stream_app.model.files.bucket_change import BucketChange
from stream_app.model.files.compact_request import CompactRequest
from stream_app.model.snapshot import BATCH_COMMIT_IDENTIFIER, CommitKind
from stream_app.table.compact.buckets.bucket_coordinator import BucketCoordinator
from stream_app.table.compact.compaction_metrics import CompactionMetrics, CompactionTally
from stream_app.table.compact.compaction_report import CompactionReport
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.job.stream_table_commit import StreamTableCommit
from stream_app.table.kinds.bucket_compaction import compact_bucket
from stream_app.table.versions.file_store_scan import FileStoreScan
from tests.support.jobs.compacting_table import a_table, rows
from tests.support.jobs.table_writer import (
    CompactInCaller,
    CompactInThreads,
    CompactLater,
    TableWriter,
    WorkingClock,
)
from tests.support.tables.lsm_files import a_file
from tests.support.tables.small_table import StandingClock, SteppingClock

pytestmark = pytest.mark.usefixtures("unsynced")


def a_report(bytes_in: int, bytes_out: int, seconds: float) -> CompactionReport:
    return CompactionReport(
        partition="", bucket=0, reason="size ratio", levels=(0, 0), output_level=5, files_in=2,
        bytes_in=bytes_in, files_out=1, bytes_out=bytes_out, upgraded=0, seconds=seconds,
    )  # fmt: skip


def test_before_anything_has_happened() -> None:
    metrics = CompactionTally().metrics(CompactionMetrics())
    assert metrics == CompactionMetrics()
    assert metrics.write_amplification is None


def test_the_metrics_count_the_compactions_in_each_state() -> None:
    """A begun compaction is queued, running, finished, completed, failed or dropped."""
    tally = CompactionTally()
    tally.add_compactions([a_report(100, 60, 1.0), a_report(20, 10, 2.0)])
    present = CompactionMetrics(
        buckets=3,
        queued_count=3,
        running_count=1,
        finished_count=1,
        failed_count=2,
        dropped_count=4,
    )
    metrics = tally.metrics(present)
    assert metrics.buckets == 3
    assert (metrics.queued_count, metrics.running_count, metrics.completed_count) == (3, 1, 2)
    assert (metrics.failed_count, metrics.dropped_count, metrics.begun_count) == (2, 4, 13)


def test_the_metrics_give_the_write_amplification() -> None:
    tally = CompactionTally()
    files = (a_file(file_size=100), a_file(file_size=200))
    changelog = a_file(file_size=999)
    change = BucketChange(partition=b"", bucket=0, added_files=files, changelog_files=(changelog,))
    tally.add_flushes([change])
    tally.add_flushes([])
    assert tally.metrics(CompactionMetrics()).write_amplification == 1.0
    tally.add_compactions([a_report(300, 250, 0.5)])
    tally.add_compactions([a_report(250, 200, 1.5)])
    metrics = tally.metrics(CompactionMetrics())
    assert (metrics.bytes_in, metrics.bytes_out, metrics.flushed_byte_count) == (550, 450, 300)
    assert metrics.write_amplification == 2.5
    assert metrics.run_s == 2.0


def test_a_job_from_queued_to_completed(tmp_path: Path) -> None:
    writer = TableWriter(a_table(tmp_path, num_sorted_run__compaction_trigger=3), CompactLater)
    executor = writer.executor
    assert isinstance(executor, CompactLater)
    for epoch in range(3):
        writer.write(rows(epoch))
    metrics = writer.commit.compaction_metrics()
    assert (metrics.level0_files_max, metrics.sorted_runs_max) == (3, 3)
    assert (
        metrics.queued_count,
        metrics.running_count,
        metrics.begun_count,
        metrics.completed_count,
    ) == (1, 0, 1, 0)
    assert metrics.write_amplification == 1.0

    [(_, future)] = executor.waiting
    future.set_running_or_notify_cancel()
    metrics = writer.commit.compaction_metrics()
    assert (metrics.queued_count, metrics.running_count, metrics.begun_count) == (0, 1, 1)
    executor.run()
    metrics = writer.commit.compaction_metrics()
    assert (metrics.running_count, metrics.begun_count, metrics.completed_count) == (0, 1, 0), (
        "not committed yet"
    )

    writer.commit.commit_idle()
    metrics = writer.commit.compaction_metrics()
    on_disk = {
        file.name: file.stat().st_size for file in Path(writer.table.location).rglob("data-*")
    }
    assert (metrics.begun_count, metrics.completed_count) == (1, 1)
    assert (metrics.level0_files_max, metrics.sorted_runs_max) == (0, 1)
    # The files that went in are still there, for older snapshots.
    assert metrics.flushed_byte_count + metrics.bytes_out == sum(on_disk.values())
    assert metrics.bytes_in == metrics.flushed_byte_count


def test_the_tables_size_follows_all_commits(tmp_path: Path) -> None:
    """Our epochs and compactions, and those of another writer; never by reading the table again."""
    table = a_table(tmp_path, num_sorted_run__compaction_trigger=3)
    writer = TableWriter(table, CompactInCaller)
    other_commit = StreamTableCommit(
        table, "other", CompactInCaller(table), last_identifier=BATCH_COMMIT_IDENTIFIER
    )
    for epoch in range(5):
        writer.write(rows(epoch))
        writer.commit.commit_idle()
        if epoch == 3:
            other_commit.compact_fully()
            writer.commit.state.follow_and_load(())
        live = FileStoreScan(table).live(table.snapshots.latest())
        metrics = writer.commit.compaction_metrics()
        assert metrics.file_count == len(live)
        assert metrics.byte_count == sum(entry.file.file_size for entry in live)


def test_ages_of_waiting_and_running_compactions(tmp_path: Path) -> None:
    clock = StandingClock()
    writer = TableWriter(a_table(tmp_path, num_sorted_run__compaction_trigger=2), CompactLater)
    assert isinstance(writer.executor, CompactLater)
    assert isinstance(writer.commit.coordinator, BucketCoordinator)
    writer.commit.coordinator.age_clock = clock
    for epoch in range(2):
        writer.write(rows(epoch))
    clock.sleep(90)
    metrics = writer.commit.compaction_metrics()
    assert (metrics.oldest_queued_age_s, metrics.oldest_running_age_s) == (90, 0)
    [(_, future)] = writer.executor.waiting
    future.set_running_or_notify_cancel()
    clock.sleep(5)
    metrics = writer.commit.compaction_metrics()
    assert (metrics.oldest_queued_age_s, metrics.oldest_running_age_s) == (0, 95)
    writer.executor.run()
    assert writer.commit.compaction_metrics().oldest_running_age_s == 0


def test_failures_are_counted(tmp_path: Path) -> None:
    table = a_table(tmp_path, num_sorted_run__compaction_trigger=2)
    writer = TableWriter(table, lambda table: CompactInThreads(table, failures=2))
    for epoch in range(2):
        writer.write(rows(epoch))
    writer.commit.compact_due()
    metrics = writer.commit.compaction_metrics()
    assert (metrics.begun_count, metrics.failed_count, metrics.completed_count) == (3, 2, 1)


def test_lost_conflicts_are_counted(tmp_path: Path) -> None:
    slow = TableWriter(a_table(tmp_path, num_sorted_run__compaction_trigger=2), CompactLater)
    for epoch in range(2):
        slow.write(rows(epoch))
    StreamTableCommit(
        slow.table, "quick", CompactInCaller(slow.table), last_identifier=BATCH_COMMIT_IDENTIFIER
    ).compact_fully()
    assert isinstance(slow.executor, CompactLater)
    slow.executor.run()
    assert slow.commit.commit_idle() is None
    metrics = slow.commit.compaction_metrics()
    assert (metrics.begun_count, metrics.dropped_count, metrics.completed_count) == (1, 1, 0)
    assert (metrics.bytes_out, metrics.sorted_runs_max) == (0, 1)


@dataclass
class CompactWhenWaitedFor:
    """Works only while the job stands still for it, seven seconds at a time."""

    table: FileStoreTable
    waiting: list[tuple[CompactRequest, Future[BucketChange]]] = field(default_factory=list)

    def submit(self, request: CompactRequest) -> Future[BucketChange]:
        self.waiting.append((request, Future()))
        return self.waiting[-1][1]

    def work(self) -> None:
        self.table.clock.sleep(7)
        request, future = self.waiting.pop(0)
        future.set_result(compact_bucket(self.table, request))


def test_back_pressure_is_measured(tmp_path: Path) -> None:
    options = {"num_sorted_run__compaction_trigger": 2, "num_sorted_run__stop_trigger": 3}
    table = a_table(tmp_path, **options)
    executor = CompactWhenWaitedFor(table)
    clock = WorkingClock(work=executor.work)
    executor.table = replace(table, clock=clock)
    writer = TableWriter(executor.table, lambda _: executor)
    for epoch in range(4):
        writer.write(rows(epoch))
    assert writer.commit.compaction_metrics().waited_s == 0
    outcome = writer.write(rows(4))
    assert outcome is not None
    assert CommitKind.COMPACT in {snapshot.commit_kind for snapshot in outcome.snapshots}
    assert isinstance(writer.table.clock, SteppingClock)
    # Each look at that clock takes a second too.
    assert 7 <= writer.commit.compaction_metrics().waited_s <= 20
