"""The driver's JVM is killed alone: Python, the driver's other half, ends too, and says why."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from stream_app import open_table
from stream_app.app.launch.embedded_broker import EmbeddedBroker
from stream_app.spark.driver.jvm_watch import GRACE_S
from tests.support.brokers.kafka_broker import new_topic, produce
from tests.support.jobs.ingest_process import IngestProcess, job_conf
from tests.support.jobs.ingest_server import IngestServer
from tests.support.jobs.job_harness import change

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow]
PER_EPOCH, EPOCHS = 20, 12
_SET_CHILD_SUBREAPER = 36
"""`prctl(2)`: this process becomes the parent of orphans, so that it sees how they end."""


@pytest.fixture
def adopted() -> Iterator[None]:
    libc = ctypes.CDLL(None)
    libc.prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    yield
    libc.prctl(_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def python_of(jvm: int) -> int:
    """The Python that spark-submit's JVM has started for the driver."""
    children = Path(f"/proc/{jvm}/task").glob("*/children")
    processes = [
        int(pid)
        for child in children
        for pid in child.read_text().split()
        if "ingest.py" in Path(f"/proc/{pid}/cmdline").read_text()
    ]
    assert len(processes) == 1
    return processes[0]


def exit_code_within(pid: int, seconds: float) -> int | None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        ended_pid, status = os.waitpid(pid, os.WNOHANG)
        if ended_pid:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.05)
    os.kill(pid, signal.SIGKILL)
    return None


@pytest.mark.usefixtures("adopted")
@pytest.mark.parametrize(
    "moment",
    [pytest.param("while a commit waits for compactions", marks=pytest.mark.variant), "while idle"],
)
def test_the_driver_ends_with_its_jvm_and_says_so(
    tmp_path: Path, kafka_broker: EmbeddedBroker, ingest_server: IngestServer, moment: str
) -> None:
    topic = new_topic(kafka_broker)
    conf = job_conf(
        tmp_path,
        source={
            "bootstrap-servers": kafka_broker.bootstrap,
            "topics": [topic],
            "max-offsets-per-trigger": PER_EPOCH,
        },
        table={
            "options.num-sorted-run.compaction-trigger": "2",
            "options.num-sorted-run.stop-trigger": "2",
            "options.bucket": "8",
        },
        stream={"trigger": "0 seconds"},
    )
    rows = EPOCHS * PER_EPOCH
    produce(kafka_broker, topic, [change(number, f"v{number}") for number in range(rows)])
    job = IngestProcess(conf, tmp_path)
    job.start()
    assert job.process is not None
    try:
        is_idle = moment == "while idle"
        expected = rows if is_idle else 4 * PER_EPOCH
        job.wait_for(lambda events: sum(event.get("changes", 0) for event in events) >= expected)
        if is_idle:
            time.sleep(1)
        python = python_of(job.process.pid)
        os.kill(job.process.pid, signal.SIGKILL)
        job.process.wait()  # then its children have another parent
        assert exit_code_within(python, 10 * GRACE_S) == 1, job.log()
    finally:
        with contextlib.suppress(ProcessLookupError):
            job.kill()
    log = job.log()
    assert f"the JVM of this driver, process {job.process.pid}, has ended" in log
    assert log.count("the JVM of this driver") == 1
    assert "  to fix: start the job again: it continues where it was" in log

    result = ingest_server.run(conf, "stream.trigger=availableNow")
    assert result.code == 0, result.output
    table = open_table(str(tmp_path / "warehouse" / "db.db" / "t"))
    assert sorted(row["id"] for row in table.read().read_all().to_pylist()) == list(range(rows))
