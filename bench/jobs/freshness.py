"""Measures the age of messages at their commit: a steady stream, the real job and broker.

    ./run.sh bench freshness
    python -m bench.jobs.freshness [--rate N] [--seconds N] [--warm-up N]
        [--trigger TEXT | --freshness TEXT]

A process sends changes of the shop's orders at a steady rate, with the time of sending as the
timestamp. The job has two cores, changelog input and compaction. A message's age is the time from
its timestamp to the end of its commit. The ages of a warm-up are left out. Broker and sender share
the machine, and `load` is the load of all. Goals: median ≤ 0.2 s, 99th percentile ≤ 0.4 s, no more
snapshots of compactions than of epochs.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq
from confluent_kafka import Consumer, Producer, TopicPartition
from kafka.admin import KafkaAdminClient, NewTopic

from bench.goal import Goal
from bench.jobs.ingest import write_conf
from bench.process_time import ProcessorMeter
from bench.shop.shop_topic import PARTITIONS, TOPIC, write_messages
from stream_app.app.launch.embedded_broker import EmbeddedBroker

RATE, SECONDS, TRIGGER = 10_000, 60, "0 seconds"
WARM_UP_S = 20
EPOCH_MAX = 250_000
_SEND_INTERVAL_S = 0.01
_WAIT_MAX_S = 120.0
_PACE = f'trigger = "{TRIGGER}"'
_GOALS = (0.2, 0.4)


@dataclass(frozen=True)
class Freshness:
    """The result of one run.

    Attributes:
        ages: the ages of the measured messages, in seconds.
        epochs: the number of messages of each epoch in the measured time.
        appends, compacts: the numbers of snapshots by kind in the measured time.
        processor_s: the job's processor seconds during the measurement.
        load: the machine's load in the last minute, including broker and sender.
    """

    ages: npt.NDArray[np.float64]
    epochs: Sequence[int]
    appends: int
    compacts: int
    processor_s: float
    load: float

    @property
    def quantiles(self) -> tuple[float, float]:
        """The median and the 99th percentile."""
        return float(np.quantile(self.ages, 0.5)), float(np.quantile(self.ages, 0.99))

    def lines(self) -> Iterator[str]:
        median, percentile_99 = self.quantiles
        yield (
            f"{len(self.ages):,} messages in {len(self.epochs)} epochs: median {median:.2f} s "
            f"(goal {_GOALS[0]}), 99th percentile {percentile_99:.2f} s (goal {_GOALS[1]}), "
            f"longest {self.ages.max():.2f} s"
        )
        yield (
            f"snapshots: {self.appends} of epochs, {self.compacts} of compactions; processor of "
            f"the job {1e6 * self.processor_s / len(self.ages):.1f} µs a message; "
            f"load of the machine {self.load:.1f}"
        )


def measure(
    folder: Path, rate: int, seconds: int, pace: str, warm_up: int = WARM_UP_S
) -> Freshness:
    """Start broker and job, send messages, and compare their timestamps with the commits.

    Args:
        pace: the line of the job's configuration about the length of epochs.
    """
    messages, job_folder = folder / "messages.parquet", folder / "fresh"
    write_messages(messages, rate * (warm_up + seconds))
    job_folder.mkdir()
    with EmbeddedBroker(folder / "fresh-kafka") as broker:
        admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
        admin.create_topics([NewTopic(TOPIC, num_partitions=PARTITIONS)])
        admin.close()
        events = job_folder / "events.jsonl"
        conf = write_conf(
            {
                "bootstrap": broker.bootstrap,
                "folder": str(job_folder),
                "epoch": EPOCH_MAX,
                "pace": pace,
            }
        )
        command = [sys.executable, "-P", "-m", "stream_app", "ingest"]
        with (
            (job_folder / "log.txt").open("wb") as log,
            subprocess.Popen(
                [*command, "--conf", str(conf), "--events", str(events)], stdout=log, stderr=log
            ) as job,
            ProcessorMeter(job.pid) as meter,
        ):
            try:
                _wait_for(events, "started", job, job_folder / "log.txt")
                sending = json.dumps([broker.bootstrap, str(messages), rate])
                subprocess.run(
                    [sys.executable, "-m", "bench.jobs.freshness", "--send", sending], check=True
                )
                end_s, load = time.monotonic(), os.getloadavg()[0]
                processor_s = meter.timeline().seconds_between(end_s - seconds, end_s)
                times_of = _timestamps(broker.bootstrap)
                ends = {partition: len(times_ms) for partition, times_ms in times_of.items()}
                _wait_for_offsets(events, ends, job)
            finally:
                job.send_signal(signal.SIGTERM)
                job.wait()
    for line in (job_folder / "log.txt").read_text().splitlines():
        if "freshness: " in line:
            print(line)
    return _freshness_of(times_of, _events(events), seconds, processor_s, load)


def _freshness_of(
    times_of: Mapping[int, npt.NDArray[np.int64]],
    events: Sequence[Mapping[str, Any]],
    seconds: int,
    processor_s: float,
    load: float,
) -> Freshness:
    """Find the commit of each message by its offset, and return the ages.

    Args:
        times_of: partition → the timestamps of its messages in ms, int64 [n].
    """
    start_ms = max(int(times_ms[-1]) for times_ms in times_of.values()) - 1000 * seconds
    epochs = {event["epoch"]: event for event in events if event["event"] == "epoch"}
    ends = [
        (event["end_offsets"][TOPIC], epochs[event["epoch"]]["time_ms"])
        for event in events
        if event["event"] == "progress" and event["epoch"] in epochs
    ]
    ages = []
    for partition, times_ms in times_of.items():
        offsets = np.array([end.get(str(partition), 0) for end, _ in ends])
        commits = np.array([commit_ms for _, commit_ms in ends])
        epoch_of_message = np.searchsorted(offsets, np.arange(len(times_ms)), side="right")
        ages.append((commits[epoch_of_message] - times_ms)[times_ms >= start_ms] / 1000)
    measured_events = [event for event in events if event["time_ms"] >= start_ms]
    kinds = [
        snapshot["kind"] for event in measured_events for snapshot in event.get("snapshots", ())
    ]
    return Freshness(
        np.concatenate(ages),
        [event["messages"] for event in measured_events if event["event"] == "epoch"],
        kinds.count("APPEND"),
        kinds.count("COMPACT"),
        processor_s,
        load,
    )


def send(bootstrap: str, messages: str, rate: int) -> None:
    """Send all messages at a steady rate, a few in each interval."""
    table = pq.read_table(messages)
    keys, values = (table.column(name).to_pylist() for name in ("key", "value"))
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 2})
    start_s, sent = time.perf_counter(), 0
    while sent < len(values):
        due = min(len(values), int((time.perf_counter() - start_s + _SEND_INTERVAL_S) * rate))
        for index in range(sent, due):
            producer.produce(TOPIC, values[index], keys[index])
        sent = due
        producer.poll(0)
        time.sleep(max(0.0, sent / rate - (time.perf_counter() - start_s)))
    producer.flush()


def _timestamps(bootstrap: str) -> dict[int, npt.NDArray[np.int64]]:
    """Return partition → the broker's timestamps of all messages in ms, int64 [n]."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "timestamps"})
    times_of = {}
    for partition in range(PARTITIONS):
        topic_partition = TopicPartition(TOPIC, partition, 0)
        _, end = consumer.get_watermark_offsets(topic_partition)
        consumer.assign([topic_partition])
        times_ms: list[int] = []
        while len(times_ms) < end:
            times_ms += [message.timestamp()[1] for message in consumer.consume(10_000, 1.0)]
        times_of[partition] = np.array(times_ms)
    consumer.close()
    return times_of


