"""Runs a job under load for a chosen time, and kills it, its workers and its broker.

1. A thread fills a topic without a pause; the job reads it in epochs as short as it can, compacts,
   and expires snapshots until few are left.
2. At random moments the driver, a Python worker or the broker is killed by SIGKILL. A worker is
   Spark's to replace; the others are started again.
3. Each time the job is not running, and at the end, the table is judged (`SoakCheck`); at the end
   by Paimon's own reader as well.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from bench.shop.shop_orders import COLUMNS
from stream_app.app.launch.embedded_broker import EmbeddedBroker
from tests.soak.endless_topic import ShopTopic
from tests.soak.soak_check import SoakCheck
from tests.soak.soak_report import SoakReport
from tests.support.brokers.kafka_broker import new_topic
from tests.support.engines.fast_jvm import fast_jvm
from tests.support.jobs.ingest_process import IngestProcess, write_conf
from tests.support.jobs.job_faults import kill_a_worker
from tests.support.judges.paimon_java import PaimonJava

PARTITIONS = 3
KINDS = ("driver", "worker", "broker")
_GIVE_UP_SECONDS = 180
"""Without an epoch for so long the job hangs."""
_SPARE_SECONDS = 5
_CHANGES_PER_EPOCH_MAX = 2_000


class Soak:
    """One soak, in a folder of its own.

    Args:
        rate: messages a second.
        pause: mean seconds between what recovers from one kill and the next kill.
    """

    def __init__(self, folder: Path, *, seed: int, minutes: float, rate: int, pause: float) -> None:
        self.report = SoakReport(seed=seed, minutes=minutes)
        self._folder, self._pause, self._random = folder, pause, Random(seed)
        self._broker = EmbeddedBroker(folder / "kafka").start()
        self._began = time.monotonic()
        try:
            name = new_topic(self._broker, partitions=PARTITIONS)
        except BaseException:
            self._broker.stop()
            raise
        self._topic = ShopTopic(
            self._broker.bootstrap, name, PARTITIONS, rate, Random(self._random.random())
        )
        self._table = folder / "warehouse" / "shop.db" / "orders"
        self._job = IngestProcess(self._configure(name), folder)
        self.check = SoakCheck(self._table, self._topic)
        self._crashes: list[float] = []

    def run(self) -> SoakReport:
        """The whole of it; the report says what is wrong."""
        deadline = time.monotonic() + self.report.minutes * 60
        try:
            self._topic.start()
            self._start("first start")
            while time.monotonic() < deadline and not self.check.wrong:
                assert self._topic.is_running, "the producer has died"
                self._let_it_run(min(deadline, time.monotonic() + self._next_pause()))
                if time.monotonic() < deadline:
                    self._kill(self._random.choice(KINDS))
            self._topic.stop()
            self._drain()
        except Exception as error:
            # Whatever it is, a soak that could not go on has not passed.
            self.check.complain(f"{type(error).__name__}: {error}")
        finally:
            self._end()
        self._count()
        return self.report

    def _say(self, line: str) -> None:
        print(f"{time.monotonic() - self._began:6.0f} s  {line}", flush=True)

    def _recovered(self, kind: str, seconds: float) -> None:
        self.report.recovered(kind, seconds)
        self._say(f"{kind}: an epoch after {seconds:.1f} s")

    def _next_pause(self) -> float:
        return self._random.expovariate(1 / self._pause)

    def _let_it_run(self, until: float) -> None:
        while time.monotonic() < until:
            time.sleep(0.1)
            if self._has_ended():
                self._take_up("no kill")

    def _kill(self, kind: str) -> None:
        """Kill, see that it continues, and judge the table if nothing runs for a moment."""
        assert self._job.process is not None
        event_count, began = len(self._job.events()), time.monotonic()
        if kind == "driver":
            self._crashes.append(time.time())
            self._job.kill()
            self._say("driver: killed")
            self.report.kills[kind] += 1
            self._judge()
            self._start(kind)
            return
        if kind == "broker":
            self._broker.kill()
            time.sleep(self._random.uniform(0, 3))
            self._broker.start()
        elif kill_a_worker(self._job.process.pid, self._random.randrange(8)) is None:
            self._say("worker: there is none at this moment")
            return
        self._say(f"{kind}: killed")
        self._crashes.append(time.time())
        self.report.kills[kind] += 1
        if self._wait_for_an_epoch(event_count):
            self._recovered(kind, time.monotonic() - began)
        else:
            self._take_up(kind)

    def _start(self, kind: str, *arguments: str) -> None:
        event_count, began = len(self._job.events()), time.monotonic()
        self._job.start(*arguments)
        if self._wait_for_an_epoch(event_count):
            self._recovered(kind, time.monotonic() - began)
        else:
            self._take_up(kind)

    def _take_up(self, kind: str) -> None:
        """The job has ended by itself: that is allowed when it says why and how to fix it."""
        log, tries = self._job.log(20_000), len(self.report.end_errors)
        error = log.rpartition("error: ")[2].strip() if "error: " in log else log[-2000:]
        self._crashes.append(time.time())
        self.report.end_errors.append(f"after {kind}: {error}")
        self._say(f"the job has ended by itself after {kind}: {error.splitlines()[0]}")
        if "  to fix: " not in error or tries > 20:
            raise AssertionError(f"the job ended after {kind} without saying what to do: {error}")
        self._judge()
        self._start("end by itself")

    def _wait_for_an_epoch(self, event_count: int) -> bool:
        """Return whether the job has committed an epoch; False if the job has ended."""
        deadline = time.monotonic() + _GIVE_UP_SECONDS
        while not any(_is_epoch(event) for event in self._job.events()[event_count:]):
            if self._has_ended():
                return False
            if time.monotonic() > deadline:
                raise AssertionError(f"no epoch in {_GIVE_UP_SECONDS} s:\n{self._job.log()}")
            time.sleep(0.05)
        return True

    def _has_ended(self) -> bool:
        return self._job.process is None or self._job.process.poll() is not None

    def _judge(self) -> None:
        # What is being written when something dies is written for no longer than the longest so far
        # has taken; then the same again, for a compaction that waits for its commit.
        events = self._job.events()
        longest = max((_longest(event) for event in events), default=0) * 2 + _SPARE_SECONDS
        self.check.check(
            [(crash_time - longest, crash_time + longest) for crash_time in self._crashes]
        )
        self._say(
            f"judged: epoch {self.check.last_epoch}, {self.check.rows} rows, "
            f"{len(self.check.orphans)} orphans, {len(self.check.wrong)} things wrong"
        )

    def _drain(self) -> None:
        """Let the job end as it likes, take in the rest, and judge the end."""
        code = self._job.stop()
        if code != 0:
            raise AssertionError(f"the job's exit code is {code}:\n{self._job.log()}")
        self._crashes.append(time.time())
        self._judge()
        self._job.start("--set", "stream.trigger=availableNow")
        code = self._job.finish()
        if code != 0:
            raise AssertionError(f"the job's exit code is {code}:\n{self._job.log()}")
        self._judge()
        if self.check.applied_ends != self._topic.end():
            self.check.complain(
                f"the table ends at {self.check.applied_ends}, the topic at {self._topic.end()}"
            )
        with PaimonJava() as java:
            self.check.check_with_java(java)
        self._say(f"judged by Paimon's Java reader: {self.check.java_rows} rows")

    def _end(self) -> None:
        if not self._has_ended():
            self._job.kill()
        self._topic.stop()
        self._broker.stop()

    def _count(self) -> None:
        epochs = [event for event in self._job.events() if _is_epoch(event)]
        compactions = [c for event in self._job.events() for c in event.get("compactions", ())]
        numbers: dict[str, Callable[[], Any]] = {
            "messages in the topic": lambda: sum(self.check.applied_ends.values()),
            "of them sent again by the producer": lambda: self._topic.sent_again,
            "epochs that their run told of": lambda: len(epochs),
            "newest epoch": lambda: self.check.last_epoch,
            "compactions": lambda: len(compactions),
            "rows in the table": lambda: self.check.rows,
            "runs of the job": lambda: self._job.runs,
            "times the table was judged": lambda: self.check.checks,
            "changes of the changelog that were replayed": lambda: self.check.changes_replayed,
            "rows that Paimon's Java reader gave": lambda: self.check.java_rows,
            "changes that it gave": lambda: self.check.java_changes,
            "orphans at the end": lambda: len(self.check.orphans),
            "cores": lambda: os.cpu_count() or 0,
            "load of the machine at the end": lambda: f"{os.getloadavg()[1]:.1f}",
        }
        self.report.numbers = {name: number() for name, number in numbers.items()}
        self.report.wrong = self.check.wrong

    def _configure(self, topic: str) -> Path:
        return write_conf(
            self._folder / "job.toml",
            source={
                "bootstrap-servers": self._broker.bootstrap,
                "topics": [topic],
                "max-offsets-per-trigger": _CHANGES_PER_EPOCH_MAX,
            },
            table={
                "warehouse": str(self._folder / "warehouse"),
                "database": "shop",
                "name": "orders",
                "columns": COLUMNS,
                "primary-keys": ["dt", "id"],
                "partition-keys": ["dt"],
                "options.bucket": "2",
                "options.changelog-producer": "input",
                "options.num-sorted-run.compaction-trigger": "3",
                "options.snapshot.num-retained.min": "5",
                "options.snapshot.num-retained.max": "20",
                "options.snapshot.time-retained": "10 s",
            },
            stream={"checkpoint": str(self._folder / "checkpoint"), "trigger": "0 seconds"},
            spark={"spark.master": "local[2]", "spark.driver.extraJavaOptions": fast_jvm()},
        )


def _is_epoch(event: dict[str, Any]) -> bool:
    return event["event"] == "epoch" and not event["skipped"]


def _longest(event: dict[str, Any]) -> float:
    """Seconds of an epoch or of one of its compactions."""
    parts = ("wait_s", "read_s", "decode_s", "route_s", "write_s", "commit_s")
    epoch = sum(event.get(part, 0.0) for part in parts)
    return max([epoch, *(float(part["seconds"]) for part in event.get("compactions", ()))])
