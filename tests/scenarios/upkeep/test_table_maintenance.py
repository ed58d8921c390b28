"""A job maintains its table after commits: this work is bounded, and never stops the job."""

from __future__ import annotations

import os
import shutil
import threading
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from stream_app.errors import UsageError
from stream_app.fileio.local.local_file_io import LocalFileIO
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.job.stream_table_commit import StreamTableCommit
from stream_app.table.job.table_maintenance import TableMaintenance
from tests.support.jobs.table_writer import CompactInCaller
from tests.support.tables.small_table import (
    TIME_MS,
    SmallTable,
    SteppingClock,
    small_table,
    write_changes,
)

pytestmark = pytest.mark.usefixtures("unsynced")
KEEP_ONE = {"snapshot__num_retained__min": 1, "snapshot__num_retained__max": 1}


def a_table(folder: Path, **options: Any) -> SmallTable:
    return small_table(folder / "t", "k INT, v STRING", ("k",), **options)


def write(table: SmallTable, epochs: int) -> None:
    for epoch in range(epochs):
        table.commit(("+I", {"k": epoch, "v": "x"}))


def test_the_limit_bounds_the_expired_snapshots_after_a_commit(tmp_path: Path) -> None:
    table = a_table(tmp_path, **KEEP_ONE, snapshot__expire__limit=3)
    write(table, 8)
    maintenance = TableMaintenance(table.table)
    snapshot_counts = []
    for _ in range(3):
        maintenance.after_commit()
        snapshot_counts.append(len(table.table.snapshots.ids()))
    assert snapshot_counts[:2] == [snapshot_counts[0], snapshot_counts[0] - 3]
    assert snapshot_counts[-1] == max(1, snapshot_counts[0] - 6)
    assert maintenance.metrics().snapshots_expired > 5


def test_a_write_only_job_expires_nothing(tmp_path: Path) -> None:
    table = a_table(tmp_path, **KEEP_ONE, write_only="true")
    write(table, 3)
    maintenance = TableMaintenance(table.table)
    maintenance.after_commit()
    assert len(table.table.snapshots.ids()) == 3
    assert maintenance.metrics().snapshots_expired == 0


def test_options_of_tags_that_do_not_fit_are_refused_when_the_job_starts(tmp_path: Path) -> None:
    table = a_table(tmp_path, tag__automatic_creation="process-time", tag__creation_delay="2 d")
    with pytest.raises(UsageError, match=r"'tag.creation-delay': .* is not below the period"):
        TableMaintenance(table.table)


@dataclass(frozen=True)
class RefusingFileIO(LocalFileIO):
    """Deletes nothing as long as the test says so."""

    refuses: list[bool] = field(default_factory=lambda: [True])

    def delete(self, path: str) -> None:
        if self.refuses[0]:
            raise PermissionError(f"no right to delete {path}")
        LocalFileIO.delete(self, path)


def test_a_failed_upkeep_is_logged_and_counted_and_succeeds_the_next_time(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table = a_table(tmp_path, **KEEP_ONE)
    write(table, 3)
    file_io = RefusingFileIO()
    maintenance = TableMaintenance(replace(table.table, file_io=file_io))
    maintenance.after_commit()
    assert maintenance.metrics().failures == 1
    assert maintenance.metrics().snapshots_expired == 0
    assert "expiring snapshots failed: no right to delete" in caplog.text
    file_io.refuses[0] = False
    maintenance.after_commit()
    assert table.table.snapshots.ids() == [table.table.snapshots.latest_id()]


@dataclass(frozen=True)
class SlowFileIO(LocalFileIO):
    """Local files whose deletions wait until the test sets `may`."""

    has_begun: threading.Event = field(default_factory=threading.Event)
    may: threading.Event = field(default_factory=threading.Event)

    def delete(self, path: str) -> None:
        self.has_begun.set()
        assert self.may.wait(30)
        LocalFileIO.delete(self, path)


def test_beside_the_job_one_expiry_runs_at_a_time_and_commits_do_not_wait(tmp_path: Path) -> None:
    table = a_table(tmp_path, **KEEP_ONE, snapshot__expire__execution_mode="async")
    write(table, 3)
    file_io = SlowFileIO()
    maintenance = TableMaintenance(replace(table.table, file_io=file_io))
    maintenance.after_commit()
    assert file_io.has_begun.wait(30)  # the expiry has planned: it does not see the commit below
    maintenance.after_commit()
    before = len(table.table.snapshots.ids())
    write_more(table.table)
    assert len(table.table.snapshots.ids()) > before
    file_io.may.set()
    maintenance.close()
    expired_count = maintenance.metrics().snapshots_expired
    assert expired_count == before - 1
    assert maintenance.metrics().failures == 0


def write_more(table: FileStoreTable) -> None:
    commit = StreamTableCommit(table, "another", CompactInCaller(table))
    first = commit.follow_and_wait()
    changes = write_changes(table, [("+I", {"k": 1, "v": "y"})], first)
    commit.commit_epoch((commit.last_identifier or 0) + 1, changes)


def test_a_consumer_that_is_forgotten_keeps_nothing_any_more(tmp_path: Path) -> None:
    table = a_table(tmp_path, **KEEP_ONE, consumer__expiration_time="1 h")
    write(table, 4)
    table.table.consumers.reset("gone", 2)
    now = TIME_MS // 1000
    os.utime(f"{table.path}/consumer/consumer-gone", (now, now))
    TableMaintenance(table.table).after_commit()
    assert table.table.consumers.consumers()
    assert table.table.snapshots.earliest_id() == 2
    table.table.clock.sleep(3600)
    TableMaintenance(table.table).after_commit()
    assert table.table.consumers.consumers() == []
    assert len(table.table.snapshots.ids()) == 1


def test_a_version_gets_its_tag_before_it_expires(tmp_path: Path) -> None:
    table = a_table(
        tmp_path, **KEEP_ONE, tag__automatic_creation="process-time",
        tag__creation_period_duration="1 min", tag__num_retained_max=2,
    )  # fmt: skip
    clock = table.table.clock
    assert isinstance(clock, SteppingClock)
    for _ in range(3):
        clock.millis += 60_000
        table.commit(("+I", {"k": 1, "v": "x"}))
    TableMaintenance(table.table).after_commit()
    assert [tag.snapshot.snapshot_id for tag in table.table.tags.tags()] == [2, 3]
    assert table.table.snapshots.ids() == [3]


@pytest.mark.parametrize("is_made_anew", [True, False])
def test_a_table_that_was_dropped_and_made_anew_is_left_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, is_made_anew: bool
) -> None:
    old = a_table(
        tmp_path, **KEEP_ONE, tag__automatic_creation="process-time", tag__creation_period="hourly"
    )
    write(old, 1)
    maintenance = TableMaintenance(old.table)
    maintenance.after_commit()
    shutil.rmtree(old.path)
    new = a_table(tmp_path) if is_made_anew else None
    if new is not None:
        write(new, 5)
    for _ in range(20):
        old.table.clock.sleep(1800)
        maintenance.while_idle()
    maintenance.after_commit()
    if new is not None:
        assert new.table.snapshots.ids() == [1, 2, 3, 4, 5]
        assert new.table.tags.names() == []
    else:
        assert not Path(old.path).exists()
    assert maintenance.metrics().failures == 0
    assert caplog.text.count("was dropped, or recreated") == 1
