"""The next job compacts the committed rows that readers cannot see yet, from any writer.

A job dies between an epoch's APPEND and its COMPACT, and no row comes for those buckets again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from stream_app.app.inspect.job_status import with_waiting_rows
from stream_app.app.inspect.table_status import JobTableState, TableStatus
from stream_app.errors import CompactionError
from stream_app.mergetree.compact.compact_executor import CompactExecutor
from stream_app.model.files.bucket_change import BucketChange
from stream_app.model.files.compact_request import CompactRequest
from stream_app.model.finding import Finding, FindingKind
from stream_app.model.snapshot import BATCH_COMMIT_IDENTIFIER
from stream_app.planning.compact.waiting_rows import waiting_buckets
from stream_app.table.check.table_check import TableCheck
from stream_app.table.compact.buckets.rest_times import REST_S
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.job.stream_table_commit import StreamTableCommit
from stream_app.table.job.table_job import TableJob
from stream_app.table.versions.file_store_scan import FileStoreScan
from stream_app.table.versions.waiting_row_count import count_waiting_rows
from tests.support.jobs.compacting_table import rows
from tests.support.jobs.table_writer import CompactInCaller, TableWriter, read_changes, read_rows
from tests.support.tables.small_table import Change, StandingClock, small_table, write_changes

pytestmark = pytest.mark.usefixtures("unsynced")
FIRST = {"merge_engine": "first-row", "ignore_delete": True}
VECTORS = {"deletion_vectors__enabled": True}
LOOKUP = {"changelog_producer": "lookup"}
GENTLE = {**LOOKUP, "lookup_compact": "gentle"}
WHOLE = {"changelog_producer": "full-compaction"}
SELDOM = {**WHOLE, "full_compaction__delta_commits": 5}
DYNAMIC = {"bucket": -1, "dynamic_bucket__target_row_num": 8}
KINDS: dict[str, dict[str, Any]] = {
    "first-row": FIRST,
    "first-row with its changelog": {**FIRST, **LOOKUP},
    "deletion vectors": VECTORS,
    "vectors and flushed changes": {**VECTORS, "changelog_producer": "input"},
    "lookup": LOOKUP,
    "lookup without waiting": {**LOOKUP, "lookup_wait": False},
    "lookup, gentle": GENTLE,
    "full compaction": WHOLE,
    "full compaction, seldom": SELDOM,
    "dynamic buckets": {**LOOKUP, **DYNAMIC},
    "vectors in dynamic buckets": {**VECTORS, **DYNAMIC},
}
BY_OPTION = ["lookup, gentle", "full compaction, seldom"]
"""Rows wait for a number of epochs, while these come."""
NOTHING_WAITS: dict[str, dict[str, Any]] = {
    "deduplicate": {},
    "flushed changes": {"changelog_producer": "input"},
    "sums": {"merge_engine": "aggregation"},
}
ROWS = [row for _, row in rows(0)]


class DiedError(BaseException):
    """The process is gone."""


@dataclass
class DiesThere:
    """The process dies when the epoch's first compaction begins: its APPEND is committed."""

    table: FileStoreTable

    def submit(self, request: CompactRequest) -> Future[BucketChange]:
        raise DiedError


@dataclass
class FullDisk:
    """The disk has no space for compactions, until the test frees some."""

    table: FileStoreTable
    is_full: bool = True
    try_count: int = field(default=0)

    def submit(self, request: CompactRequest) -> Future[BucketChange]:
        self.try_count += 1
        if not self.is_full:
            return CompactInCaller(self.table).submit(request)
        future: Future[BucketChange] = Future()
        future.set_exception(OSError(28, "No space left on device"))
        return future


def a_table(folder: Path, options: dict[str, Any]) -> FileStoreTable:
    path, options = folder / "db.db" / "t", {"bucket": 2, **options}
    table = small_table(path, "k INT, v STRING", ("k",), **options).table
    return replace(table, clock=StandingClock())


def writer_after_death(
    table: FileStoreTable,
    executor: Callable[[FileStoreTable], CompactExecutor] = DiesThere,
    changes: list[Change] | None = None,
    user: str = "writer",
) -> TableWriter:
    """A writer that is started again, and whose process died behind its APPEND."""
    writer = TableWriter(table, executor, user)
    with contextlib.suppress(DiedError):
        writer.write(rows(0) if changes is None else changes)
    table.clock.sleep(60)
    writer.make_executor = CompactInCaller
    writer.restart()
    return writer


