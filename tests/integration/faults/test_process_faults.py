"""A running job survives, or ends cleanly, when a worker, the broker or a right to write fails.

Each test reads the table back and compares its rows and changes with the produced messages.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from stream_app import open_table
from stream_app.app.launch.embedded_broker import EmbeddedBroker
from tests.support.brokers.kafka_broker import new_topic, produce
from tests.support.jobs.ingest_process import IngestProcess, a_free_port, job_conf
from tests.support.jobs.ingest_server import IngestServer
from tests.support.jobs.job_faults import forbidden_folder, kill_a_worker, unprivileged_words
from tests.support.jobs.job_harness import change

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow]
PER_EPOCH = 20
SECONDS_MAX = 240
Events = Sequence[dict[str, Any]]


@dataclass
class WatchedJob:
    """A job of its own, what was sent to it, and what its table must hold.

    Attributes:
        further: a second cluster; every second row is in its topic.
    """

    folder: Path
    broker: EmbeddedBroker
    further: EmbeddedBroker | None = None
    job: IngestProcess = field(init=False)
    sent: int = 0

    def __post_init__(self) -> None:
        self.topic = new_topic(self.broker)
        clusters: dict[str, Any] = {}
        if self.further is not None:
            new_topic(self.further, name=self.topic)
            servers = {"clusters.eu.bootstrap-servers": self.further.bootstrap}
            clusters = {**servers, "merge-shards": True}
        conf = job_conf(
            self.folder,
            source={
                "bootstrap-servers": self.broker.bootstrap,
                "topics": [self.topic],
                "max-offsets-per-trigger": PER_EPOCH,
                **clusters,
            },
            table={"options.num-sorted-run.compaction-trigger": "3"},
            stream={"trigger": "0 seconds", "driver-messages": 0},  # workers have all epochs
        )
        self.job = IngestProcess(conf, self.folder)
        self.job.command = (*unprivileged_words(), *self.job.command)

    @property
    def table(self) -> Path:
        return self.folder / "warehouse" / "db.db" / "t"

    def send(self, count: int) -> None:
        """Rows with keys of their own."""
        numbers = range(self.sent, self.sent + count)
        rows = [change(number, f"v{number}") for number in numbers]
        produce(self.broker, self.topic, rows if self.further is None else rows[::2])
        if self.further is not None:
            produce(self.further, self.topic, rows[1::2])
        self.sent += count

    def wait_until_all_is_in(self, seconds: float = SECONDS_MAX) -> None:
        self.job.wait_for(lambda events: changes(events) == self.sent, seconds)

    def finish(self, server: IngestServer) -> None:
        """Start it again, where a JVM runs already; the rest is one epoch."""
        settings = ("stream.trigger=availableNow", f"source.max-offsets-per-trigger={self.sent}")
        result = server.run(self.job.conf, *settings)
        assert result.code == 0, result.output
        self.assert_rows()

    def assert_one_run_has_all_rows(self) -> None:
        """Wait for all rows, stop the job, which was never started again, and look at its table."""
        self.wait_until_all_is_in()
        assert self.job.runs == 1
        assert self.job.stop() == 0, self.job.log()
        self.assert_rows()

    def assert_rows(self) -> None:
        table = open_table(str(self.table))
        assert sorted(table.read().read_all().to_pylist(), key=lambda row: row["id"]) == [
            {"id": number, "v": f"v{number}"} for number in range(self.sent)
        ]
        changes = [
            (row["rowkind"], row["id"])
            for batch in table.changelog(start="from-snapshot", snapshot=1)
            for row in batch.rows.to_pylist()
        ]
        assert sorted(changes) == [("+I", number) for number in range(self.sent)]


def changes(events: Events) -> int:
    return sum(event.get("changes", 0) for event in events)


def epochs(at_least: int) -> Callable[[Events], bool]:
    return lambda events: sum(event["event"] == "epoch" for event in events) >= at_least


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[EmbeddedBroker]:
    """Yield a broker that a test may kill."""
    with EmbeddedBroker(tmp_path / "kafka", port=a_free_port()) as broker:
        yield broker


@pytest.fixture
def watched_job(tmp_path: Path, kafka_broker: EmbeddedBroker) -> Iterator[WatchedJob]:
    watched_job = WatchedJob(tmp_path, kafka_broker)
    yield watched_job
    _end(watched_job.job)


def _end(job: IngestProcess) -> None:
    if job.process is not None and job.process.poll() is None:
        job.kill()


def _kill_a_worker_at_work(job: IngestProcess) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    assert job.process is not None
    while kill_a_worker(job.process.pid) is None:
        assert time.monotonic() < deadline, job.log()
        time.sleep(0.01)


@pytest.mark.variant
def test_a_worker_that_is_killed_is_replaced_and_one_without_a_second_try_ends_the_job(
    watched_job: WatchedJob, ingest_server: IngestServer
) -> None:
    job = watched_job.job
    watched_job.send(6 * PER_EPOCH)
    job.start()
    for epoch_count in (2, 4):
        job.wait_for(epochs(epoch_count))
        _kill_a_worker_at_work(job)
    watched_job.wait_until_all_is_in()
    assert job.stop() == 0, job.log()
    watched_job.assert_rows()

    watched_job.send(12 * PER_EPOCH)
    job.start("--set", "spark.spark.master=local[2,1]")
    before = len(job.events())
    job.wait_for(lambda events: epochs(2)(events[before:]))
    deadline = time.monotonic() + SECONDS_MAX
    while job.process is not None and job.process.poll() is None:
        assert time.monotonic() < deadline, job.log()
        kill_a_worker(job.process.pid)
        time.sleep(0.05)
    assert job.finish() == 1, job.log()
    error = job.log().rpartition("error: ")[2]
    assert error.startswith("a worker of Spark died in the middle of its task"), job.log()
    assert "  to fix: " in error
    assert "\tat " not in error
    assert "Traceback" not in error

    watched_job.finish(ingest_server)


def test_the_job_goes_on_when_a_killed_broker_is_back(
    tmp_path: Path, own_broker: EmbeddedBroker
) -> None:
    watched_job = WatchedJob(tmp_path, own_broker)
    job = watched_job.job
    try:
        watched_job.send(5 * PER_EPOCH)
        job.start()
        job.wait_for(epochs(2))
        own_broker.kill()
        time.sleep(2)
        own_broker.start()
        watched_job.send(5 * PER_EPOCH)
        watched_job.assert_one_run_has_all_rows()
    finally:
        _end(job)


@pytest.mark.variant
def test_a_job_of_two_clusters_waits_for_the_one_that_was_killed(
    tmp_path: Path, kafka_broker: EmbeddedBroker, own_broker: EmbeddedBroker
) -> None:
    watched_job = WatchedJob(tmp_path, kafka_broker, own_broker)
    job = watched_job.job
    try:
        watched_job.send(4 * PER_EPOCH)
        job.start()
        watched_job.wait_until_all_is_in()
        own_broker.kill()
        produce(kafka_broker, watched_job.topic, [change(watched_job.sent, f"v{watched_job.sent}")])
        time.sleep(5)
        assert changes(job.events()) == watched_job.sent, "an epoch takes messages of all clusters"
        watched_job.sent += 1
        own_broker.start()
        watched_job.send(4 * PER_EPOCH)
        watched_job.assert_one_run_has_all_rows()
    finally:
        _end(job)


@pytest.mark.variant
def test_a_right_that_is_lost_stops_the_job_and_comes_back(
    watched_job: WatchedJob, ingest_server: IngestServer
) -> None:
    job = watched_job.job
    watched_job.send(10 * PER_EPOCH)
    job.start()
    job.wait_for(epochs(3))
    with forbidden_folder(watched_job.table):
        assert job.finish() == 2, job.log()
        error = job.log().rpartition("error: ")[2]
        # Either a folder cannot be made, or a file cannot be opened; their texts differ.
        assert error.startswith("the file system refused: "), job.log()
        assert "Permission denied" in error
        assert f"  where: {watched_job.table}" in error
        assert "  to fix: let the user of this process write there" in error
        assert "\tat " not in error
    watched_job.finish(ingest_server)
