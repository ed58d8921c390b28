"""Compactions run beside epochs; the job waits for them where it must, and commits them."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from stream_app.model.files.bucket_change import BucketChange
from stream_app.model.files.compact_request import CompactRequest
from stream_app.model.snapshot import CommitKind
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.kinds.bucket_compaction import compact_bucket
from stream_app.table.versions.file_store_scan import FileStoreScan
from tests.support.jobs.compacting_table import a_table, rows
from tests.support.jobs.table_writer import (
    CompactLater,
    TableWriter,
    WorkingClock,
    assert_table_is,
)
from tests.support.tables.snapshot_chain import check_chain

pytestmark = pytest.mark.usefixtures("unsynced")


@dataclass
class CompactWhenWaitedFor:
    """An executor that compacts only while the job waits for it, so as slowly as possible."""

    table: FileStoreTable
    waiting: list[tuple[CompactRequest, Future[BucketChange]]] = field(default_factory=list)
    waits: int = 0

    def submit(self, request: CompactRequest) -> Future[BucketChange]:
        self.waiting.append((request, Future()))
        return self.waiting[-1][1]

    def work(self) -> None:
        self.waits += 1
        request, future = self.waiting.pop(0)
        future.set_result(compact_bucket(self.table, request))


def test_a_bucket_never_has_more_runs_than_one_above_the_stop_trigger(tmp_path: Path) -> None:
    options = {"num_sorted_run__compaction_trigger": 3, "num_sorted_run__stop_trigger": 4}
    table = a_table(tmp_path, bucket=2, **options)
    executor = CompactWhenWaitedFor(table)
    clock = WorkingClock(work=executor.work)
    writer = TableWriter(replace(table, clock=clock), lambda _: executor)
    most, snapshot_ids = 0, []
    for epoch in range(25):
        commit = writer.write(rows(epoch))
        assert commit is not None
        snapshot_ids += [snapshot.snapshot_id for snapshot in commit.snapshots]
        most = max(most, *writer.commit.coordinator.back_pressure.sorted_run_counts().values())
    assert most == 5
    assert executor.waits > 3
    assert snapshot_ids == list(range(1, len(snapshot_ids) + 1)), (
        "also what was committed while it waited"
    )
    writer.commit.compact_due()
    assert executor.waiting == []
    assert_table_is(writer)


def test_an_idle_commit_carries_the_last_epochs_identifier(tmp_path: Path) -> None:
    writer = TableWriter(a_table(tmp_path, num_sorted_run__compaction_trigger=2), CompactLater)
    assert writer.commit.commit_idle() is None
    assert writer.commit.compact_due() == []
    for epoch in range(3):
        writer.write(rows(epoch))
    assert isinstance(writer.executor, CompactLater)
    assert writer.commit.commit_idle() is None, "it does not wait"
    assert writer.commit.coordinator.metrics().unfinished_count == 1
    writer.executor.run()
    snapshot = writer.commit.commit_idle()
    assert snapshot is not None
    assert (snapshot.commit_kind, snapshot.commit_identifier) == (CommitKind.COMPACT, 2)
    assert writer.commit.commit_idle() is None
    assert [snapshot.commit_kind.value for snapshot in check_chain(writer.table)] == [
        "APPEND", "APPEND", "APPEND", "COMPACT",
    ]  # fmt: skip


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
