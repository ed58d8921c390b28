"""Compactors of append tables drop plans that other compactors have overtaken."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from stream_app.model.snapshot import BATCH_COMMIT_IDENTIFIER
from stream_app.table.compact.append.append_planner import AppendCompactPlanner
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.job.stream_table_commit import StreamTableCommit
from stream_app.table.versions.file_store_scan import FileStoreScan
from tests.support.jobs.compacting_table import wait_for_plan
from tests.support.jobs.table_writer import (
    CompactInCaller,
    TableWriter,
    by_content,
    read_rows,
)
from tests.support.tables.deleted_rows import delete_some
from tests.support.tables.small_table import Change, small_table
from tests.support.tables.snapshot_chain import check_chain

pytestmark = pytest.mark.usefixtures("unsynced")


def a_table(folder: Path, *by: str, **options: Any) -> FileStoreTable:
    columns = "k INT, v STRING, dt STRING"
    return small_table(folder / "db.db" / "t", columns, (), by, **options).table


def rows(epoch: int, count: int = 20, dt: str = "a") -> list[Change]:
    return [("+I", {"k": epoch * 1000 + k, "v": str(k), "dt": dt}) for k in range(count)]


def assert_rows(writer: TableWriter) -> None:
    assert by_content(read_rows(writer.table)) == by_content(writer.model.rows())
    check_chain(writer.table)


def test_a_plan_that_another_compactor_has_overtaken_doubles_no_rows(tmp_path: Path) -> None:
    """The plan is ready, and nobody has taken it yet, when `stream-app compact` does the same."""
    writer = TableWriter(a_table(tmp_path), CompactInCaller)
    for epoch in range(5):
        writer.write(rows(epoch))
        wait_for_plan(writer.commit)
    # Five small files are planned. Now another job compacts them.
    other_compactor = StreamTableCommit(
        writer.table,
        "other",
        CompactInCaller(writer.table),
        last_identifier=BATCH_COMMIT_IDENTIFIER,
    )
    assert other_compactor.compact_fully()
    for epoch in range(5, 8):
        writer.write(rows(epoch))
    assert_rows(writer)


@pytest.mark.parametrize("starts_anew", [False, True])
def test_files_that_are_gone_when_they_are_tried_again_are_not_planned(
    tmp_path: Path, starts_anew: bool
) -> None:
    """A task has failed; until its time comes, another job compacts its files."""
    writer = TableWriter(a_table(tmp_path, write_only=True), CompactInCaller)
    for epoch in range(5):
        writer.write(rows(epoch))
    table = writer.table.with_options({"write-only": "false"})
    planner = AppendCompactPlanner(table)
    [failed_task] = planner.plan().tasks
    assert len(failed_task[1]) == 5
    other_compactor = StreamTableCommit(
        table, "other", CompactInCaller(table), last_identifier=BATCH_COMMIT_IDENTIFIER
    )
    assert other_compactor.compact_fully()
    waiting = {file.file_name for file in failed_task[1]}
    assert planner.plan(excluded_names=waiting, starts_anew=starts_anew).tasks == ()
    assert planner.plan(failed_tasks=[failed_task]).tasks == ()
    for epoch in range(5, 9):
        writer.write(rows(epoch))
    [(_, files)] = planner.plan(failed_tasks=[failed_task]).tasks
    assert waiting.isdisjoint(file.file_name for file in files)


def test_a_round_that_begins_anew_forgets_what_it_has_found(tmp_path: Path) -> None:
    """Snapshots bring small files, then a deletion of rows, then a compaction of these files."""
    table = a_table(tmp_path, deletion_vectors__enabled=True, compaction__min__file_num=2)
    writer = TableWriter(table.with_options({"write-only": "true"}), CompactInCaller)
    writer.write(rows(0))
    planner = AppendCompactPlanner(table)
    assert planner.plan().tasks == ()
    for epoch in range(1, 4):
        writer.write(rows(epoch))
    assert delete_some(table, random.Random(1))
    other_compactor = StreamTableCommit(
        table, "other", CompactInCaller(table), last_identifier=BATCH_COMMIT_IDENTIFIER
    )
    assert other_compactor.compact_fully()
    for epoch in range(4, 7):
        writer.write(rows(epoch))
    live = {entry.file.file_name for entry in FileStoreScan(table).live(table.snapshots.latest())}
    [(_, files)] = planner.plan().tasks
    names = [file.file_name for file in files]
    assert set(names) <= live
    assert len(names) == len(set(names)) >= 3


def test_limit_of_files_in_a_round(tmp_path: Path) -> None:
    """A round that stops in the middle of an old snapshot hands out files that are gone."""
    table = a_table(tmp_path)
    plain = table.with_options({"compaction.file-num-limit": "5", "write-only": "true"})
    writer = TableWriter(plain, CompactInCaller)
    for epoch in range(15):
        writer.write(rows(epoch))
    writer.table = table.with_options({"compaction.file-num-limit": "5"})
    writer.restart()
    writer.write([])  # plans the first five
    wait_for_plan(writer.commit)
    other_compactor = StreamTableCommit(
        table, "other", CompactInCaller(table), last_identifier=BATCH_COMMIT_IDENTIFIER
    )
    assert other_compactor.compact_fully()
    writer.commit.commit_idle()
    for epoch in range(16, 24):
        writer.write(rows(epoch))
        wait_for_plan(writer.commit)
    assert_rows(writer)


def test_idle_partitions_are_compacted_when_their_time_has_come(tmp_path: Path) -> None:
    """compact --follow --partition-idle-time: first nothing is idle, later the partition is."""
    table = a_table(tmp_path, "dt", compaction__min__file_num=3)
    writer = TableWriter(table.with_options({"write-only": "true"}), CompactInCaller)
    for epoch in range(5):
        writer.write(rows(epoch))
    follower = StreamTableCommit(
        table, "other", CompactInCaller(table), last_identifier=BATCH_COMMIT_IDENTIFIER
    )
    follower.state.follow_and_load(set())
    follower.coordinator.restrict(set())
    assert follower.compact_due() == []
    latest = table.snapshots.latest()
    buckets = {e.bucket_id for e in FileStoreScan(table).live(latest)}
    follower.state.follow_and_load(buckets)
    follower.coordinator.restrict({partition for partition, _ in buckets})
    follower.compact_due()
    assert len(FileStoreScan(table).live(table.snapshots.latest())) == 1
