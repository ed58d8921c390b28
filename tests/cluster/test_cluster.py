"""A job of two tables on a standalone cluster of Spark whose machines die in the middle of work.

Tables and checkpoint lie on S3. The executors' Python is in the archive of the job's environment.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from stream_app.app.launch.embedded_broker import EmbeddedBroker
from stream_app.table.opening import open_file_store_table
from tests.support.brokers.kafka_broker import new_topic, produce
from tests.support.engines.fast_jvm import fast_jvm
from tests.support.engines.packed_environment import imports_stream_app, pack_environment
from tests.support.engines.spark_cluster import (
    SECONDS_MAX,
    SparkCluster,
    WorkerMachine,
    connections,
    sockets,
)
from tests.support.jobs.ingest_process import IngestProcess, write_conf
from tests.support.jobs.table_writer import read_changes, read_rows
from tests.support.servers.s3_server import ACCESS_KEY, SECRET_KEY, S3Server
from tests.support.suite.polling import wait_until
from tests.support.tables.snapshot_chain import check_chain

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.java, pytest.mark.slow]
ROWS = 40
KEYS = 30
TASK_SIZE_MAX = 2_000
"""A task is larger as it is sent to an executor; all else that is sent to one is smaller."""
STANDS_STILL_S = 30.0
TABLES = ("plain", "moved")


@dataclass
class ClusterJob:
    """A job of a cluster, what was sent to it, and what its tables must hold."""

    folder: Path
    cluster: SparkCluster
    broker: EmbeddedBroker
    s3: S3Server
    sent: int = 0
    job: IngestProcess = field(init=False)

    def __post_init__(self) -> None:
        self.topic = new_topic(self.broker, partitions=2)
        self.root = f"s3://{self.s3.new_bucket()}/jobs"
        assert not imports_stream_app(self.folder), "only by the archive"
        environment = pack_environment(self.folder / "environment.tar.gz")
        self.spark = {
            "spark.master": self.cluster.url,
            "spark.archives": f"{environment}#environment",
            "spark.pyspark.python": "./environment/bin/python",
            "spark.cores.max": "2",
            "spark.executor.cores": "1",
            "spark.executor.memory": "512m",
            "spark.decommission.enabled": "true",
            "spark.driver.extraJavaOptions": fast_jvm(),
            "spark.executor.extraJavaOptions": fast_jvm(),
        }
        conf = write_conf(
            self.folder / "job.toml",
            source={
                "bootstrap-servers": self.broker.bootstrap,
                "topics": [self.topic],
            },
            sync={
                "warehouse": f"{self.root}/warehouse",
                "database": "ods",
                "primary-keys": ["id"],
                "options.changelog-producer": "input",
                "tables.plain.options.bucket": "2",
                "tables.plain.options.num-sorted-run.compaction-trigger": "2",
                "tables.moved.options.bucket": "-1",
                "tables.moved.options.dynamic-bucket.max-buckets": "4",
                "tables.moved.options.num-sorted-run.compaction-trigger": "100",
                "tables.moved.partition-keys": ["state"],
            },
            stream={
                "checkpoint": f"{self.root}/checkpoint",
                "quarantine": f"{self.root}/quarantine",
                "trigger": "0 seconds",
                "driver-messages": 0,  # the machines that die have all epochs
            },
            spark=self.spark,
            **{"file-system": self.s3.options},
        )
        self.job = IngestProcess(conf, self.folder, environ={"SPARK_LOCAL_IP": "127.0.0.1"})

    def send(self, count: int) -> None:
        """Each number is a row of both tables."""
        messages = []
        for number in range(self.sent, self.sent + count):
            for table in TABLES:
                row = {"id": f"{number % KEYS}", "state": _state(number), "v": f"v{number}"}
                op = "c" if number < KEYS else "u"
                place = {"db": "shop", "schema": "s", "table": table}
                value = {"before": None, "after": row, "op": op, "source": place}
                messages.append(
                    (json.dumps({"id": row["id"]}).encode(), json.dumps(value).encode())
                )
        produce(self.broker, self.topic, messages)
        self.sent += count

    def wait_until_all_is_in(self) -> None:
        self.job.wait_for(lambda events: _messages(events) == len(TABLES) * self.sent)

    def working(self) -> WorkerMachine:
        """Return a machine whose executor runs tasks."""
        wait_until(lambda: any(worker.works() for worker in self.cluster.workers), self.job.log)
        return next(worker for worker in self.cluster.workers if worker.works())

    def compact(self, name: str) -> None:
        """Run the verb to its end."""
        location = f"{self.root}/warehouse/ods.db/{name}"
        command = [sys.executable, "-P", "-m", "stream_app", "compact", location]
        for key, value in {**self.spark, "spark.cores.max": "1"}.items():
            command += ["--set", f"{key}={value}"]
        keys = {
            "AWS_ENDPOINT_URL": self.s3.endpoint,
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
        }
        result = subprocess.run(
            command, cwd=self.folder, env={**os.environ, **self.job.environ, **keys}, check=False,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=SECONDS_MAX, text=True,
        )  # fmt: skip
        assert result.returncode == 0, result.stdout

    def check(self) -> None:
        newest = {number % KEYS: number for number in range(self.sent)}
        self.s3.copy_to(f"{self.root}/warehouse", self.folder / "warehouse")
        for name in TABLES:
            table = open_file_store_table(str(self.folder / "warehouse" / "ods.db" / name))
            check_chain(table)
            assert sorted(
                (row["id"], row["state"], row["v"]) for row in read_rows(table)
            ) == sorted((f"{key}", _state(number), f"v{number}") for key, number in newest.items())
            changes = [change for epoch in read_changes(table).values() for change in epoch]
            assert sorted(row["v"] for kind, row in changes if kind in ("+I", "+U")) == sorted(
                f"v{number}" for number in range(self.sent)
            )
            deleted_rows = sorted(
                (row["id"], row["state"]) for kind, row in changes if kind == "-D"
            )
            assert deleted_rows == (sorted(_moves(self.sent)) if name == "moved" else [])


def _state(number: int) -> str:
    """A key's rows alternate between two partitions now and then."""
    return "new" if number // KEYS % 3 else "paid"


