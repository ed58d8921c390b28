"""The job reports its compactions in lines for people and in events for programs."""

from __future__ import annotations

import io
import json
import logging
from dataclasses import replace

import pytest

from stream_app.app.observe.channels.listener import JobListener, Listeners
from stream_app.app.observe.events.event_log import EventLog
from stream_app.app.observe.metrics.job_metrics import JobMetrics
from stream_app.cdc.column_drift import DriftKind
from stream_app.epochs.rounds.table_listener import EpochReport
from stream_app.epochs.stages.decode_counts import (
    COLUMN_NAMES_MAX,
    OTHER_COLUMNS,
    DecodeCounts,
    RecordSighting,
)
from stream_app.epochs.stages.epoch_seconds import EpochSeconds
from stream_app.epochs.stream.running_stream import SourceProgress
from stream_app.table.compact.compaction_metrics import CompactionMetrics
from stream_app.table.compact.compaction_report import CompactionReport
from stream_app.table.job.table_job import IdleReport
from tests.support.tables.small_table import SteppingClock, small_table

REPORT = CompactionReport(
    partition="dt=1", bucket=2, reason="size ratio", levels=(0, 0, 3), output_level=5, files_in=3,
    bytes_in=3072, files_out=1, bytes_out=2048, upgraded=1, seconds=0.8125,
)  # fmt: skip
METRICS = CompactionMetrics(
    level0_files_max=4, level0_files=12, sorted_runs_max=5, queued_count=2, running_count=1,
    begun_count=9, completed_count=4, failed_count=1, dropped_count=1, bytes_in=3072,
    bytes_out=2048, run_s=0.8125, flushed_byte_count=1024, waited_s=12.0,
)  # fmt: skip
TOLD = {
    "sorted_runs": {"5": 1, "1": 7},
    "level0_files_max": 4,
    "level0_files": 12,
    "compactions": [
        {
            "partition": "dt=1", "bucket": 2, "reason": "size ratio", "levels": [0, 0, 3],
            "output_level": 5, "files_in": 3, "bytes_in": 3072, "files_out": 1, "bytes_out": 2048,
            "upgraded": 1, "seconds": 0.8125, "policy": None,
        }
    ],
    "compactions_queued": 2,
    "compactions_running": 1,
    "compactions_completed": 4,
    "compactions_failed": 1,
    "compactions_dropped": 1,
    "compaction_bytes_in": 3072,
    "compaction_bytes_out": 2048,
    "compaction_seconds": 0.812,
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


def test_an_epochs_line_names_its_compactions(
    log: tuple[EventLog, io.StringIO], caplog: pytest.LogCaptureFixture
) -> None:
    events, sink = log
    report = EpochReport(
        epoch=7,
        durations=EpochSeconds(wait_s=3.25, read_s=0.5),
        sorted_run_histogram={5: 1, 1: 7},
        compactions=(REPORT,),
        metrics=METRICS,
        ran_in_driver=True,
    )
    events.on_epoch(report)
    line, compaction_line = caplog.messages
    assert line.endswith("; at most 5 runs, 1 compacting, 2 queued, waited 3.25 s before")
    assert compaction_line == LINE
    event = json.loads(sink.getvalue())
    assert TOLD.items() <= event.items()
    assert event["in_driver"] is True
    assert (event["wait_s"], event["read_s"], event["write_s"]) == (3.25, 0.5, 0.0)

    caplog.clear()
    quiet = replace(
        report, durations=EpochSeconds(wait_s=0.01), compactions=(), metrics=CompactionMetrics()
    )
    events.on_epoch(quiet)
    [line] = caplog.messages
    assert line.endswith("; at most 0 runs, 0 compacting")
    event = json.loads(sink.getvalue().splitlines()[1])
    assert (event["compactions"], event["write_amplification"]) == ([], None)


def test_an_idle_commits_line_names_its_compactions(
    log: tuple[EventLog, io.StringIO], caplog: pytest.LogCaptureFixture, tmp_path: object
) -> None:
    events, sink = log
    small = small_table(f"{tmp_path}/t", "k INT", ("k",))
    small.commit(("+I", {"k": 1}))
    snapshot = small.table.snapshots.snapshot(1)
    events.on_idle_commit(IdleReport(snapshot, {5: 1, 1: 7}, (REPORT,), METRICS))
    assert caplog.messages == ["idle commit: snapshot 1 APPEND", LINE]
    assert TOLD.items() <= json.loads(sink.getvalue()).items()


def sighting(records: int, offset: int) -> RecordSighting:
    return RecordSighting(records, "t", 3, offset)


def test_a_column_is_warned_of_once_a_run(
    log: tuple[EventLog, io.StringIO], caplog: pytest.LogCaptureFixture
) -> None:
    events, sink = log
    events.metrics = JobMetrics("db.t")
    columns = {(DriftKind.MISSING, "v"): sighting(2, 9), (DriftKind.UNKNOWN, "x"): sighting(1, 7)}
    for epoch in range(2):
        events.on_epoch(EpochReport(epoch=epoch, counts=DecodeCounts(drift=columns)))
    unknown, missing = (
        record.message for record in caplog.records if record.levelname == "WARNING"
    )
    assert unknown.startswith("column 'x' is not in the table")
    assert unknown.endswith("the first is topic t, partition 3, offset 7")
    assert missing.startswith("column 'v' of the table is missing")
    for line in sink.getvalue().splitlines():
        assert json.loads(line)["unknown_columns"] == {"x": 1}
        assert json.loads(line)["missing_columns"] == {"v": 2}


def test_a_column_that_cuts_times_is_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    sink, metrics = io.StringIO(), JobMetrics("db.t")
    log = EventLog(metrics=metrics, clock=SteppingClock(), sink=sink)
    counts = DecodeCounts(drift={(DriftKind.CUT, "t"): RecordSighting(3, "t", 0, 7)})
    with caplog.at_level(logging.WARNING, "stream_app"):
        for _ in range(2):
            log.on_epoch(
                EpochReport(epoch=1, counts=counts, snapshots=(), durations=EpochSeconds())
            )
    [warning] = caplog.messages
    assert warning.startswith("column 't' cuts off digits of times that it cannot hold")
    assert "source.debezium.cut-values" in warning
    assert json.loads(sink.getvalue().splitlines()[0])["cut_columns"] == {"t": 3}
    name = "stream_app_cut_column_records_total"
    assert metrics.registry.get_sample_value(name, {"table": "db.t", "column": "t"}) == 6


def test_names_of_columns_are_bounded(
    log: tuple[EventLog, io.StringIO], caplog: pytest.LogCaptureFixture
) -> None:
    """Names come from messages, so the log bounds them in an epoch and over a run."""
    events, sink = log
    counts = DecodeCounts()
    for number in range(200):
        column = (DriftKind.UNKNOWN, f"{number} " * 99)
        counts = counts.plus(DecodeCounts(drift={column: sighting(1, number)}))
    assert len(counts.drift) == COLUMN_NAMES_MAX + 1
    assert counts.drift[DriftKind.UNKNOWN, OTHER_COLUMNS] == sighting(200 - COLUMN_NAMES_MAX, 64)
    events.on_epoch(EpochReport(epoch=0, counts=counts))
    more = {(DriftKind.MISSING, f"m{number}"): sighting(1, number) for number in range(9)}
    events.on_epoch(EpochReport(epoch=1, counts=DecodeCounts(drift=more)))
    warnings = [record.message for record in caplog.records if record.levelname == "WARNING"]
    assert len(warnings) == COLUMN_NAMES_MAX + 2
    assert max(map(len, warnings)) < 400
    assert json.loads(sink.getvalue().splitlines()[1])["missing_columns"] == {OTHER_COLUMNS: 9}


def test_the_log_says_whether_the_source_is_drained(
    log: tuple[EventLog, io.StringIO], caplog: pytest.LogCaptureFixture
) -> None:
    events, _ = log
    events.report_drain(SourceProgress(4, 0, 0, {"t": {"0": 9}}))
    events.report_drain(SourceProgress(4, 0, 3, {"t": {"0": 9}}))
    events.report_drain(None)
    events.on_epoch(EpochReport(epoch=5))
    events.report_drain(SourceProgress(5, 1, 0, {"t": {"0": 9}}))
    new, behind, unknown, _, after_some = caplog.messages
    assert new == (
        'caught up with the source, there was nothing new; lag 0, next offsets {"t": {"0": 9}}'
    )
    assert behind.startswith("the source has more that this run did not read; lag 3, ")
    assert unknown.endswith("; lag unknown, next offsets {}")
    assert after_some.startswith("caught up with the source, epochs in this run: 1; lag 0, ")


class _Broken(JobListener):
    def on_heartbeat(self) -> None:
        raise ZeroDivisionError


class _Counting(JobListener):
    looks = 0

    def on_heartbeat(self) -> None:
        self.looks += 1


def test_a_listener_that_fails_stops_neither_the_job_nor_the_others(
    log: tuple[EventLog, io.StringIO], caplog: pytest.LogCaptureFixture
) -> None:
    events, counting = log[0], _Counting()
    events.listeners = Listeners((_Broken(), counting))
    events.report_heartbeat(True)
    events.report_heartbeat(True)
    assert counting.looks == 2
    [warning] = caplog.records
    assert "the job continues" in warning.message
    assert warning.exc_info is not None


def test_numbers_that_fail_do_not_end_the_job(
    log: tuple[EventLog, io.StringIO], caplog: pytest.LogCaptureFixture
) -> None:
    events = replace(log[0], metrics=JobMetrics("db.t"))
    for epoch in range(2):
        events.on_epoch(EpochReport(epoch=epoch, counts=DecodeCounts(message_count=-1)))
    assert [event["epoch"] for event in map(json.loads, log[1].getvalue().splitlines())] == [0, 1]
    assert [record.exc_info is not None for record in caplog.records] == [True, False, False]
    assert "the job continues" in caplog.records[0].message
