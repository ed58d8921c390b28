"""The job publishes finished compactions with the next epoch, or several together."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stream_app.model.snapshot import CommitKind
from stream_app.table.job.table_job import GATHER_S
from stream_app.table.kinds.bucket_compaction import compact_bucket
from tests.support.jobs.compacting_table import a_table, rows
from tests.support.jobs.table_writer import CompactLater, TableWriter, assert_table_is
from tests.support.tables.small_table import StandingClock
from tests.support.tables.snapshot_chain import check_chain

pytestmark = pytest.mark.usefixtures("unsynced")


def a_writer(folder: Path, **options: Any) -> tuple[TableWriter, CompactLater, StandingClock]:
    clock = StandingClock()
    table = a_table(folder, bucket=4, num_sorted_run__compaction_trigger=2, **options)
    writer = TableWriter(replace(table, clock=clock), CompactLater)
    assert isinstance(writer.executor, CompactLater)
    return writer, writer.executor, clock


def finish_one(executor: CompactLater) -> None:
    if executor.waiting:
        request, future = executor.waiting.pop(0)
        future.set_result(compact_bucket(executor.table, request))


def kinds(writer: TableWriter) -> Counter[CommitKind]:
    return Counter(snapshot.commit_kind for snapshot in check_chain(writer.table))


@pytest.mark.parametrize(("gather_wait_s", "least", "most"), [(0.0, 30, 40), (GATHER_S, 5, 10)])
def test_epochs_take_along_what_has_finished(
    tmp_path: Path, gather_wait_s: float, least: int, most: int
) -> None:
    writer, executor, clock = a_writer(tmp_path)
    for epoch in range(10):
        writer.write(rows(epoch))
        for _ in range(10):
            clock.sleep(0.5)
            finish_one(executor)
            writer.commit.commit_idle(gather_wait_s)
    kind_counts = kinds(writer)
    assert kind_counts[CommitKind.APPEND] == 10
    assert least <= kind_counts[CommitKind.COMPACT] <= most
    assert_table_is(writer)


def test_compactions_without_an_epoch_are_published_together(tmp_path: Path) -> None:
    writer, executor, clock = a_writer(tmp_path)
    for epoch in range(2):
        writer.write(rows(epoch))
    waiting = len(executor.waiting)
    assert waiting > 1
    for _ in range(waiting):
        finish_one(executor)
        assert writer.commit.commit_idle(GATHER_S) is None
        clock.sleep(1)
    clock.sleep(GATHER_S)
    snapshot = writer.commit.commit_idle(GATHER_S)
    assert snapshot is not None
    assert kinds(writer)[CommitKind.COMPACT] == 1
    assert len(writer.commit.published_compactions.take_reports()) == waiting
    assert_table_is(writer)


def test_rows_that_readers_wait_for_are_published_at_once(tmp_path: Path) -> None:
    writer, executor, _ = a_writer(tmp_path, changelog_producer="lookup", lookup_wait="false")
    writer.write(rows(0))
    finish_one(executor)
    assert writer.commit.commit_idle(GATHER_S) is not None


def test_compactions_for_which_a_writer_waits_are_published_at_once(tmp_path: Path) -> None:
    writer, executor, _ = a_writer(tmp_path, num_sorted_run__stop_trigger=2)
    for epoch in range(3):
        writer.write(rows(epoch))
    assert not writer.commit.relieve_back_pressure()
    finish_one(executor)
    assert writer.commit.commit_idle(GATHER_S) is not None


def test_a_stop_publishes_what_has_finished_and_begins_nothing(tmp_path: Path) -> None:
    """A job that ends does not wait for the compactions that others run."""
    writer, executor, _ = a_writer(tmp_path)
    for epoch in range(2):
        writer.write(rows(epoch))
    finish_one(executor)
    begun = len(executor.waiting)
    assert writer.commit.commit_idle(GATHER_S) is None
    assert writer.commit.publish_results() is not None
    assert writer.commit.publish_results() is None
    assert len(executor.waiting) == begun
    assert kinds(writer)[CommitKind.COMPACT] == 1
    assert_table_is(writer)
