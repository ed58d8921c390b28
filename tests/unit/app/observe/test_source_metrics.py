"""The metrics show at each moment how far a job's tables are behind their source."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from stream_app.app.observe.events.event_log import EventLog
from stream_app.app.observe.metrics.job_metrics import TABLE_LABELS_MAX, JobMetrics
from stream_app.app.observe.metrics.source_metrics import table_lags
from stream_app.checkpoint.held_table import HeldTable
from stream_app.epochs.rounds.table_listener import EpochReport
from stream_app.epochs.stages.decode_counts import DecodeCounts, PartitionEnd
from stream_app.epochs.stream.running_stream import SourceProgress
from stream_app.model.snapshot import SOURCE_TIME_PROPERTY
from tests.support.tables.small_table import StandingClock, small_table

HELD = HeldTable(since_epoch=7, start={}, reason="no", since_ms=70_000, retry_ms=None)
WAITING = replace(HELD, tries=0)


def number(metrics: JobMetrics, name: str, table: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(f"stream_app_{name}", {"table": table, **labels})


def epoch_until(second: float, *, topic: str = "topic") -> EpochReport:
    """An epoch whose newest message is of this second."""
    ends = {(topic, 0): PartitionEnd(7, int(second * 1000)), (topic, 1): PartitionEnd(9, None)}
    return EpochReport(epoch=0, counts=DecodeCounts(ends=ends))


def progress_of(behind: int | None, topic: str = "topic") -> SourceProgress:
    lags = {} if behind is None else {(topic, "0"): behind}
    return SourceProgress(0, 1, behind, {topic: {"0": 8}}, lags)


def test_freshness_is_the_age_of_the_newest_message_while_there_are_newer_ones() -> None:
    clock = StandingClock(100_000)
    metrics = JobMetrics("db", clock)
    assert metrics.source.state().staleness_s is None
    metrics.of_table("t").count_epoch(epoch_until(90))
    metrics.of_table("held").count_epoch(epoch_until(40))
    metrics.note_held_table("held", HELD)

    def freshness() -> list[float | None]:
        return [number(metrics, "freshness_seconds", f"db.{name}") for name in ("t", "held")]

    assert freshness() == [None, 30], "nobody knows whether there are newer ones"
    assert metrics.source.state().staleness_s == 30
    metrics.note_progress(progress_of(None), 100_000)
    assert freshness() == [10, 30], "a source that does not tell its ends"
    metrics.note_progress(progress_of(0), 100_000)
    assert freshness() == [0, 30], "the job is at the end of its topics"
    metrics.note_progress(progress_of(5), 100_000)
    clock.sleep(5)
    assert freshness() == [15, 35]
    assert metrics.source.state().staleness_s == 35
    metrics.of_table("quiet").count_epoch(epoch_until(1))
    assert number(metrics, "freshness_seconds", "db.quiet") == 15, "as the others"
    of_first = {"topic": "topic", "partition": "0"}
    assert number(metrics, "partition_lag_messages", "db", **of_first) == 5


def test_a_table_that_waits_grows_stale() -> None:
    """A wait for compactions is no error but counts, even before the table's first message."""
    clock = StandingClock(100_000)
    metrics = JobMetrics("db", clock)
    log = EventLog(clock, metrics=metrics)
    metrics.of_table("t").count_epoch(epoch_until(90))
    metrics.note_progress(progress_of(0), 100_000)
    for name in ("t", "never_made"):
        log.report_held_table(name, WAITING)
    clock.sleep(3 * 3600)
    metrics.note_progress(progress_of(0), clock.now_ms())
    assert number(metrics, "freshness_seconds", "db.t") == 3 * 3600 + 10
    assert number(metrics, "freshness_seconds", "db.never_made") == 3 * 3600 + 30
    assert metrics.source.state().staleness_s == 3 * 3600 + 30
    assert number(metrics, "held_tables", "db.t") == 0, "no error holds it back"
    for name in ("t", "never_made"):
        log.report_held_table(name, None)
    assert number(metrics, "freshness_seconds", "db.t") == 0
    assert number(metrics, "freshness_seconds", "db.never_made") == 0


def test_a_quiet_table_that_begins_to_wait_was_as_far_as_the_others() -> None:
    """The table's newest message is hours old, but it lacks nothing until it waits."""
    clock = StandingClock(20_000_000)
    metrics = JobMetrics("db", clock)
    metrics.of_table("quiet").count_epoch(epoch_until(9_000))
    metrics.of_table("t").count_epoch(epoch_until(19_990))
    metrics.note_held_table("quiet", replace(WAITING, since_ms=20_000_000))
    metrics.of_table("t").count_epoch(epoch_until(19_999))
    clock.sleep(1)
    metrics.note_held_table("quiet", replace(WAITING, since_ms=20_000_000, tries=1))
    assert number(metrics, "freshness_seconds", "db.quiet") == 11
    assert metrics.source.state().staleness_s == 11