def _events(path: Path) -> list[dict[str, Any]]:
    """Return the events of all whole lines, because the job may be writing the last line."""
    text = path.read_text() if path.exists() else ""
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]


def _wait_for(events: Path, name: str, job: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _WAIT_MAX_S
    while not any(event["event"] == name for event in _events(events)):
        if job.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"the job has not {name}:\n{log.read_text()[-4000:]}")
        time.sleep(0.1)


def _wait_for_offsets(events: Path, ends: Mapping[int, int], job: subprocess.Popen[bytes]) -> None:
    """Wait until the job has committed all messages."""
    deadline = time.monotonic() + _WAIT_MAX_S
    expected = {str(partition): end for partition, end in ends.items()}
    while True:
        progress = [event for event in _events(events) if event["event"] == "progress"]
        if progress and progress[-1]["end_offsets"].get(TOPIC) == expected:
            return
        if job.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"the job has not committed all: {progress[-1:]}, not {expected}")
        time.sleep(0.5)


def lines(folder: Path, rate: int = RATE, seconds: int = SECONDS) -> Iterator[str]:
    yield f"{rate:,} messages a second for {seconds} s, trigger {TRIGGER}"
    yield from measure(folder, rate, seconds, _PACE).lines()


def goals(folder: Path, rate: int = RATE, seconds: int = SECONDS) -> Iterator[Goal]:
    """Yield goals for both quantiles, and for snapshots of compactions ÷ those of epochs."""
    result = measure(folder, rate, seconds, _PACE)
    for name, age, bound in zip(("median", "99th"), result.quantiles, _GOALS, strict=True):
        yield Goal(f"age at the commit, {rate:,} messages/s, {name}, s", age, bound)
    yield Goal("snapshots of compactions ÷ of epochs", result.compacts / result.appends, 1)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.jobs.freshness")
    parser.add_argument("--rate", type=int, default=RATE)
    parser.add_argument("--seconds", type=int, default=SECONDS)
    parser.add_argument("--warm-up", type=int, default=WARM_UP_S)
    pace = parser.add_mutually_exclusive_group()
    pace.add_argument("--trigger", default=TRIGGER)
    pace.add_argument("--freshness")
    parser.add_argument("--send", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.send:
        send(*json.loads(args.send))
        return
    with tempfile.TemporaryDirectory(prefix="stream_app-bench-") as folder:
        pace_line = f'trigger = "{args.trigger}"'
        if args.freshness is not None:
            pace_line = f'freshness = "{args.freshness}"'
        result = measure(Path(folder), args.rate, args.seconds, pace_line, args.warm_up)
        for line in result.lines():
            print(line)


if __name__ == "__main__":
    main()
