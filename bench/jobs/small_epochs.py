"""What an epoch of a few messages costs, by the driver alone and by Spark's tasks.

    ./run.sh bench small
    python -m bench.jobs.small_epochs [--epochs N] [--messages N] [--runs N]

The real job, broker and Spark, as in `bench.jobs.ingest`: a topic of four partitions, changelog
input, compaction on, one epoch after the other. Seconds are the processor's, of the job and all
below it. They are the slope between a job of `FEW` epochs and one of many, so the start is not in
them. Both ways take turns (`stream.driver-messages`). `nothing`: epochs of tombstones alone.
Goal: ≤ 0.05 s for an epoch of a few messages.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient, NewTopic

from bench.jobs.ingest import run_apart
from bench.shop.shop_topic import PARTITIONS, TOPIC, write_messages
from stream_app.app.launch.embedded_broker import EmbeddedBroker

GOAL_S = 0.05
FEW = 30
WAYS = {"Spark's tasks": "driver-messages = 0", "the driver": ""}


def lines(folder: Path, epochs: int, messages: int, runs: int) -> Iterator[str]:
    """The table."""
    yield "| an epoch of | by | s of the processor | clock, s |"
    yield "| --- | --- | ---: | ---: |"
    for kind in (f"{messages} changes", "nothing"):
        brokers: dict[int, EmbeddedBroker] = {}
        place = folder / kind.partition(" ")[0]
        place.mkdir()
        with (
            EmbeddedBroker(place / "kafka-few") as brokers[FEW],
            EmbeddedBroker(place / "kafka-many") as brokers[FEW + epochs],
        ):
            for count, broker in brokers.items():
                if kind == "nothing":
                    _send_tombstones(broker, count * messages)
                else:
                    _send_changes(broker, place / f"fill-{count}", count * messages)
            for way, measured in _slopes(brokers, place, messages, runs).items():
                used, clock = map(statistics.median, zip(*measured, strict=True))
                yield f"| {kind} | {way} | {used:.3f} | {clock:.3f} |"


def _slopes(
    brokers: Mapping[int, EmbeddedBroker], folder: Path, messages: int, runs: int
) -> Mapping[str, list[tuple[float, float]]]:
    """Seconds of the processor and of the clock for one more epoch, for each way and run."""
    slopes: dict[str, list[tuple[float, float]]] = {way: [] for way in WAYS}
    for run in range(runs):
        for number, (way, stream) in enumerate(WAYS.items()):
            seconds = []
            for count, broker in brokers.items():
                done = run_apart(
                    "ours", broker, folder, f"{run}-{number}-{count}", messages, {"stream": stream}
                )
                seconds.append((done["processor_s"], done["s"], len(done["epochs"])))
            few, many = seconds
            more = many[2] - few[2]
            slopes[way].append(((many[0] - few[0]) / more, (many[1] - few[1]) / more))
    return slopes


def _send_changes(broker: EmbeddedBroker, folder: Path, count: int) -> None:
    file = folder.with_suffix(".parquet")
    write_messages(file, count)
    run_apart("fill", broker, folder.parent, folder.name, count, {"messages": str(file)})


def _send_tombstones(broker: EmbeddedBroker, count: int) -> None:
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
