"""The probes answer whether a job is alive and its tables are fresh."""

from __future__ import annotations

import socket
import urllib.request
from dataclasses import replace
from urllib.error import HTTPError

from prometheus_client import CollectorRegistry

from stream_app.app.config.secrets import Secrets
from stream_app.app.observe.metrics.endpoint import serving_metrics
from stream_app.app.observe.metrics.health import JobHealth, SourceState, staleness_problems
from stream_app.app.observe.metrics.job_metrics import JobMetrics
from stream_app.epochs.rounds.table_listener import EpochReport
from stream_app.epochs.stages.decode_counts import DecodeCounts, PartitionEnd
from stream_app.epochs.stream.running_stream import SourceProgress
from stream_app.kafka.offset_ranges import JobOffsets
from tests.support.jobs.ingest_process import a_free_port
from tests.support.tables.small_table import StandingClock


def test_health_says_why_it_fails() -> None:
    clock, port = StandingClock(0), a_free_port()
    fresh = SourceState(staleness_s=10.0, look_age_s=5.0, lag=0, is_committed=True)
    states = [fresh]
    health = JobHealth(clock, 300, lambda: states[-1], hide=Secrets(["swordfish"]).hide)

    def answers(path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as answer:
                return answer.status, answer.read().decode()
        except HTTPError as error:
            return error.code, error.read().decode()

    with serving_metrics(CollectorRegistry(), port, health):
        assert answers("/healthz") == (200, "ok\n")
        assert answers("/readyz") == (503, "the job is starting\n")
        health.note_heartbeat(True)
        assert answers("/readyz") == (200, "ok\n")
        states.append(replace(fresh, staleness_s=301.0))
        health.held_reasons["orders"] = "its bucket number has changed, says swordfish"
        assert answers("/readyz") == (
            503,
            "a table is 301 s behind its source; stream.max-staleness is 300 s\n"
            "orders is held back: its bucket number has changed, says ****\n",
        )
        assert answers("/healthz") == (200, "ok\n")
        clock.sleep(121)
        hangs = "the job has not checked its stream for 121 s\n"
        assert answers("/healthz") == (503, hangs)
        assert answers("/readyz")[1].startswith(hangs)
        health.note_heartbeat(False)
        clock.sleep(1000)
        assert answers("/healthz") == (200, "ok\n"), "it waits for its compactions"
    with serving_metrics(CollectorRegistry(), port):
        assert "# " not in answers("/healthz")[1]


def test_a_client_that_ends_its_side_gets_the_answer() -> None:
    port = a_free_port()
    with (
        serving_metrics(CollectorRegistry(), port),
        socket.create_connection(("127.0.0.1", port), timeout=60) as probe,
    ):
        probe.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        probe.shutdown(socket.SHUT_WR)  # as `nc -N` does
        assert probe.makefile("rb").readline() == b"HTTP/1.1 200 OK\r\n"


def test_a_job_is_not_ready_before_it_knows_how_far_it_is() -> None:
    clock = StandingClock(0)
    metrics = JobMetrics("db.t", clock)

    def problems(trigger_s: float = 5) -> list[str]:
        return staleness_problems(metrics.source.state(), 300, trigger_s)

    assert problems() == ["the job has not checked the source yet"]
    metrics.note_progress(SourceProgress(0, 1, 7, {}, {}), 0)
    assert problems() == ["7 messages wait, and no epoch is committed yet"]
    counts = DecodeCounts(ends={("t", 0): PartitionEnd(7, 0)})
    metrics.count_epoch(EpochReport(epoch=0, counts=counts))
    metrics.note_progress(SourceProgress(0, 1, 0, {}, {}), 0)
    assert problems() == []
    clock.sleep(301)
    assert problems() == [
        "the job has not checked the source for 301 s: an epoch takes long, or the broker does not "
        "answer",
        "a table is 301 s behind its source; stream.max-staleness is 300 s",
    ]
    metrics.source.look_interval_s = 3660
    assert problems(trigger_s=3600) == [], "it is not asked more often"


def test_a_large_epoch_under_way_is_behind() -> None:
    """Spark has it as read, or has not told of it yet; the tables do not have it."""
    clock, positions = StandingClock(0), list[JobOffsets]()
    metrics = JobMetrics("db.t", clock, look_interval_s=1060)
    metrics.source.read_from(lambda: positions[-1])

    def looked(begun_offset: int, committed_offset: int) -> tuple[int | None, bool]:
        positions.append(
            JobOffsets(
                begun_offsets={"t": {"0": begun_offset}},
                committed_offsets={"t": {"0": committed_offset}},
            )
        )
        metrics.source.note_heartbeat("db.t")
        source = metrics.source.state()
        return source.lag, staleness_problems(source, 300, 1000) == []

    assert looked(10, 10) == (None, False), "nobody knows the newest message"
    clock.sleep(301)
    metrics.note_progress(SourceProgress(0, 10, 0, {"t": {"0": 10}}, {}, {"t": {"0": 10}}), 301_000)
    counts = DecodeCounts(ends={("t", 0): PartitionEnd(9, 0)})
    metrics.count_epoch(EpochReport(epoch=0, counts=counts))
    assert looked(10, 10) == (0, True)
    assert looked(5000, 10) == (4990, False)
    metrics.note_progress(
        SourceProgress(1, 4990, 0, {"t": {"0": 5000}}, {}, {"t": {"0": 5000}}), 301_000
    )
    assert metrics.source.state().lag == 4990
    lag = metrics.registry.get_sample_value("stream_app_lag_messages", {"table": "db.t"})
    assert lag == 4990
    assert looked(5000, 5000) == (0, True)
