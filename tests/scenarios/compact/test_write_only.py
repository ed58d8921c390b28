"""A write-only job leaves its compactions to another job."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from stream_app.errors import CompactionError
from stream_app.model.snapshot import BATCH_COMMIT_IDENTIFIER
from stream_app.table.job.stream_table_commit import StreamTableCommit
from tests.support.jobs.compacting_table import a_table, rows
from tests.support.jobs.table_writer import (
    CompactInCaller,
    CompactLater,
    TableWriter,
    assert_table_is,
)
from tests.support.tables.small_table import SteppingClock

pytestmark = pytest.mark.usefixtures("unsynced")


def test_a_write_only_table_is_not_compacted_and_never_waits(tmp_path: Path) -> None:
    table = a_table(tmp_path, write_only="true", num_sorted_run__stop_trigger=2)
    writer = TableWriter(table, CompactLater)
    for epoch in range(10):
        writer.write(rows(epoch))
    assert writer.commit.compact_due() == []
    assert isinstance(writer.executor, CompactLater)
    assert writer.executor.waiting == []
    assert set(writer.commit.coordinator.back_pressure.sorted_run_counts().values()) == {10}
    assert_table_is(writer)


@dataclass
class CompactsMeanwhile(SteppingClock):
    """Whenever a writer waits, the other job compacts."""

    def __init__(self, job: StreamTableCommit) -> None:
        super().__init__()
        self.job = job

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        self.job.compact_fully()


def test_a_write_only_job_waits_for_the_job_that_compacts(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    options = {"write_only": "true", "write_only__stop_trigger": 6}
    table = a_table(tmp_path, **options)
    writer = TableWriter(table, CompactLater)
    compactor = StreamTableCommit(
        table.with_options({"write-only": "false"}),
        "compactor",
        CompactInCaller(table),
        last_identifier=BATCH_COMMIT_IDENTIFIER,
    )

    for epoch in range(7):
        writer.write(rows(epoch))
    assert "7 sorted runs" not in caplog.text
    assert "this job is write-only and waits beyond 6" in caplog.text
    writer.table = replace(writer.table, clock=CompactsMeanwhile(compactor))
    writer.restart()
    writer.commit.state.follow_and_load(None)
    writer.write(rows(7))
    assert set(writer.commit.coordinator.back_pressure.sorted_run_counts().values()) == {2}
    assert_table_is(writer)


def test_a_write_only_job_ends_without_a_compaction(tmp_path: Path) -> None:
    options = {
        "write_only": "true",
        "write_only__stop_trigger": 3,
        "write_only__compactor_timeout": "1 min",
    }
    writer = TableWriter(a_table(tmp_path, **options), CompactLater)
    for epoch in range(7):  # 3 would be fewer than another job begins with
        writer.write(rows(epoch))
    with pytest.raises(CompactionError, match="no job has compacted the table for 60 s"):
        writer.write(rows(7))
