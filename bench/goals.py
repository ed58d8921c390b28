"""The goals of ingest in five minutes, each measured beside its limit; exit code 1 below one.

    ./run.sh bench goals
    python -m bench.goals [--messages N] [--record FILE]

decode    Debezium JSON → columns, beside the parse of the same bytes alone
write     blocks → data and changelog files, beside the encoding of the same files alone
ingest    Kafka → table, two cores, beside Spark alone that reads and parses the topic
small     an epoch of 5,000 messages: the median of waiting, writing and committing
nothing   an epoch of five tombstones: the processor's time, as a slope over many epochs
start     from the command to the first commit, Kafka → table, broker running

Ratios are of one run, in turns; seconds are those of this machine, which must have nothing else to
do. `--record` appends the figures as a line of JSON, for the records of releases.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient, NewTopic

from bench import decode, ingest, steps
from bench.requests import GoalMissedError
from bench.shop_topic import TOPIC, write_messages
from stream_app import __version__
from stream_app.app.launch.embedded_broker import EmbeddedBroker

SMALL_EPOCH, SMALL_EPOCHS, WARM_UP = 5_000, 40, 5
TOMBSTONES, FEW, MANY = 5, 20, 80


@dataclass(frozen=True)
class Goal:
    """A figure and its bound; a ratio or seconds."""

    name: str
    found: float
    bound: float
    at_least: bool = False

    @property
    def is_met(self) -> bool:
        return self.found >= self.bound if self.at_least else self.found <= self.bound

    def line(self) -> str:
        sign = "≥" if self.at_least else "≤"
        told = "" if self.is_met else ", missed"
        return f"| {self.name} | {self.found:.2f} | {sign} {self.bound:g}{told} |"


def goals(messages: int, folder: Path) -> Iterator[Goal]:
    """Measure all, one after another."""
    for case in decode.CASES:
        measured = decode.measure(case, 50_000, 3)
        if not case.flat:
            yield Goal(f"decode ÷ parse, {case.name}", measured.ratio, decode.GOAL)
        if measured.compiled_ratio is not None:
            name = f"compiled decode ÷ parse, {case.name}"
            yield Goal(name, measured.compiled_ratio, decode.GOAL_COMPILED)
    found = {step.name: step for step in steps.measure(messages // 4, 3, folder)}
    yield Goal("write ÷ encode", found["write"].ratio, 1.3)
    (folder / "whole").mkdir()
    whole = ingest.measure(messages, messages // 4, 2, folder / "whole")
    yield Goal("ingest ÷ Spark alone", whole.ratio, ingest.GOAL, at_least=True)
    name = "ingest ÷ Spark alone, processor of one more million"
    yield Goal(name, whole.processor_ratio, ingest.PROCESSOR_GOAL)
    with EmbeddedBroker(folder / "kafka") as broker:
        yield Goal("an epoch of 5,000 messages, s", _small(broker, folder), 0.35)
        yield Goal("from the command to the first commit, s", _start(broker, folder), 8)
    with EmbeddedBroker(folder / "kafka-of-tombstones") as broker:
        yield Goal("an epoch of nothing, s of the processor", _nothing(broker, folder), 0.1)


def _small(broker: EmbeddedBroker, folder: Path) -> float:
    file = folder / "small.parquet"
    write_messages(file, SMALL_EPOCH * (SMALL_EPOCHS + WARM_UP))
    ingest.run_apart("fill", broker, folder, "fill", 0, {"messages": str(file)})
    told = ingest.run_apart("ours", broker, folder, "small", SMALL_EPOCH)
    pairs = zip(told["epochs"], told["commit_s"], strict=True)
    return statistics.median([write + commit for write, commit in pairs][WARM_UP:])


def _nothing(broker: EmbeddedBroker, folder: Path) -> float:
    """The slope leaves the start out: the same job with few and with many epochs."""
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    admin.create_topics([NewTopic(TOPIC, num_partitions=1)])
    admin.close()
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap)
    seconds = []
    for epochs in (FEW, MANY):
        for number in range(TOMBSTONES * epochs):
            producer.send(TOPIC, key=str(number).encode(), value=None)
        producer.flush()
        told = ingest.run_apart("ours", broker, folder, f"nothing-{epochs}", TOMBSTONES)
        seconds.append((told["processor_s"], len(told["epochs"])))
    producer.close()
    (few_s, few), (many_s, many) = seconds
    return (many_s - few_s) / (many - few)


def _start(broker: EmbeddedBroker, folder: Path) -> float:
    """The median of three starts with a table and a checkpoint of their own."""
    return statistics.median(_started(broker, folder / f"start-{run}") for run in range(3))


def _started(broker: EmbeddedBroker, folder: Path) -> float:
    folder.mkdir()
    job = {"bootstrap": broker.bootstrap, "folder": str(folder), "epoch": 1_000}
    conf, events = ingest.write_conf(job), folder / "events.jsonl"
    command = [sys.executable, "-P", "-m", "stream_app", "ingest"]
    began = time.time()
    with (folder / "log.txt").open("wb") as log:
        process = subprocess.Popen(
            [*command, "--conf", str(conf), "--events", str(events)],
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        while True:
            time.sleep(0.05)
            assert process.poll() is None, (folder / "log.txt").read_text()
            told = events.read_text().splitlines() if events.exists() else []
            for line in told:
                if line.endswith("}") and (event := json.loads(line))["event"] == "epoch":
                    return event["time_ms"] / 1000 - began
    finally:
        process.terminate()
        process.wait()


def lines(folder: Path, messages: int) -> Iterator[str]:
    """The table.

    Raises:
        GoalMissedError: at the end, when a goal was missed.
    """
    missed = []
    yield "| goal | measured | bound |"
    yield "| --- | ---: | ---: |"
    for goal in goals(messages, folder):
        yield goal.line()
        missed += [] if goal.is_met else [goal.name]
    if missed:
        raise GoalMissedError(f"missed: {'; '.join(missed)}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.goals")
    parser.add_argument("--messages", type=int, default=1_500_000)
    parser.add_argument("--record", type=Path, metavar="FILE")
    args = parser.parse_args()
    found = []
    with tempfile.TemporaryDirectory(prefix="stream_app-goals-") as folder:
        print("| goal | measured | bound |\n| --- | ---: | ---: |")
        for goal in goals(args.messages, Path(folder)):
            found.append(goal)
            print(goal.line(), flush=True)
    if args.record:
        figures = {goal.name: round(goal.found, 3) for goal in found}
        with args.record.open("a", encoding="utf-8") as sink:
            sink.write(json.dumps({"version": __version__, **figures}, ensure_ascii=False) + "\n")
    if not all(goal.is_met for goal in found):
        sys.exit(1)


if __name__ == "__main__":
    main()
