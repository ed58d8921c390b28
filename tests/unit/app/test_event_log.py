"""What the job tells of its compactions, to people and to programs."""

from __future__ import annotations

import io
import json
import logging
from dataclasses import replace

import pytest

from stream_app.app.event_log import EventLog
from stream_app.spark.micro_batch import EpochReport, IdleReport
from stream_app.table.compaction_metrics import CompactionMetrics
from stream_app.table.compaction_report import CompactionReport
from tests.support.small_table import SteppingClock, small_table

REPORT = CompactionReport(
    partition="dt=1", bucket=2, reason="size ratio", levels=(0, 0, 3), output_level=5, files_in=3,
    bytes_in=3072, files_out=1, bytes_out=2048, upgraded=1, seconds=0.8125,
)  # fmt: skip
METRICS = CompactionMetrics(
    level0_files_max=4, level0_files_avg=1.234, sorted_runs_max=5, queued=2, running=1, begun=9,
    completed=4, failed=1, dropped=1, bytes_in=3072, bytes_out=2048, seconds_avg=0.8125,
    flushed_bytes=1024, waited_s=12.0,
)  # fmt: skip
TOLD = {
    "sorted_runs": {"5": 1, "1": 7},
    "level0_files_max": 4,
    "level0_files_avg": 1.23,
    "compactions": [
        {
            "partition": "dt=1", "bucket": 2, "reason": "size ratio", "levels": [0, 0, 3],
            "output_level": 5, "files_in": 3, "bytes_in": 3072, "files_out": 1, "bytes_out": 2048,
            "upgraded": 1, "seconds": 0.8125,
        }
    ],
    "compactions_queued": 2,
    "compactions_running": 1,
    "compactions_completed": 4,
    "compactions_failed": 1,
    "compactions_dropped": 1,
    "compaction_bytes_in": 3072,
    "compaction_bytes_out": 2048,
    "compaction_seconds_avg": 0.812,
    "write_amplification": 3.0,
    "back_pressure_s": 12.0,
}  # fmt: skip
LINE = (
    "compacted dt=1 bucket 2: size ratio, levels 0 0 3 → 5, 3 files (3.0 KiB) → 1 (2.0 KiB), "
    "1 moved up, 0.8 s"
)


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> tuple[EventLog, io.StringIO]:
    caplog.set_level(logging.INFO, "stream_app")
    sink = io.StringIO()
    return EventLog(SteppingClock(), sink), sink


def test_an_epoch_tells_of_its_compactions(
    log: tuple[EventLog, io.StringIO], caplog: pytest.LogCaptureFixture
) -> None:
    events, sink = log
    report = EpochReport(
        epoch=7, wait_s=3.25, sorted_runs={5: 1, 1: 7}, compactions=(REPORT,), metrics=METRICS
    )
    events.epoch(report)
    line, compacted = caplog.messages
    assert line.endswith("; at most 5 runs, 1 compacting, 2 queued, waited 3.25 s before")
    assert compacted == LINE
    told = json.loads(sink.getvalue())
    assert TOLD.items() <= told.items()

    caplog.clear()
    quiet = replace(report, wait_s=0.01, compactions=(), metrics=CompactionMetrics())
    events.epoch(quiet)
    [line] = caplog.messages
    assert line.endswith("; at most 0 runs, 0 compacting")
    told = json.loads(sink.getvalue().splitlines()[1])
    assert (told["compactions"], told["write_amplification"]) == ([], None)


def test_an_idle_commit_tells_of_its_compactions(
    log: tuple[EventLog, io.StringIO], caplog: pytest.LogCaptureFixture, tmp_path: object
) -> None:
    events, sink = log
    small = small_table(f"{tmp_path}/t", "k INT", ("k",))
    small.commit(("+I", {"k": 1}))
    snapshot = small.table.snapshots.snapshot(1)
    events.idle_commit(IdleReport(snapshot, {5: 1, 1: 7}, (REPORT,), METRICS))
    assert caplog.messages == ["idle commit: snapshot 1 APPEND", LINE]
    assert TOLD.items() <= json.loads(sink.getvalue()).items()