def waiting(table: FileStoreTable) -> int:
    return count_waiting_rows(table, table.snapshots.latest())


def check_all_is_seen(table: FileStoreTable) -> None:
    assert waiting(table) == 0
    assert sorted(read_rows(table), key=lambda row: row["k"]) == ROWS
    if table.options.writes_changelog:
        changes = [change for of_epoch in read_changes(table).values() for change in of_epoch]
        assert sorted(row["k"] for _, row in changes) == list(range(20))
    assert list(TableCheck(table, is_quick=False, progress=lambda *_: None).findings()) == []


@pytest.mark.parametrize("kind", KINDS)
def test_the_next_run_compacts_before_it_ends(tmp_path: Path, kind: str) -> None:
    table = a_table(tmp_path, KINDS[kind])
    writer = writer_after_death(table)
    assert waiting(table) == 20
    if table.skips_level0:
        assert read_rows(table) == []
    writer.commit.compact_due()
    check_all_is_seen(table)
    before = table.snapshots.latest_id()
    writer.restart()
    assert writer.commit.compact_due() == [], "there is nothing left to do"
    assert table.snapshots.latest_id() == before


@pytest.mark.parametrize("kind", KINDS)
def test_a_job_whose_source_is_idle_compacts_at_its_start(tmp_path: Path, kind: str) -> None:
    table = a_table(tmp_path, KINDS[kind])
    writer = writer_after_death(table)
    for _ in range(10):
        writer.commit.commit_idle()
    check_all_is_seen(table)


@pytest.mark.parametrize("kind", KINDS)
def test_a_job_that_only_compacts_takes_waiting_rows(tmp_path: Path, kind: str) -> None:
    """The job compacts as `stream-app compact TABLE` does."""
    table = a_table(tmp_path, KINDS[kind])
    writer_after_death(table)
    compacting = CompactInCaller(table)
    StreamTableCommit(table, "compactor", compacting, BATCH_COMMIT_IDENTIFIER).compact_due()
    check_all_is_seen(table)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if "dynamic" not in kind])
def test_an_epoch_for_one_bucket_leaves_no_other_unseen(tmp_path: Path, kind: str) -> None:
    table = a_table(tmp_path, KINDS[kind])
    writer = writer_after_death(table)
    for _ in range(2):
        writer.write(rows(0)[:1])
    live = FileStoreScan(table).live(table.snapshots.latest())
    buckets = {
        bucket for _, bucket in waiting_buckets(live, table.visibility, table.options.num_levels)
    }
    [touched_bucket] = {change.bucket for change in write_changes(table, rows(0)[:1], 0)}
    by_option = {touched_bucket} if kind in BY_OPTION or "without" in kind else set()
    assert buckets <= by_option


@pytest.mark.parametrize("kind", NOTHING_WAITS)
def test_nothing_waits_where_readers_merge_level_0(tmp_path: Path, kind: str) -> None:
    table = a_table(tmp_path, NOTHING_WAITS[kind])
    writer = writer_after_death(table)
    assert waiting(table) == 0
    assert len(read_rows(table)) == 20
    writer.commit.compact_due()
    assert writer.executor.requests == []  # type: ignore[attr-defined]


@pytest.mark.parametrize("kind", BY_OPTION)
def test_rows_wait_for_later_epochs_only_while_epochs_come(tmp_path: Path, kind: str) -> None:
    table = a_table(tmp_path, KINDS[kind])
    writer = TableWriter(table, CompactInCaller)
    writer.write(rows(0))
    table.clock.sleep(REST_S - 1)
    for _ in range(10):
        writer.commit.commit_idle()
    assert waiting(table) == 20
    table.clock.sleep(20)
    for _ in range(10):
        writer.commit.commit_idle()
    check_all_is_seen(table)


@pytest.mark.parametrize("kind", ["first-row", "deletion vectors", "lookup", "full compaction"])
def test_rows_of_a_writer_that_died_meanwhile_are_found(tmp_path: Path, kind: str) -> None:
    """Rows of Paimon's Java or of a replay are such: no compaction of theirs follows."""
    table = a_table(tmp_path, KINDS[kind])
    job = TableWriter(table, CompactInCaller, "job")
    job.write([])
    writer_after_death(table, user="other")
    assert waiting(table) == 20
    for _ in range(10):
        table.clock.sleep(60)
        job.commit.commit_idle()
    check_all_is_seen(table)


