"""The table of the tests of a job's compactions, and the wait for a plan of them."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from stream_app.table.compact.append.append_coordinator import AppendCompactCoordinator
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.job.stream_table_commit import StreamTableCommit
from tests.support.tables.small_table import Change, small_table


def a_table(folder: Path, **options: Any) -> FileStoreTable:
    """Key k INT and value v STRING; options as in `small_table`."""
    return small_table(folder / "db.db" / "t", "k INT, v STRING", ("k",), **options).table


def rows(epoch: int) -> list[Change]:
    """Twenty keys, each with the epoch's number as its value."""
    return [("+I", {"k": k, "v": str(epoch)}) for k in range(20)]


def wait_for_plan(commit: StreamTableCommit) -> None:
    """Until the planner's thread has come to an end."""
    coordinator = commit.coordinator
    assert isinstance(coordinator, AppendCompactCoordinator)
    deadline = time.monotonic() + 120
    while (running := coordinator.planner_runs.running_round) is not None and not running.done():
        assert time.monotonic() < deadline
        time.sleep(0.01)