def test_a_lag_of_zero_is_believed_while_the_source_answers() -> None:
    clock = StandingClock(100_000)
    metrics = JobMetrics("db.t", clock, look_interval_s=65)
    metrics.count_epoch(epoch_until(10))
    metrics.note_progress(progress_of(0), 100_000)
    clock.sleep(65)
    assert number(metrics, "freshness_seconds", "db.t") == 0
    clock.sleep(5)
    assert number(metrics, "freshness_seconds", "db.t") == 70, "since then nobody knows"
    metrics.note_progress(progress_of(0), clock.now_ms())
    assert number(metrics, "freshness_seconds", "db.t") == 0


def test_a_job_has_its_numbers_before_its_first_epoch(tmp_path: Path) -> None:
    clock = StandingClock(1_000_000_000)
    table = small_table(tmp_path / "t", "k INT", ("k",))
    table.commit(("+I", {"k": 1}), properties={SOURCE_TIME_PROPERTY: "999970000"})
    metrics = JobMetrics("db", clock)
    metrics.source.note_start("db")
    EventLog(clock, metrics=metrics).of_table("t").on_open_table(table.table, {"topic"})
    first_snapshot = table.table.snapshots.snapshot(1)
    assert number(metrics, "source_looked_timestamp_seconds", "db") == 1_000_000
    assert metrics.source.state().look_age_s is None, "which /readyz asks for"
    assert number(metrics, "last_commit_timestamp_seconds", "db.t") == first_snapshot.time_ms / 1000
    assert number(metrics, "newest_message_timestamp_seconds", "db.t") == 999_970
    assert number(metrics, "freshness_seconds", "db.t") is None, "there may be nothing newer"
    assert metrics.source.state().staleness_s is None
    assert not metrics.source.state().is_committed
    metrics.note_progress(progress_of(4), clock.now_ms())
    assert number(metrics, "freshness_seconds", "db.t") == 30
    assert number(metrics, "table_lag_messages", "db.t") == 4


def test_the_label_of_others_has_the_age_of_the_oldest_that_waits() -> None:
    clock = StandingClock(100_000)
    metrics = JobMetrics("db", clock)
    for table in range(TABLE_LABELS_MAX + 3):
        metrics.of_table(f"t{table}").count_epoch(epoch_until(50 + 0.1 * table))
    metrics.note_progress(progress_of(5), 100_000)

    def age() -> float | None:
        return number(metrics, "freshness_seconds", "db.(others)")

    assert age() == pytest.approx(29.8)
    for table in (1, 2):
        metrics.note_held_table(f"t{TABLE_LABELS_MAX + table}", HELD)
    assert age() == pytest.approx(29.9)
    metrics.note_held_table(f"t{TABLE_LABELS_MAX + 1}", None)
    assert age() == pytest.approx(29.8)


def test_the_lag_of_a_table_is_that_of_its_topics() -> None:
    behind = {("a", "0"): 3, ("a", "1"): 4, ("b", "0"): 5, ("both", "0"): 6}
    topics = {"orders": {"a", "b"}, "items": {"both"}, "parts": {"both"}, "quiet": set[str]()}
    assert table_lags(topics, behind, {}, {}) == {"orders": 12}, "nobody knows of quiet"
    ends = {"a": {"0": 100, "1": 50}, "b": {"0": 10}, "c": {"0": 1000}}
    starts = {"orders": {"a": {"0": 90, "1": 50}, "c": {"0": 0}}}
    assert table_lags(topics, behind, ends, starts)["orders"] == 12 + 10 + 0 + 10


def test_a_table_whose_topic_becomes_anothers_too_has_no_lag_of_its_own() -> None:
    metrics = JobMetrics("db", StandingClock(100_000))
    for name in ("t", "u"):
        metrics.of_table(name).count_epoch(epoch_until(90, topic=name))
    for topic, behind in (("t", 2), ("u", 9)):
        metrics.note_progress(progress_of(behind, topic), 100_000)
    assert number(metrics, "table_lag_messages", "db.u") == 9
    metrics.of_table("t").count_epoch(epoch_until(91, topic="u"))
    metrics.note_progress(progress_of(9, "u"), 100_000)
    assert number(metrics, "table_lag_messages", "db.u") is None
    assert number(metrics, "lag_messages", "db") == 9