@pytest.mark.parametrize("kind", ["first-row", "deletion vectors", "lookup", "full compaction"])
def test_a_run_does_not_end_well_while_rows_wait(tmp_path: Path, kind: str) -> None:
    table = a_table(tmp_path, KINDS[kind])
    writer_after_death(table)
    disk = FullDisk(table)
    job = TableJob(table, lambda _: disk)
    job.open("writer")
    job.compact_due()
    with pytest.raises(CompactionError, match="20 rows wait for a compaction") as raised:
        job.check_no_row_waits()
    assert "No space left on device" in raised.value.problem
    assert disk.try_count >= 3
    metrics = job.compaction_metrics()
    assert metrics is not None
    assert metrics.waiting_rows == 20
    disk.is_full = False
    table.clock.sleep(600)
    for _ in range(10):
        job.while_idle()
    job.check_no_row_waits()
    check_all_is_seen(table)


def test_a_write_only_job_leaves_waiting_rows_to_the_compacting_one(tmp_path: Path) -> None:
    table = a_table(tmp_path, {**LOOKUP, "write_only": True})
    writer_after_death(table)
    job = TableJob(table, FullDisk)
    job.open("writer")
    job.compact_due()
    job.check_no_row_waits()
    [finding] = quick_findings(table)
    assert "`stream-app compact TABLE --follow`" in finding.fix


@pytest.mark.parametrize("kind", KINDS)
def test_check_and_status_count_the_rows_that_wait(tmp_path: Path, kind: str) -> None:
    table = a_table(tmp_path, KINDS[kind])
    writer = writer_after_death(table)
    [finding] = quick_findings(table)
    assert finding.kind is FindingKind.WAITING_ROWS
    assert finding.problem.startswith("20 rows wait for a compaction: ")
    status = with_waiting_rows(TableStatus(table="t", state=JobTableState.READY), waiting(table))
    assert (status.state, status.reason) == (JobTableState.WAITING, "20 rows wait for a compaction")
    writer.commit.compact_due()
    assert quick_findings(table) == []


def test_rows_that_a_compaction_is_about_to_take_are_not_counted(tmp_path: Path) -> None:
    """A compaction of the rows is under way, so an operator need not act."""
    table = a_table(tmp_path, LOOKUP)
    writer = TableWriter(table, DiesThere)
    with contextlib.suppress(DiedError):
        writer.write(rows(0))
    assert waiting(table) == 0
    with contextlib.suppress(DiedError):
        writer.write(rows(1))
    assert waiting(table) == 20, "those of the epoch before"
    table.clock.sleep(10)
    assert waiting(table) == 40


def quick_findings(table: FileStoreTable) -> list[Finding]:
    return list(TableCheck(table, is_quick=True, progress=lambda *_: None).findings())


@pytest.mark.parametrize("kind", ["first-row", "deletion vectors", "lookup", "full compaction"])
def test_a_job_without_an_epoch_leaves_waiting_rows_and_ends_well(
    tmp_path: Path, kind: str
) -> None:
    """The job would have no identifier for the commit of compactions."""
    table = a_table(tmp_path, KINDS[kind])
    writer_after_death(table, user="other")
    executor = CompactInCaller(table)
    job = TableJob(table, lambda _: executor)
    job.open("a job whose topic is empty")
    job.while_idle()
    job.compact_due()
    job.check_no_row_waits()
    assert executor.requests == []


@dataclass
class NeverAlone:
    """Whenever a compaction has begun, another writer commits to its bucket."""

    table: FileStoreTable
    begun: int = 0

    def submit(self, request: CompactRequest) -> Future[BucketChange]:
        self.begun += 1
        assert self.begun < 60, "the compactions do not end"
        future = CompactInCaller(self.table).submit(request)
        write_only_table = self.table.with_options({"write-only": "true"})
        TableWriter(write_only_table, CompactInCaller, f"other {self.begun}").write(rows(0))
        return future


@pytest.mark.parametrize("kind", ["first-row", "lookup", "full compaction"])
def test_a_run_ends_well_while_another_writer_goes_on(tmp_path: Path, kind: str) -> None:
    table = a_table(tmp_path, KINDS[kind])
    writer_after_death(table)
    job = TableJob(table, NeverAlone)
    job.open("writer")
    job.compact_due()
    job.check_no_row_waits()
