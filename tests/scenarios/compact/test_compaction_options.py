"""Each option changes a job's compactions as its description promises."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from stream_app.errors import UsageError
from stream_app.fileio.local.local_file_io import LocalFileIO
from stream_app.model.schema.data_type import parse_columns
from stream_app.model.schema.table_schema import new_table_schema
from stream_app.model.snapshot import CommitKind
from stream_app.table.compact.compaction_report import CompactionReport, reports_of_property
from stream_app.table.versions.file_store_scan import FileStoreScan
from tests.support.jobs.compacting_table import a_table, rows
from tests.support.jobs.table_writer import (
    CompactInCaller,
    CompactInThreads,
    CompactLater,
    TableWriter,
    assert_table_is,
    read_rows,
)
from tests.support.tables.small_table import Change, SteppingClock, small_table
from tests.support.tables.snapshot_chain import check_chain

pytestmark = pytest.mark.usefixtures("unsynced")


def test_wait_compaction_leaves_nothing_to_do(tmp_path: Path) -> None:
    options = {"num_sorted_run__compaction_trigger": 2, "prepare_commit__wait_compaction": "true"}
    writer = TableWriter(a_table(tmp_path, **options), CompactInThreads)
    for epoch in range(5):
        outcome = writer.write(rows(epoch))
        assert outcome is not None
        kinds = [snapshot.commit_kind for snapshot in outcome.snapshots]
        assert kinds == [CommitKind.APPEND] + [CommitKind.COMPACT] * (epoch > 0)
        assert {snapshot.commit_identifier for snapshot in outcome.snapshots} == {epoch}
        assert writer.commit.coordinator.metrics().unfinished_count == 0
        assert set(writer.commit.coordinator.back_pressure.sorted_run_counts().values()) == {1}


def test_a_small_bucket_is_one_run_after_each_epoch(tmp_path: Path) -> None:
    writer = TableWriter(a_table(tmp_path, compaction__total_size_threshold="1 gb"))
    for epoch in range(3):
        writer.write(rows(epoch))
        writer.commit.compact_due()
        assert set(writer.commit.coordinator.back_pressure.sorted_run_counts().values()) == {1}
    assert_table_is(writer)


def test_off_peak_hours_follow_the_clock(tmp_path: Path) -> None:
    """Each of four runs is larger than all before it, which is too large except off-peak."""
    options = {
        "compaction__offpeak__start__hour": 22,
        "compaction__offpeak__end__hour": 6,
        "compaction__offpeak_ratio": 100_000,
        "num_sorted_run__compaction_trigger": 4,
        "compaction__max_size_amplification_percent": 100_000,
    }
    picks = {}
    for hour in (12, 23):
        table = a_table(tmp_path / str(hour), **options)
        now = datetime(2026, 1, 5, hour, 30).astimezone()
        table = replace(table, clock=SteppingClock(int(now.timestamp() * 1000)))
        writer = TableWriter(table, CompactLater)
        for count in (4_000, 900, 150, 1):
            changes: list[Change] = [("+I", {"k": k, "v": str(k * 7919)}) for k in range(count)]
            writer.write(changes)
        picks[hour] = writer.commit.coordinator.metrics().unfinished_count
    assert picks == {12: 0, 23: 1}


def test_full_compaction_is_paced_by_the_epochs(tmp_path: Path) -> None:
    """The pace holds for buckets as well that an earlier process has written."""
    options = {"full_compaction__delta_commits": 3, "num_sorted_run__compaction_trigger": 9}
    writer = TableWriter(a_table(tmp_path, bucket=2, **options), CompactInThreads)
    shapes = []
    for epoch in range(6):
        if epoch == 5:
            writer.restart()
        changes = rows(epoch) if epoch < 5 else rows(epoch)[:1]
        outcome = writer.write(changes)
        assert outcome is not None
        scan = FileStoreScan(writer.table).live(writer.table.snapshots.latest())
        shapes.append(sorted((entry.bucket, entry.file.level) for entry in scan))
        assert {report.reason for report in outcome.compactions} <= {"full compaction"}
    top = [(0, 9), (1, 9)]
    assert [len(shape) for shape in shapes] == [2, 4, 2, 4, 6, 2]
    assert shapes[2] == shapes[5] == top
    assert_table_is(writer)


def test_full_compaction_rewrites_each_bucket_once(tmp_path: Path) -> None:
    options = {
        "full_compaction__delta_commits": 2,
        "compaction__force_rewrite_all_files": "true",
    }
    writer = TableWriter(a_table(tmp_path, bucket=2, **options), CompactInThreads)
    for epoch in range(4):
        outcome = writer.write(rows(epoch))
        assert outcome is not None
        assert len(outcome.compactions) == 2 * (epoch % 2)
    assert_table_is(writer)


def test_force_compact_waits_as_wait_compaction_does(tmp_path: Path) -> None:
    options = {"num_sorted_run__compaction_trigger": 2, "commit__force_compact": "true"}
    writer = TableWriter(a_table(tmp_path, **options), CompactInThreads)
    for epoch in range(4):
        writer.write(rows(epoch))
        assert set(writer.commit.coordinator.back_pressure.sorted_run_counts().values()) == {1}


def test_the_interval_between_full_compactions_goes_on_over_restarts(tmp_path: Path) -> None:
    table = a_table(tmp_path, compaction__optimization_interval="10 min")
    clock = SteppingClock(1_700_000_000_000)
    writer = TableWriter(replace(table, clock=clock), CompactInCaller)
    reasons: list[list[str]] = []
    for minute in range(0, 36, 4):
        clock.millis = 1_700_000_000_000 + minute * 60_000
        writer.restart()
        outcome = writer.write(rows(minute))
        assert outcome is not None
        writer.commit.compact_due()
        reports = (*outcome.compactions, *writer.commit.published_compactions.take_reports())
        reasons.append([report.reason for report in reports])
    begun = [4 * number for number, of_epoch in enumerate(reasons) if of_epoch]
    # Two runs are there in minute 4 for the first time; then every 10 minutes, as epochs come.
    assert begun == [4, 16, 28]
    assert {reason for of_epoch in reasons for reason in of_epoch} == {"interval"}
    assert_table_is(writer)


def test_rows_expire_when_a_bucket_is_merged_whole(tmp_path: Path) -> None:
    """Rows of 1000 s and older expire, even in a big file that would merely change its level."""
    options: dict[str, Any] = {
        "record_level__expire_time": "1000 s",
        "record_level__time_field": "t",
        "num_sorted_run__compaction_trigger": 2,
        "target_file_size": "1 b",
    }
    table = small_table(tmp_path / "db.db" / "t", "k INT, t BIGINT", ("k",), **options).table
    clock = SteppingClock(1_700_000_000_000)
    writer = TableWriter(replace(table, clock=clock), CompactInCaller)
    writer.write([("+I", {"k": k, "t": 1_700_000_000 + 1000 * k}) for k in range(10)])
    writer.write([("+I", {"k": 100, "t": None}), ("+I", {"k": 101, "t": 1_700_000_000_000})])
    writer.commit.compact_due()
    assert len(read_rows(writer.table)) == 12
    clock.millis = (1_700_000_000 + 6_050) * 1000
    writer.commit.compact_fully()
    assert [row["k"] for row in read_rows(writer.table)] == [6, 7, 8, 9, 100]
    assert writer.commit.compact_fully() == [], "nothing has expired since"


@pytest.mark.parametrize(
    ("kind", "field", "problem"),
    [
        ("STRING", "t", "'t' is STRING: use INT, BIGINT or TIMESTAMP"),
        ("INT", "u", "names 'u', which is not a column"),
        ("INT", "", "is not set"),
    ],
)
def test_a_wrong_time_field_is_refused_at_once(
    tmp_path: Path, kind: str, field: str, problem: str
) -> None:
    options = {"bucket": "1", "record-level.expire-time": "1 d"}
    if field:
        options["record-level.time-field"] = field
    with pytest.raises(UsageError, match=problem):
        new_table_schema(
            columns=parse_columns(f"k INT NOT NULL, t {kind}"),
            primary_keys=("k",),
            partition_keys=(),
            options=options,
            time_ms=0,
        )


def test_the_snapshot_of_a_compaction_has_its_reason(tmp_path: Path) -> None:
    writer = TableWriter(a_table(tmp_path, num_sorted_run__compaction_trigger=3), CompactInCaller)
    reports: list[CompactionReport] = []
    for epoch in range(5):
        outcome = writer.write(rows(epoch))
        assert outcome is not None
        reports += outcome.compactions
    for snapshot in writer.commit.compact_due():
        reports += reports_of_property(snapshot.properties) or []
    stored_reports = [
        report
        for snapshot in check_chain(writer.table)
        for report in reports_of_property(snapshot.properties) or []
    ]
    assert stored_reports == reports
    first = stored_reports[0]
    assert (first.bucket, first.levels, first.output_level) == (0, (0, 0, 0), 3)
    assert first.reason == "size ratio"
    assert (first.files_in, first.files_out, first.upgraded) == (3, 1, 0)
    assert first.bytes_in > first.bytes_out > 0


def test_the_interval_passes_while_no_data_comes(tmp_path: Path) -> None:
    """The running job has an interval of ten minutes, and no data comes for an hour."""
    table = a_table(tmp_path, compaction__optimization_interval="10 min")
    writer = TableWriter(table)
    for epoch in range(2):
        writer.write(rows(epoch))
    writer.commit.compact_due()
    writer.write(rows(2))
    writer.commit.compact_due()
    assert set(writer.commit.coordinator.back_pressure.sorted_run_counts().values()) == {2}
    table.clock.sleep(3600)
    for _ in range(5):
        writer.commit.commit_idle()
    assert set(writer.commit.coordinator.back_pressure.sorted_run_counts().values()) == {1}


@dataclass(frozen=True)
class CountingInputs(LocalFileIO):
    """Counts the data files that are open at a time."""

    now: list[str] = field(default_factory=list)
    most: list[int] = field(default_factory=lambda: [0])

    @contextmanager
    def open_input(self, path: str) -> Iterator[pa.NativeFile]:
        with LocalFileIO.open_input(self, path) as source:
            self.now.append(path)
            self.most[0] = max(self.most[0], sum("/data-" in name for name in self.now))
            try:
                yield source
            finally:
                self.now.remove(path)


@pytest.mark.parametrize(("threshold", "most"), [({}, 5), ({"sort_spill_threshold": 2}, 2)])
def test_no_more_runs_are_open_than_the_threshold(
    tmp_path: Path, threshold: dict[str, Any], most: int
) -> None:
    """Five runs have overlapping keys; the most urgent bucket reports how many it has."""
    writer = TableWriter(a_table(tmp_path, num_sorted_run__compaction_trigger=9, **threshold))
    for epoch in range(5):
        writer.write(rows(epoch))
    counting = CountingInputs()
    writer.restart(counting)
    writer.commit.compact_fully()
    assert counting.most == [most]
    executor = writer.executor
    assert isinstance(executor, CompactInCaller)
    assert [request.sorted_run_count for request in executor.requests] == [5]
    assert_table_is(writer)
