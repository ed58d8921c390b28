"""The job maintains its table between epochs, and before the first one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stream_app.app.observe.events.event_log import EventLog
from stream_app.checkpoint.epoch_log import EpochLog
from stream_app.checkpoint.job_folder import JobFolder
from stream_app.checkpoint.job_state import JobStateFile
from stream_app.epochs.rounds.epoch_committer import EpochCommitter
from stream_app.epochs.rounds.epoch_tables import StoppingTables
from stream_app.epochs.rounds.round_runner import RoundRunner
from stream_app.epochs.rounds.table_feed import TableFeed
from stream_app.epochs.stages.epoch_plan import EpochSettings
from stream_app.quarantine.quarantine_writer import QuarantineWriter
from stream_app.table.job.table_job import TableJob
from tests.support.engines.epoch_in_caller import EpochHere, Parts
from tests.support.tables.small_table import CompactHere, SmallTable, small_table

pytestmark = pytest.mark.usefixtures("unsynced")


def a_table(folder: Path) -> SmallTable:
    table = small_table(
        folder / "t", "k INT", ("k",),
        snapshot__num_retained__min=1, snapshot__time_retained="1 h",
    )  # fmt: skip
    for _ in range(3):
        table.commit(("+I", {"k": 1}))
    table.table.clock.sleep(2 * 3600)
    return table


def no_epoch(*_: Any) -> Any:
    raise AssertionError("no epoch comes")


def quiet_job(table: SmallTable) -> EpochCommitter[Parts]:
    """A job that was started, and whose source has brought nothing yet."""
    feed = TableFeed(
        name="t",
        table_job=TableJob(table.table, CompactHere),
        make_pipeline=no_epoch,
        quarantine_writer=QuarantineWriter(None, 0),
        listener=EventLog(table.table.clock),
    )
    checkpoint = JobFolder(table.table.location + "-checkpoint", table.table.file_io)
    clock = table.table.clock
    tables = StoppingTables(
        [feed],
        epoch_log=EpochLog(checkpoint, can_reread=True),
        state_file=JobStateFile(checkpoint),
        now_ms=clock.now_ms,
    )
    settings = EpochSettings(task_count=1)
    return EpochCommitter(
        RoundRunner(tables=tables, settings=settings, epoch_runner=EpochHere(), clock=clock)
    )


def test_old_snapshots_go_before_the_first_epoch(tmp_path: Path) -> None:
    table = a_table(tmp_path)
    committer = quiet_job(table)
    committer.while_idle()
    assert table.table.snapshots.ids() == [1, 2, 3], "it has only just begun"
    table.table.clock.sleep(10)
    with committer.lock:  # an epoch is being worked on: it does the upkeep
        committer.while_idle()
    assert table.table.snapshots.ids() == [1, 2, 3]
    committer.while_idle()
    assert table.table.snapshots.ids() == [3]


def test_a_job_without_an_epoch_expires_snapshots_before_it_ends(tmp_path: Path) -> None:
    table = a_table(tmp_path)
    quiet_job(table).compact_due()
    assert table.table.snapshots.ids() == [3]
