"""Compactions beside the epochs: when the job waits for them, and what becomes of failed ones."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

import pytest

from stream_app.errors import CompactionError
from stream_app.mergetree.compact.compact_executor import CompactRequest
from stream_app.mergetree.compact.compact_unit import CompactResult
from stream_app.model.snapshot import CommitKind
from stream_app.table.compact_bucket import compact_bucket
from stream_app.table.compact_coordinator import FAILURES_MAX, CompactCoordinator
from stream_app.table.file_store_scan import FileStoreScan
from stream_app.table.file_store_table import FileStoreTable
from tests.support.small_table import Change, SteppingClock, small_table
from tests.support.table_checks import check_chain
from tests.support.table_writer import (
    CompactInThreads,
    CompactLater,
    TableWriter,
    assert_table_is,
    read_rows,
)

pytestmark = pytest.mark.usefixtures("unsynced")


def a_table(folder: Path, **options: object) -> FileStoreTable:
    return small_table(folder / "db.db" / "t", "k INT, v STRING", ("k",), **options).table


def rows(epoch: int) -> list[Change]:
    return [("+I", {"k": k, "v": str(epoch)}) for k in range(20)]


@dataclass
class CompactWhenWaitedFor:
    """The slowest executor there is: it works only while the job stands still for it."""

    table: FileStoreTable
    waiting: list[tuple[CompactRequest, Future[CompactResult]]] = field(default_factory=list)
    waits: int = 0

    def submit(self, request: CompactRequest) -> Future[CompactResult]:
        self.waiting.append((request, Future()))
        return self.waiting[-1][1]

    def work(self) -> None:
        self.waits += 1
        request, future = self.waiting.pop(0)
        future.set_result(compact_bucket(self.table, request))


def test_a_bucket_never_has_more_runs_than_one_above_the_stop_trigger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"num_sorted_run__compaction_trigger": 3, "num_sorted_run__stop_trigger": 4}
    writer = TableWriter(a_table(tmp_path, bucket=2, **options), CompactWhenWaitedFor)
    executor = writer.executor
    assert isinstance(executor, CompactWhenWaitedFor)
    monkeypatch.setattr(CompactCoordinator, "wait_for_any", lambda _: executor.work())
    most, told = 0, []
    for epoch in range(25):
        commit = writer.write(rows(epoch))
        assert commit is not None
        told += [snapshot.snapshot_id for snapshot in commit.snapshots]
        most = max(most, *writer.commit.sorted_runs().values())
    assert most == 5
    assert executor.waits > 3
    assert told == list(range(1, len(told) + 1)), "also what was committed while it waited"
    writer.commit.drain()
    assert executor.waiting == []
    assert_table_is(writer)


@pytest.mark.parametrize("failures", [1, 2])
def test_a_compaction_that_failed_is_tried_again(tmp_path: Path, failures: int) -> None:
    table = a_table(tmp_path, num_sorted_run__compaction_trigger=2)
    writer = TableWriter(table, lambda one: CompactInThreads(one, failures=failures))
    for epoch in range(6):
        writer.write(rows(epoch))
        writer.commit.drain()
    assert set(writer.commit.sorted_runs().values()) <= {1, 2}
    assert_table_is(writer)


def test_a_bucket_that_cannot_be_compacted_stops_the_job_at_the_stop_trigger(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Until then it is written, whatever fails."""
    options = {"num_sorted_run__compaction_trigger": 2, "num_sorted_run__stop_trigger": 6}
    writer = TableWriter(a_table(tmp_path, **options), lambda one: CompactInThreads(one, 10**6))
    for epoch in range(7):
        writer.write(rows(epoch))
        writer.commit.drain()
    assert set(writer.commit.sorted_runs().values()) == {7}
    with pytest.raises(CompactionError, match=rf"7 sorted runs .* {FAILURES_MAX} times") as told:
        writer.write(rows(7))
    assert "bucket-0" in told.value.where
    assert "no executor is left" in caplog.text
    assert read_rows(writer.table) == [row for _, row in rows(6)]
    # Whoever mends it goes on.
    writer.executor_of = CompactInThreads
    writer.replay()
    writer.commit.drain()
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
    writer.commit.drain()
    assert_table_is(writer)


