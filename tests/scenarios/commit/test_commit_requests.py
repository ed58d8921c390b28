"""A commit sends few requests to the file system, because on a store each one takes time.

A single request beyond the goals of `bench/commit/requests.py` fails a test.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench import __main__ as bench_command
from bench.commit import requests
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.job.table_maintenance import TableMaintenance
from tests.support.files.counting_file_io import CountingFileIO
from tests.support.jobs.table_writer import TableWriter, assert_table_is, by_content, read_rows
from tests.support.tables.small_table import small_table

pytestmark = pytest.mark.usefixtures("unsynced")
REQUESTS_MAX = 22
"""For each snapshot, without its data files."""


class Job:
    """A job on a table whose questions are counted."""

    def __init__(self, folder: Path, **options: Any) -> None:
        small = small_table(folder / "db.db" / "t", "k INT NOT NULL, v STRING", "k", **options)
        self.files = CountingFileIO()
        self.writer = TableWriter(replace(small.table, file_io=self.files))
        self.writer.restart(self.files)
        self.upkeep = TableMaintenance(self.writer.table)

    @property
    def table(self) -> FileStoreTable:
        return self.writer.table

    def epochs(self, count: int) -> int:
        """Write so many epochs, and count from here; how many snapshots these are."""
        first = self.table.snapshots.latest_id() or 0
        self.files.operations.clear()
        for _ in range(count):
            epoch = self.writer.epoch
            self.upkeep.before_rows()
            self.writer.write([("+I", {"k": epoch % 5, "v": "x"})])
            self.upkeep.after_commit()
        operations = list(self.files.operations)
        snapshots = (self.table.snapshots.latest_id() or 0) - first
        self.files.operations[:] = operations
        return snapshots


def test_an_epoch_asks_few_times(tmp_path: Path) -> None:
    job = Job(tmp_path, num_sorted_run__compaction_trigger=3)
    job.epochs(8)
    snapshots = job.epochs(6)
    assert snapshots > 6, "some epochs publish compactions"
    operations = [operation for operation in job.files.operations if "/bucket-" not in operation[1]]
    assert len(operations) <= REQUESTS_MAX * snapshots
    for folder in ("tag", "snapshot", "changelog"):
        assert job.files.count("list", f"/{folder}") <= 6, "once for each epoch"
    assert job.files.count("read", "snapshot/LATEST") == 0, "the job knows which one was newest"
    assert job.files.count("read", "manifest-list-") == 0, "the job has written them itself"
    assert_table_is(job.writer)


def test_a_snapshot_asks_for_the_one_before_it_three_times(tmp_path: Path) -> None:
    """Is it the newest; is it there before the next one is created; is it there afterwards."""
    job = Job(tmp_path, num_sorted_run__compaction_trigger=100)
    job.epochs(3)
    assert job.epochs(1) == 1
    before = (job.table.snapshots.latest_id() or 0) - 1
    # The epoch's begin looks for the newest one as well.
    assert job.files.count("read", f"/snapshot-{before}") == 4
    assert job.files.count("read", f"/snapshot-{before + 1}") == 1, "it is still there, and ours"


def test_an_expiry_lists_the_tags_three_times(tmp_path: Path) -> None:
    """The expiry lists them when it plans, after its announcement, and after the deletion."""
    job = Job(
        tmp_path,
        num_sorted_run__compaction_trigger=100,
        snapshot__num_retained__min=3,
        snapshot__num_retained__max=3,
    )
    job.epochs(5)
    assert job.epochs(1) == 1
    assert job.files.count("create", "/tag/expiring-") == 1
    # The deletion of tags whose time is over lists them before.
    assert job.files.count("list", "/tag") == 4
    assert job.files.count("read", "/tag/") == 0
    assert by_content(read_rows(job.table)) == by_content(job.writer.model.rows())


@pytest.mark.parametrize("request_count", [22, 23])
def test_the_bench_fails_above_its_goal(
    capsys: pytest.CaptureFixture[str], request_count: int
) -> None:
    count = requests.RequestCount(load=requests.LOADS[0], snapshots=1, kinds={"GET": request_count})
    parts = {"requests": lambda *_: requests.lines([count])}
    if request_count == 22:
        bench_command.main(["requests"], parts)
    else:
        with pytest.raises(SystemExit, match="more requests than the goal: only new files"):
            bench_command.main(["requests"], parts)
    assert f"{request_count}.0 requests a snapshot" in capsys.readouterr().out
