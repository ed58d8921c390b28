"""Measures every goal beside its bound. The exit code is 1 unless all goals are met.

    ./run.sh bench goals [PART …] [--messages N] [--quick] [--record FILE]
        [--sink-python PYTHON --sink-jars JARS]

decode      messages of each format → columns, by arrays and by machine code
hostile     messages that nobody should send, at one size and at sixteen times that size
write       blocks → data and changelog files, beside the encoding of the same files alone
compaction  sorted runs → one, beside decoding and encoding alone
reading     beside Paimon Rust, and beside Arrow without a merge
ingest      Kafka → table on two cores, beside Spark alone that parses, and with lookups
sink        beside Paimon's sink for Spark, whose environment `bench.jobs.spark_sink` explains
small       an epoch of 5,000 messages, and one of 20
databases   many tables in one job
freshness   a message's age at the commit, at a steady rate
start       from the command to the first commit, broker running
policy      compaction that the job chooses, beside the best fixed trigger, simulated
scaling     small compactions that share a job, and the driver's memory
growth      an epoch of 250,000 changes as rows, partitions, snapshots and tables grow

A figure is a ratio between works that take turns, or a time on this machine, which must be
otherwise idle. All goals take 20 minutes; `--quick` measures a tenth of everything. A goal that
cannot be measured is missed. `--record` appends the figures as a line of JSON, for the records of
releases.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from bench import steps
from bench.cdc import decode, formats, hostile
from bench.commit import scaling
from bench.compact import compaction, compaction_simulation
from bench.goal import Goal
from bench.growth import growth
from bench.jobs import databases, freshness, ingest, small_epochs, spark_sink, start
from bench.read import reading
from bench.shop.shop_topic import write_messages
from stream_app import __version__
from stream_app.app.launch.embedded_broker import EmbeddedBroker

SMALL_EPOCH, SMALL_EPOCHS, WARM_UP = 5_000, 40, 5


@dataclass(frozen=True)
class Setup:
    """The amount of data to measure, and the folder.

    Attributes:
        folder: the folder of one part.
        messages: the number of messages of ingest.
        tenth: 10 for a tenth of everything, else 1.
        sink_python, sink_jars: as in `bench.jobs.spark_sink`.
    """

    folder: Path
    messages: int
    tenth: int
    sink_python: str | None
    sink_jars: str | None

    @property
    def runs(self) -> int:
        """The number of repetitions, fewer with a tenth of the data."""
        return 1 if self.tenth > 1 else 3


Part = Callable[[Setup], Iterator[Goal]]


def _decode(setup: Setup) -> Iterator[Goal]:
    count = 100_000 // setup.tenth
    return chain(decode.goals(count, 5), formats.goals(count, 5))


def _ingest(setup: Setup) -> Iterator[Goal]:
    runs = 1 if setup.tenth > 1 else 2
    return ingest.goals(setup.messages, setup.messages // 12, runs, setup.folder)


def _sink(setup: Setup) -> Iterator[Goal]:
    changes = 250_000 // setup.tenth
    return spark_sink.goals(setup.folder, setup.sink_python, setup.sink_jars, changes)


def _small(setup: Setup) -> Iterator[Goal]:
    with EmbeddedBroker(setup.folder / "kafka") as broker:
        yield Goal("an epoch of 5,000 messages, s", _epoch_s(broker, setup.folder), 0.35)
    yield from small_epochs.goals(setup.folder, 200 // setup.tenth, messages=20, runs=2)


def _epoch_s(broker: EmbeddedBroker, folder: Path) -> float:
    """Return the median time of an epoch of `SMALL_EPOCH` messages, in seconds."""
    file = folder / "small.parquet"
    write_messages(file, SMALL_EPOCH * (SMALL_EPOCHS + WARM_UP))
    ingest.run_apart("fill", broker, folder, "fill", 0, {"messages": str(file)})
    run = ingest.run_apart("ours", broker, folder, "small", SMALL_EPOCH)
    pairs = zip(run["epochs"], run["commit_s"], strict=True)
    return statistics.median([write + commit for write, commit in pairs][WARM_UP:])


def _databases(setup: Setup) -> Iterator[Goal]:
    tables = 10_000 // setup.tenth
    return databases.goals(setup.folder, tables=tables, rows=20_000, epochs=5)


def _growth(setup: Setup) -> Iterator[Goal]:
    bounds = growth.Bounds()
    return growth.goals(setup.folder, bounds.smaller() if setup.tenth > 1 else bounds)


PARTS: Mapping[str, Part] = {
    "decode": _decode,
    "hostile": lambda setup: hostile.goals(setup.runs),
    "write": lambda setup: steps.goals(500_000 // setup.tenth, 5, setup.folder),
    "compaction": lambda setup: compaction.goals(
        setup.folder, compaction.CELLS // setup.tenth, setup.runs
    ),
    "reading": lambda setup: reading.goals(setup.folder, reading.ROWS // setup.tenth, 2),
    "ingest": _ingest,
    "sink": _sink,
    "small": _small,
    "databases": _databases,
    "freshness": lambda setup: freshness.goals(
        setup.folder, seconds=max(10, freshness.SECONDS // setup.tenth)
    ),
    "start": lambda setup: start.goals(start.measure(setup.folder, setup.runs)),
    "policy": lambda setup: compaction_simulation.goals(
        compaction_simulation.FLUSHES // setup.tenth
    ),
    "scaling": lambda setup: scaling.goals(
        setup.folder, scaling.BUCKETS // setup.tenth, scaling.FILES
    ),
    "growth": _growth,
}


def measure(parts: Sequence[Part], options: argparse.Namespace) -> Iterator[Goal]:
    """Yield the goals of parts, one after another."""
    tenth = 10 if options.quick else 1
    for part in parts:
        with tempfile.TemporaryDirectory(prefix="stream_app-goals-") as folder:
            messages = options.messages // tenth
            yield from part(
                Setup(Path(folder), messages, tenth, options.sink_python, options.sink_jars)
            )


def main(argv: Sequence[str] | None = None, parts: Mapping[str, Part] = PARTS) -> None:
    """Print the table, and end with exit code 1 unless all goals are met."""
    parser = argparse.ArgumentParser(prog="./run.sh bench goals")
    parser.add_argument("part", nargs="*", choices=[*parts, []], metavar="PART")
    parser.add_argument("--messages", type=int, default=3_000_000, help="of ingest")
    parser.add_argument("--quick", action="store_true", help="a tenth of everything")
    parser.add_argument("--sink-python", metavar="PYTHON", help="with PySpark 4.0")
    parser.add_argument("--sink-jars", metavar="JARS", help="Paimon's connector for Spark 4.0")
    parser.add_argument("--record", type=Path, metavar="FILE")
    options = parser.parse_args(argv)
    results = []
    print("| goal | measured | bound | |\n| --- | ---: | ---: | --- |")
    for goal in measure([parts[name] for name in options.part or parts], options):
        results.append(goal)
        print(goal.line(), flush=True)
    if options.record:
        figures = {
            goal.name: round(goal.measured_value, 3)
            for goal in results
            if goal.measured_value is not None
        }
        with options.record.open("a", encoding="utf-8") as sink:
            sink.write(json.dumps({"version": __version__, **figures}, ensure_ascii=False) + "\n")
    missed_names = [goal.name for goal in results if not goal.is_met]
    if missed_names:
        sys.exit(f"{len(missed_names)} of {len(results)} goals are missed")


if __name__ == "__main__":
    main()