def test_a_write_only_table_is_not_compacted_and_never_waits(tmp_path: Path) -> None:
    table = a_table(tmp_path, write_only="true", num_sorted_run__stop_trigger=2)
    writer = TableWriter(table, CompactLater)
    for epoch in range(10):
        writer.write(rows(epoch))
    assert writer.commit.drain() == []
    assert isinstance(writer.executor, CompactLater)
    assert writer.executor.waiting == []
    assert set(writer.commit.sorted_runs().values()) == {10}
    assert_table_is(writer)


def test_an_idle_commit_carries_the_last_epochs_identifier(tmp_path: Path) -> None:
    writer = TableWriter(a_table(tmp_path, num_sorted_run__compaction_trigger=2), CompactLater)
    assert writer.commit.commit_idle() is None
    assert writer.commit.drain() == []
    for epoch in range(3):
        writer.write(rows(epoch))
    assert isinstance(writer.executor, CompactLater)
    assert writer.commit.commit_idle() is None, "it does not wait"
    assert writer.commit.compactions_running() == 1
    writer.executor.run()
    snapshot = writer.commit.commit_idle()
    assert snapshot is not None
    assert (snapshot.commit_kind, snapshot.commit_identifier) == (CommitKind.COMPACT, 2)
    assert writer.commit.commit_idle() is None
    assert [one.commit_kind.value for one in check_chain(writer.table)] == [
        "APPEND", "APPEND", "APPEND", "COMPACT",
    ]  # fmt: skip


def test_wait_compaction_leaves_nothing_to_do(tmp_path: Path) -> None:
    options = {"num_sorted_run__compaction_trigger": 2, "prepare_commit__wait_compaction": "true"}
    writer = TableWriter(a_table(tmp_path, **options), CompactInThreads)
    for epoch in range(5):
        committed = writer.write(rows(epoch))
        assert committed is not None
        kinds = [snapshot.commit_kind for snapshot in committed.snapshots]
        assert kinds == [CommitKind.APPEND] + [CommitKind.COMPACT] * (epoch > 0)
        assert {snapshot.commit_identifier for snapshot in committed.snapshots} == {epoch}
        assert writer.commit.compactions_running() == 0
        assert set(writer.commit.sorted_runs().values()) == {1}


def test_the_base_list_stays_short_over_many_commits(tmp_path: Path) -> None:
    table = a_table(tmp_path, num_sorted_run__compaction_trigger=3, manifest__merge_min_count=10)
    writer = TableWriter(table)
    for epoch in range(110):
        writer.write(rows(epoch)[: 1 + epoch % 3])
    scan = FileStoreScan(writer.table)
    lengths, entries = [], []
    for snapshot in check_chain(writer.table):
        metas = scan.manifests(snapshot)
        lengths.append(len(metas))
        entries.append(sum(meta.num_added_files + meta.num_deleted_files for meta in metas))
    assert max(lengths) <= 14
    # ADD and DELETE of a file vanish together, so entries do not gather either.
    assert max(entries[-40:]) <= max(entries[40:80])
    assert_table_is(writer)


def test_a_small_bucket_is_one_run_after_each_epoch(tmp_path: Path) -> None:
    writer = TableWriter(a_table(tmp_path, compaction__total_size_threshold="1 gb"))
    for epoch in range(3):
        writer.write(rows(epoch))
        writer.commit.drain()
        assert set(writer.commit.sorted_runs().values()) == {1}
    assert_table_is(writer)


def test_off_peak_hours_are_told_by_the_clock(tmp_path: Path) -> None:
    """Four runs, each larger than all before it: too large but off-peak."""
    options = {
        "compaction__offpeak__start__hour": 22,
        "compaction__offpeak__end__hour": 6,
        "compaction__offpeak_ratio": 100_000,
        "num_sorted_run__compaction_trigger": 4,
        "compaction__max_size_amplification_percent": 100_000,
    }
    picked = {}
    for hour in (12, 23):
        table = a_table(tmp_path / str(hour), **options)
        now = datetime(2026, 1, 5, hour, 30).astimezone()
        table = replace(table, clock=SteppingClock(int(now.timestamp() * 1000)))
        writer = TableWriter(table, CompactLater)
        for count in (4_000, 900, 150, 1):
            changes: list[Change] = [("+I", {"k": k, "v": str(k * 7919)}) for k in range(count)]
            writer.write(changes)
        picked[hour] = writer.commit.compactions_running()
    assert picked == {12: 0, 23: 1}