def _moves(sent: int) -> Iterator[tuple[str, str]]:
    """The rows that a key leaves behind in another partition."""
    for number in range(KEYS, sent):
        before = _state(number - KEYS)
        if before != _state(number):
            yield f"{number % KEYS}", before


def _messages(events: list[dict[str, Any]]) -> int:
    return sum(event.get("changes", 0) for event in events)


@pytest.fixture
def cluster_job(tmp_path: Path, kafka_broker: EmbeddedBroker, s3: S3Server) -> Iterator[ClusterJob]:
    with SparkCluster(tmp_path / "cluster", {"spark.decommission.enabled": "true"}) as cluster:
        for _ in range(2):
            cluster.add_worker()
        job = ClusterJob(tmp_path, cluster, kafka_broker, s3)
        cluster.wait_for_workers(2)
        yield job
        if job.job.process is not None and job.job.process.poll() is None:
            job.job.kill()


@dataclass
class Strike:
    """Kills the machine, or only its executors, that sends a request of this kind to the store.

    The request is answered when the sender is dead.

    Attributes:
        pattern: of ``METHOD PATH``.
    """

    cluster_job: ClusterJob
    pattern: str
    kill: Callable[[WorkerMachine], None]
    done: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __enter__(self) -> Strike:
        self.cluster_job.s3.heads = []
        self.cluster_job.s3.before = self._before
        return self

    def __exit__(self, *_: object) -> None:
        self.cluster_job.s3.before = self.cluster_job.s3.heads = None

    def _before(self, method: str, path: str) -> None:
        if self.done.is_set() or not re.search(self.pattern, f"{method} {path}"):
            return
        with self._lock:
            heads = self.cluster_job.s3.heads or []
            ports = [int(head["REMOTE_PORT"]) for head in heads if head["PATH_INFO"] == path]
            holder = self.cluster_job.cluster.holder(ports[-1])
            if holder is not None and not self.done.is_set():
                self.kill(holder)
                self.done.set()

    def wait(self) -> None:
        wait_until(self.done.is_set, self.cluster_job.job.log)


@contextlib.contextmanager
def dies_before_its_broadcast(machine: WorkerMachine) -> Iterator[None]:
    """An executor dies with a task whose broadcast it has not fetched.

    It stands still from before the epoch until the driver's bytes wait for it. One that was in the
    middle of a compaction is sent nothing: it dies with that after a while.
    """
    [executor] = machine.stop_executors()
    before, deadline = _waiting(executor), time.monotonic() + STANDS_STILL_S
    yield
    while _waiting(executor) <= before + TASK_SIZE_MAX and time.monotonic() < deadline:
        time.sleep(0.02)
    machine.kill_executors()


def _waiting(process: int) -> int:
    """The most bytes that a process has not read from a connection."""
    numbers = sockets(process)
    return max((size for _, size, number in connections() if number in numbers), default=0)


def test_machines_die_in_the_middle_of_a_broadcast_an_epoch_and_a_compaction(
    cluster_job: ClusterJob,
) -> None:
    job, cluster = cluster_job.job, cluster_job.cluster
    cluster_job.send(ROWS)
    job.start()
    cluster_job.wait_until_all_is_in()

    with dies_before_its_broadcast(cluster_job.working()):
        cluster_job.send(ROWS)
    cluster_job.wait_until_all_is_in()

    leaving = cluster_job.working()
    leaving.decommission()
    cluster_job.send(ROWS)
    cluster_job.wait_until_all_is_in()
    leaving.lose()
    cluster.add_worker()

    data_files = "/plain/bucket-.*/data-"
    with Strike(cluster_job, f"PUT .*{data_files}", WorkerMachine.lose) as strike:
        cluster_job.send(ROWS)
        strike.wait()
    cluster.add_worker()
    with Strike(
        cluster_job, "GET .*/plain/bucket-.*/data-", WorkerMachine.kill_executors
    ) as strike:
        cluster_job.send(ROWS)
        strike.wait()
    cluster_job.wait_until_all_is_in()
    assert job.stop() == 0, job.log()
    # PySpark's server of counts still lives after tasks that ran again.
    assert "Failed to update accumulator" not in job.log(1 << 30)

    with Strike(cluster_job, "GET .*/bucket-.*/data-", WorkerMachine.kill_executors) as strike:
        cluster_job.compact("moved")
        assert strike.done.is_set()
    cluster_job.check()
