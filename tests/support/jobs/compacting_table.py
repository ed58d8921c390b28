"""The table of the tests of compactions, and the compaction service that follows it."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from stream_app.app.job.compact_job import CompactionRun
from stream_app.app.observe.channels.listener import JobListener, Listeners
from stream_app.app.table_setup.compaction_settings import CompactionSettings
from stream_app.mergetree.compact.compact_executor import CompactExecutor
from stream_app.model.snapshot import BATCH_COMMIT_IDENTIFIER
from stream_app.table.compact.append.append_coordinator import AppendCompactCoordinator
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.job.stream_table_commit import StreamTableCommit
from stream_app.table.job.table_job import IdleReport, TableJob
from stream_app.table.versions.partition_filter import PartitionFilter
from tests.support.jobs.table_writer import CompactInCaller
from tests.support.suite.polling import wait_until
from tests.support.tables.small_table import Change, small_table


def a_table(folder: Path, **options: Any) -> FileStoreTable:
    """Create a table with key k INT and value v STRING; options as in `small_table`."""
    return small_table(folder / "db.db" / "t", "k INT, v STRING", ("k",), **options).table


def rows(epoch: int) -> list[Change]:
    """Return twenty keys, each with the epoch's number as its value."""
    return [("+I", {"k": k, "v": str(epoch)}) for k in range(20)]


def wait_for_plan(commit: StreamTableCommit) -> None:
    """Wait until the planner's thread has ended."""
    coordinator = commit.coordinator
    assert isinstance(coordinator, AppendCompactCoordinator)

    def is_idle() -> bool:
        running = coordinator.planner_runner.running_round
        return running is None or running.done()

    wait_until(is_idle)


def compaction_of(
    table: FileStoreTable,
    make_executor: Callable[[FileStoreTable], CompactExecutor] = CompactInCaller,
    partition_filter: PartitionFilter | None = None,
    *,
    full: bool = False,
    follow: bool = False,
    stop_requested: threading.Event | None = None,
    listeners: Sequence[JobListener] = (),
) -> CompactionRun:
    """Return a run of `stream-app compact` in the caller, without Spark."""
    compacting = table.with_options({"write-only": "false"})
    table_job = TableJob(compacting, make_executor, identifier=BATCH_COMMIT_IDENTIFIER)
    table_job.open(f"compactor-{uuid.uuid4()}")
    settings = CompactionSettings(
        table=compacting,
        partition_filter=partition_filter or PartitionFilter(),
        is_full=full,
        follows=follow,
        spark_settings={},
    )
    stop_requested = stop_requested or threading.Event()
    return CompactionRun(settings, table_job, stop_requested, Listeners(list(listeners)))


class CompactFollower(JobListener):
    """`stream-app compact --follow`, which stops after each look at its table."""

    def __init__(
        self,
        table: FileStoreTable,
        partition_filter: PartitionFilter | None = None,
        make_executor: Callable[[FileStoreTable], CompactExecutor] = CompactInCaller,
    ) -> None:
        self.stop_requested = threading.Event()
        self.compaction = compaction_of(
            table,
            make_executor,
            partition_filter,
            follow=True,
            stop_requested=self.stop_requested,
            listeners=[self],
        )
        self.reasons: list[str] = []

    def step(self) -> list[str]:
        """Look at the table once; returns the reasons of the compactions."""
        self.stop_requested.clear()
        self.reasons = []
        self.compaction.run()
        return self.reasons

    def on_idle_commit(self, table: str, report: IdleReport) -> None:
        self.reasons += [compaction.reason for compaction in report.compactions]

    def on_heartbeat(self) -> None:
        self.stop_requested.set()
