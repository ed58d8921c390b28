"""Measures the cost of an epoch of few messages, by the driver alone and by Spark's tasks.

    ./run.sh bench small
    python -m bench.jobs.small_epochs [--epochs N] [--messages N] [--runs N]

The real job, broker and Spark, as in `bench.jobs.ingest`: a topic of four partitions, changelog
input, compaction on, one epoch after another. Seconds are the processor's, of the job and all below
it. They are the slope between a job of `FEW` epochs and a job of many, without the start. Both ways
take turns (`stream.driver-messages`). `nothing`: epochs of tombstones alone.
Goal: ≤ 0.05 s for an epoch of a few messages.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient, NewTopic

from bench.goal import Goal
from bench.jobs.ingest import run_apart
from bench.shop.shop_topic import PARTITIONS, TOPIC, write_messages
from stream_app.app.launch.embedded_broker import EmbeddedBroker

GOAL_S = 0.05
FEW = 30
BY_DRIVER = "the driver"
WAYS = {"Spark's tasks": "driver-messages = 0", BY_DRIVER: ""}
Send = Callable[[EmbeddedBroker, Path, int], None]
"""Sends this number of messages to a broker, by way of a file."""


def lines(folder: Path, epochs: int, messages: int, runs: int) -> Iterator[str]:
    """Yield a table of all costs."""
    yield "| an epoch of | by | s of the processor | clock, s |"
    yield "| --- | --- | ---: | ---: |"
    for kind, send in (("changes", _send_changes), ("nothing", _send_tombstones)):
        costs = _costs(folder / kind, send, WAYS, epochs, messages, runs)
        for way, (processor_s, clock_s) in costs.items():
            yield f"| {messages} × {kind} | {way} | {processor_s:.3f} | {clock_s:.3f} |"


def goals(folder: Path, epochs: int, messages: int, runs: int) -> Iterator[Goal]:
    """Yield the goal for an epoch of changes that the driver writes itself."""
    ways = {BY_DRIVER: WAYS[BY_DRIVER]}
    costs = _costs(folder / "changes", _send_changes, ways, epochs, messages, runs)
    yield Goal(f"processor of an epoch of {messages} changes, s", costs[BY_DRIVER][0], GOAL_S)


def _costs(
    folder: Path, send: Send, ways: Mapping[str, str], epochs: int, messages: int, runs: int
) -> Mapping[str, tuple[float, float]]:
    """Return way → the median seconds of the processor and of the clock for one more epoch."""
    brokers: dict[int, EmbeddedBroker] = {}
    folder.mkdir()
    with (
        EmbeddedBroker(folder / "kafka-few") as brokers[FEW],
        EmbeddedBroker(folder / "kafka-many") as brokers[FEW + epochs],
    ):
        for count, broker in brokers.items():
            send(broker, folder / f"fill-{count}", count * messages)
        slopes = _slopes(brokers, folder, ways, messages, runs)
    return {
        way: (
            statistics.median(processor_s for processor_s, _ in pairs),
            statistics.median(clock_s for _, clock_s in pairs),
        )
        for way, pairs in slopes.items()
    }


def _slopes(
    brokers: Mapping[int, EmbeddedBroker],
    folder: Path,
    ways: Mapping[str, str],
    messages: int,
    runs: int,
) -> Mapping[str, list[tuple[float, float]]]:
    """Return way → the seconds of the processor and of the clock for one more epoch, by run."""
    slopes: dict[str, list[tuple[float, float]]] = {way: [] for way in ways}
    for run in range(runs):
        for number, (way, stream_line) in enumerate(ways.items()):
            seconds = []
            for count, broker in brokers.items():
                result = run_apart(
                    "ours",
                    broker,
                    folder,
                    f"{run}-{number}-{count}",
                    messages,
                    {"stream": stream_line},
                )
                seconds.append((result["processor_s"], result["s"], len(result["epochs"])))
            few_epochs, many_epochs = seconds
            epochs = many_epochs[2] - few_epochs[2]
            slopes[way].append(
                (
                    (many_epochs[0] - few_epochs[0]) / epochs,
                    (many_epochs[1] - few_epochs[1]) / epochs,
                )
            )
    return slopes


def _send_changes(broker: EmbeddedBroker, folder: Path, count: int) -> None:
    file = folder.with_suffix(".parquet")
    write_messages(file, count)
    run_apart("fill", broker, folder.parent, folder.name, count, {"messages": str(file)})


def _send_tombstones(broker: EmbeddedBroker, _: Path, count: int) -> None:
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    admin.create_topics([NewTopic(TOPIC, num_partitions=PARTITIONS)])
    admin.close()
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap)
    for number in range(count):
        producer.send(TOPIC, key=str(number).encode(), value=None, partition=number % PARTITIONS)
    producer.flush()
    producer.close()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.jobs.small_epochs")
    parser.add_argument("--epochs", type=int, default=200, help="beyond those of the first job")
    parser.add_argument("--messages", type=int, default=20, help="of an epoch")
    parser.add_argument("--runs", type=int, default=2)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="stream_app-bench-") as folder:
        for line in lines(Path(folder), args.epochs, args.messages, args.runs):
            print(line, flush=True)


if __name__ == "__main__":
    main()
