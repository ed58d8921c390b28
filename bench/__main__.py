"""Runs most of the benchmarks behind docs/performance.

    ./run.sh bench [steps|kept|hostile|ingest|memory|simulation|commits|requests|scaling|
                    compaction|engines|databases|checksums|latency|small|freshness|reading|
                    iceberg|catalogs|timeline|growth]
                    [--messages N] [--quick]
    ./run.sh bench goals [PART …] [--quick]

`goals` measures each goal of `bench.goals` beside its bound. Otherwise the command runs one part,
or all parts one after another:

steps, kept      steps of ingest on one core beside their limits; the ratios that must not grow
hostile          decode of hostile messages at two sizes
ingest, memory   ingest on two cores beside Spark alone; memory beside its budget
simulation       compactions of a simulated bucket
commits          the cost of commits; `requests`: their requests to a store
scaling          the driver's work for ten thousand buckets; `databases`: for many tables
compaction       compaction beside decode and encode; `latency`: beside epochs
engines          merge engines beside deduplicate; `checksums`: the cost of page checksums
small, growth    epochs of few messages; epochs of a table that grows
freshness        the age of messages at their commit
reading          reads beside other readers
iceberg          metadata for Iceberg's readers; `catalogs`: commits in catalogs
timeline         the threads of one epoch

All parts take about an hour, or ten minutes with `--quick`. Continuous integration runs
`kept --quick`, which takes half a minute.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from bench import goals, steps
from bench.cdc import decode, hostile
from bench.commit import catalogs, commits, iceberg, requests, scaling
from bench.compact import compaction, compaction_memory, compaction_simulation
from bench.growth import growth
from bench.jobs import databases, freshness, ingest, latency, small_epochs, timeline
from bench.read import reading
from bench.write import memory, merge_engines, page_checksums

Part = Callable[[Path, int, bool], Iterator[str]]


def main(argv: Sequence[str] | None = None, parts: Mapping[str, Part] | None = None) -> None:
    """Run and print the chosen parts. The exit code is 1 if a goal was missed."""
    arguments = sys.argv[1:] if argv is None else argv
    if arguments[:1] == ["goals"]:
        goals.main(arguments[1:])
        return
    parser = argparse.ArgumentParser(prog="./run.sh bench")
    parser.add_argument("part", nargs="?", choices=PARTS)
    parser.add_argument("--messages", type=int, default=1_500_000)
    parser.add_argument("--quick", action="store_true", help="a tenth of everything, one run")
    args = parser.parse_args(arguments)
    messages = args.messages // 10 if args.quick else args.messages
    missed_goals = []
    with tempfile.TemporaryDirectory(prefix="stream_app-bench-") as name:
        for part, lines in (parts or PARTS).items():
            if args.part in (part, None):
                try:
                    for line in lines(Path(name), messages, args.quick):
                        print(line, flush=True)
                except requests.GoalMissedError as error:
                    missed_goals.append(f"error: {error}")
                print()
    if missed_goals:
        sys.exit("\n".join(missed_goals))


def _steps(folder: Path, messages: int, quick: bool) -> Iterator[str]:
    yield "| step, one core | k rows/s | MB/s | ratio | of | goal |"
    yield "| --- | ---: | ---: | ---: | --- | --- |"
    for step in steps.measure(messages // 3, 2 if quick else 5, folder):
        yield step.markdown()


def _kept(folder: Path, _messages: int, quick: bool) -> Iterator[str]:
    yield from decode.lines(30_000 if quick else 100_000, 5)
    yield steps.measure_write(150_000 if quick else 500_000, 5, folder).line()


def _hostile(_folder: Path, _messages: int, quick: bool) -> Iterator[str]:
    yield from hostile.lines(1 if quick else 3)


def _ingest(folder: Path, messages: int, quick: bool) -> Iterator[str]:
    yield from ingest.measure(messages, max(1, messages // 6), 1 if quick else 2, folder).lines()


def _memory(folder: Path, _: int, quick: bool) -> Iterator[str]:
    yield from memory.lines(folder)
    yield from compaction_memory.lines(folder, 20, (10 if quick else 100) << 20)


def _simulation(_folder: Path, _messages: int, quick: bool) -> Iterator[str]:
    yield from compaction_simulation.lines(1_000 if quick else compaction_simulation.FLUSHES, {})


def _commits(folder: Path, _: int, quick: bool) -> Iterator[str]:
    yield from commits.lines(folder, 500 if quick else commits.COMMITS, {})


def _databases(folder: Path, messages: int, quick: bool) -> Iterator[str]:
    yield "Whole databases: what a changed and an idle table cost an epoch"
    rows = messages // 75
    yield from databases.lines(
        folder, tables=200 if quick else 1000, changed_count=50, rows=rows, epochs=5 if quick else 7
    )


def _scaling(folder: Path, _messages: int, quick: bool) -> Iterator[str]:
    yield from scaling.lines(folder, 1_000 if quick else scaling.BUCKETS, scaling.FILES, 12)


def _requests(_folder: Path, _messages: int, quick: bool) -> Iterator[str]:
    yield from requests.lines(requests.measure(10 if quick else requests.EPOCHS))


def _compaction(folder: Path, _: int, quick: bool) -> Iterator[str]:
    if quick:
        return compaction.lines(folder, compaction.CELLS // 10, 1)
    return compaction.lines(folder)


def _engines(_folder: Path, messages: int, _quick: bool) -> Iterator[str]:
    yield from merge_engines.lines(messages)


def _checksums(folder: Path, _: int, quick: bool) -> Iterator[str]:
    rounds = 3 if quick else page_checksums.ROUNDS
    return page_checksums.lines(folder, page_checksums.ROWS // (10 if quick else 1), rounds)


def _latency(folder: Path, _: int, quick: bool) -> Iterator[str]:
    yield from latency.lines(folder, 50, 500 if quick else 5_000, 1 if quick else 2)


def _small(folder: Path, _: int, quick: bool) -> Iterator[str]:
    yield from small_epochs.lines(folder, 60 if quick else 200, 20, 1 if quick else 2)


def _freshness(folder: Path, _: int, quick: bool) -> Iterator[str]:
    yield from freshness.lines(folder, seconds=10 if quick else freshness.SECONDS)


def _growth(folder: Path, _: int, quick: bool) -> Iterator[str]:
    bounds = growth.Bounds()
    yield from growth.lines(folder, bounds.smaller() if quick else bounds)


def _reading(folder: Path, _: int, quick: bool) -> Iterator[str]:
    yield from reading.lines(folder, reading.ROWS // (20 if quick else 1), 2)


def _iceberg(folder: Path, _: int, quick: bool) -> Iterator[str]:
    yield from iceberg.lines(folder, iceberg.ROWS // (10 if quick else 1))


def _catalogs(folder: Path, _: int, quick: bool) -> Iterator[str]:
    commit_count, epochs = (20, 2) if quick else (catalogs.COMMITS, catalogs.EPOCHS)
    yield from catalogs.lines(folder, commit_count, epochs)


def _timeline(folder: Path, messages: int, quick: bool) -> Iterator[str]:
    epoch = timeline.EPOCH // (5 if quick else 1)
    yield from timeline.lines(timeline.watch(2 * messages, epoch, "bucket = 2", folder))


PARTS: dict[str, Part] = {
    "steps": _steps,
    "kept": _kept,
    "hostile": _hostile,
    "ingest": _ingest,
    "memory": _memory,
    "simulation": _simulation,
    "commits": _commits,
    "requests": _requests,
    "scaling": _scaling,
    "compaction": _compaction,
    "engines": _engines,
    "databases": _databases,
    "checksums": _checksums,
    "latency": _latency,
    "small": _small,
    "freshness": _freshness,
    "reading": _reading,
    "iceberg": _iceberg,
    "catalogs": _catalogs,
    "timeline": _timeline,
    "growth": _growth,
}


if __name__ == "__main__":
    main()
