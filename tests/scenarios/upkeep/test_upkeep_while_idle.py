"""An idle job does a table's due upkeep in time, at the right version."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from stream_app.fileio.local.local_file_io import LocalFileIO
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.job.table_maintenance import TableMaintenance
from tests.support.jobs.table_writer import TableWriter
from tests.support.tables.merge_read import MergeRead
from tests.support.tables.small_table import TIME_MS, StandingClock, small_table

pytestmark = pytest.mark.usefixtures("unsynced")
HOUR_MS = 3_600_000
DAILY = {"tag__automatic_creation": "process-time", "sink__process_time_zone": "+00:00"}


@dataclass
class Job:
    """A streaming job whose source is quiet when we say so; it begins on 2026-01-01."""

    table: FileStoreTable
    clock: StandingClock
    writer: TableWriter = field(init=False)
    upkeep: TableMaintenance = field(init=False)

    def __post_init__(self) -> None:
        self.writer = TableWriter(self.table)
        self.upkeep = TableMaintenance(self.table)

    def row(self, value: str) -> None:
        """An epoch, as `epochs.rounds.epoch_committer` does it."""
        self.upkeep.before_rows()
        self.writer.write([("+I", {"k": 1, "v": value})])
        self.upkeep.after_commit()

    def quiet_until(self, time_ms: int, *, step_s: float = 60) -> None:
        while self.clock.millis < time_ms:
            self.clock.sleep(min(step_s, (time_ms - self.clock.millis) / 1000))
            self.upkeep.while_idle()
            if self.upkeep._async_run is not None:  # the clock does not wait for the thread
                self.upkeep._async_run.result()

    def tagged(self) -> dict[str, str]:
        """The row under each tag."""
        read = MergeRead(self.table)
        values = {}
        for name in self.table.tags.names():
            tag = self.table.tags.tag(name)
            assert tag is not None
            rows = pa.Table.from_batches(read.read(tag.snapshot), schema=read.schema).to_pylist()
            values[name] = rows[0]["v"]
        return values


def a_job(folder: Path, **options: Any) -> Job:
    table = small_table(folder / "t", "k INT NOT NULL, v STRING", ("k",), **options).table
    clock = StandingClock()
    return Job(replace(table, clock=clock), clock)


def millis_at(day: int, hour: int = 0, minute: int = 0) -> int:
    return TIME_MS + ((day - 1) * 24 + hour) * HOUR_MS + minute * 60_000


def test_a_day_that_ends_quietly_is_tagged_as_it_ended(tmp_path: Path) -> None:
    job = a_job(tmp_path, **DAILY)
    job.quiet_until(millis_at(1, 22))
    job.row("first day")
    assert list(job.tagged()) == ["2025-12-31"]
    job.quiet_until(millis_at(2, 0, 1))
    assert job.tagged()["2026-01-01"] == "first day"
    job.quiet_until(millis_at(2, 9))
    job.row("second day")
    assert job.tagged()["2026-01-01"] == "first day"
    job.quiet_until(millis_at(5, 1))
    # As with Paimon's own, each has a snapshot of its own: two of one are an error there.
    assert list(job.tagged()) == [
        "2025-12-31", "2026-01-01", "2026-01-02", "2026-01-03", "2026-01-04",
    ]  # fmt: skip
    assert set(list(job.tagged().values())[2:]) == {"second day"}
    numbers = [tag.snapshot.snapshot_id for tag in job.table.tags.tags()]
    assert numbers == sorted(set(numbers))
    assert job.upkeep.metrics().failures == 0


def test_a_job_that_was_down_tags_the_day_before_its_first_rows_come(tmp_path: Path) -> None:
    job = a_job(tmp_path, **DAILY)
    job.quiet_until(millis_at(1, 22))
    job.row("first day")
    job.clock.millis = millis_at(3, 9)
    later_job = Job(job.table, job.clock)
    later_job.writer.model.changes = job.writer.model.changes
    later_job.row("third day")
    assert later_job.tagged() == {"2025-12-31": "first day", "2026-01-02": "first day"}


def test_missing_days_are_completed_before_rows_come(tmp_path: Path) -> None:
    job = a_job(tmp_path, **DAILY, tag__automatic_completion="true")
    job.row("first day")
    job.clock.millis = millis_at(4, 9)
    job.row("fourth day")
    assert job.tagged() == dict.fromkeys(
        ["2025-12-31", "2026-01-01", "2026-01-02", "2026-01-03"], "first day"
    )


def test_a_delay_waits_for_late_rows_and_not_for_the_next_snapshot(tmp_path: Path) -> None:
    job = a_job(tmp_path, **DAILY, tag__creation_delay="30 min")
    job.row("first day")
    job.quiet_until(millis_at(2, 0, 20))
    job.row("late")
    job.quiet_until(millis_at(2, 0, 31))
    job.row("second day")
    assert job.tagged()["2026-01-01"] == "late"


def test_rows_under_way_when_a_day_ends_are_of_that_day(tmp_path: Path) -> None:
    job = a_job(tmp_path, **DAILY)
    job.row("first")
    job.clock.millis = millis_at(2) - 1000
    job.upkeep.before_rows()  # an epoch begins
    job.clock.millis = millis_at(2) + 1000
    job.writer.write([("+I", {"k": 1, "v": "under way"})])
    job.upkeep.after_commit()
    job.row("second day")
    assert job.tagged()["2026-01-01"] == "under way"
    assert job.table.snapshots.latest_id() == 3, "no snapshot was made for the tag"


def test_without_a_clock_to_go_by_no_snapshot_is_made(tmp_path: Path) -> None:
    for index, mode in enumerate(("none", "watermark", "batch")):
        job = a_job(tmp_path / str(index), tag__automatic_creation=mode)
        job.row("first day")
        job.quiet_until(millis_at(3))
        assert job.table.snapshots.ids() == [1]


def test_a_write_only_job_leaves_upkeep_to_others(tmp_path: Path) -> None:
    job = a_job(tmp_path, **DAILY)
    job.row("first day")
    job.upkeep = TableMaintenance(job.table.with_options({"write-only": "true"}))
    job.quiet_until(millis_at(3))
    job.upkeep.before_rows()
    assert list(job.tagged()) == ["2025-12-31"]


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_an_idle_job_expires_old_snapshots_and_tags(tmp_path: Path, mode: str) -> None:
    job = a_job(
        tmp_path, snapshot__num_retained__min=1, snapshot__time_retained="1 h",
        snapshot__expire__execution_mode=mode, snapshot__expire__limit=2,
        tag__default_time_retained="2 h", tag__automatic_creation="process-time",
        sink__process_time_zone="+00:00",
    )  # fmt: skip
    for value in "abcde":
        job.row(value)
    assert len(job.table.snapshots.ids()) == 5
    assert job.table.tags.names() == ["2025-12-31"]
    job.quiet_until(millis_at(1, 3))
    job.upkeep.close()
    assert job.table.snapshots.ids() == [5]
    assert job.table.tags.names() == []
    assert job.upkeep.metrics().failures == 0


@dataclass(frozen=True)
class CountedFileIO(LocalFileIO):
    """The local file system, and how often it was asked."""

    counts: Counter[str] = field(default_factory=Counter)

    def list_status(self, path: str) -> Any:
        self.counts["list"] += 1
        return LocalFileIO.list_status(self, path)

    def list_names(self, path: str) -> Any:
        self.counts["list"] += 1
        return LocalFileIO.list_names(self, path)

    def read_bytes(self, path: str) -> bytes:
        self.counts["read"] += 1
        return LocalFileIO.read_bytes(self, path)


def test_a_quiet_day_is_looked_at_now_and_then(tmp_path: Path) -> None:
    job = a_job(tmp_path, **DAILY)
    job.row("first day")
    files = CountedFileIO()
    job.upkeep = TableMaintenance(replace(job.table, file_io=files))
    job.quiet_until(millis_at(1, 23), step_s=5)
    # Less than 150 looks: 10 s after the last commit, twice that later, and so on up to 10 min.
    assert 0 < files.counts["list"] < 1500
    assert 0 < files.counts["read"] < 1500
    look_count = sum(files.counts.values())
    for _ in range(1000):
        job.upkeep.before_rows()
    assert sum(files.counts.values()) == look_count


@dataclass(frozen=True)
class NoSnapshots(LocalFileIO):
    """Lets nobody write manifests."""

    tried_paths: list[str] = field(default_factory=list)

    def open_output(self, path: str) -> pa.NativeFile:
        self.tried_paths.append(path)
        raise PermissionError(f"no right to write {path}")


def test_a_snapshot_that_cannot_be_made_is_tried_again_later_and_not_all_the_time(
    tmp_path: Path,
) -> None:
    job = a_job(tmp_path, **DAILY)
    job.row("first day")
    job.quiet_until(millis_at(2) - 1000)
    files = NoSnapshots()
    job.upkeep = TableMaintenance(replace(job.table, file_io=files))
    job.quiet_until(millis_at(2, 0, 2), step_s=0.2)
    assert job.upkeep.metrics().failures == len(files.tried_paths) > 5
    assert len(files.tried_paths) <= 12, "once in ten seconds"
    job.upkeep = TableMaintenance(job.table)
    job.quiet_until(millis_at(2, 0, 3))
    assert job.tagged()["2026-01-01"] == "first day"
