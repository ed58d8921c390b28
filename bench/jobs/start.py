"""Measures the time from the command to the first commit, for the job of the shop's orders.

    python -m bench.jobs.start [--runs N]

The figures are seconds of the clock, and processor seconds of the job and of all below it. Each
start has a new table and a new checkpoint. The broker already runs, and the topic has messages.
Goals: 5 s, and 4 s of the processor. The bench prints the processor seconds of each part of the
job, as the median of the starts.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.goal import Goal
from bench.jobs.ingest import run_apart, write_conf
from bench.jobs.timeline import group, process_tree
from bench.process_time import ProcessorMeter
from bench.shop.shop_topic import write_messages
from stream_app.app.launch.embedded_broker import EmbeddedBroker

EPOCH = 1_000
_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
GOAL_S, PROCESSOR_GOAL_S = 5.0, 4.0


@dataclass(frozen=True)
class Start:
    """The seconds of one start, until the first commit.

    Attributes:
        parts: part of the job → its share of `processor_s`; an ended process counts for the process
            that has waited for it.
    """

    clock_s: float
    processor_s: float
    parts: Mapping[str, float]


def goals(starts: Sequence[Start]) -> Iterator[Goal]:
    """Yield goals for the medians of some starts."""
    clock = statistics.median(start.clock_s for start in starts)
    processor = statistics.median(start.processor_s for start in starts)
    yield Goal("from the command to the first commit, s", clock, GOAL_S)
    yield Goal("processor until the first commit, s", processor, PROCESSOR_GOAL_S)


def lines(starts: Sequence[Start]) -> Iterator[str]:
    """Yield a table of the parts, the largest first."""
    names = {name for start in starts for name in start.parts}
    medians = {
        name: statistics.median(start.parts.get(name, 0.0) for start in starts) for name in names
    }
    yield "| part | s of the processor |\n| --- | ---: |"
    for name, seconds in sorted(medians.items(), key=lambda part: -part[1]):
        yield f"| {name} | {seconds:.2f} |"


def measure(folder: Path, runs: int) -> list[Start]:
    """Measure several starts, one after another."""
    file = folder / "first.parquet"
    write_messages(file, EPOCH)
    with EmbeddedBroker(folder / "start-kafka") as broker:
        run_apart("fill", broker, folder, "start-fill", EPOCH, {"messages": str(file)})
        return [_start(broker, folder / f"start-{run}") for run in range(runs)]


def _start(broker: EmbeddedBroker, folder: Path) -> Start:
    folder.mkdir()
    conf = write_conf({"bootstrap": broker.bootstrap, "folder": str(folder), "epoch": EPOCH})
    events = folder / "events.jsonl"
    command = [sys.executable, "-P", "-m", "stream_app", "ingest"]
    start_s = time.time()
    with (
        (folder / "log.txt").open("wb") as log,
        subprocess.Popen(
            [*command, "--conf", str(conf), "--events", str(events)], stdout=log, stderr=log
        ) as process,
        ProcessorMeter(process.pid) as meter,
    ):
        try:
            while True:
                time.sleep(0.05)
                assert process.poll() is None, (folder / "log.txt").read_text()
                lines = events.read_text().splitlines() if events.exists() else []
                for line in lines:
                    if line.endswith("}") and (event := json.loads(line))["event"] == "epoch":
                        clock_s = event["time_ms"] / 1000 - start_s
                        return Start(clock_s, meter.seconds(), _parts(process.pid))
        finally:
            process.terminate()


def _parts(job: int) -> dict[str, float]:
    """Return the seconds of each part so far.

    The command becomes the JVM, which starts all other processes.
    """
    parts: dict[str, float] = defaultdict(float)
    for process in process_tree(job):
        folder = Path(f"/proc/{process}")
        with contextlib.suppress(OSError):  # it has just ended
            *_, children_user, children_system = _times(folder / "stat")
            command_line = (folder / "cmdline").read_text()
            is_driver = "ingest.py" in command_line
            name = "driver" if is_driver else "Python workers"
            if process != job:
                parts[name] += sum(_times(folder / "stat"))
                continue
            parts["commands before the JVM"] += children_user + children_system
            for thread in (folder / "task").iterdir():
                label = "commands before the JVM"
                if thread.name != str(job):
                    label = group("JVM", (thread / "comm").read_text().strip())
                parts[label] += sum(_times(thread / "stat")[:2])
    return parts


def _times(stat: Path) -> list[float]:
    """Return the user and system seconds of a process or thread and of its ended children."""
    after_name = stat.read_text().rpartition(")")[2].split()
    return [int(ticks) / _TICKS_A_SECOND for ticks in after_name[11:15]]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.jobs.start")
    parser.add_argument("--runs", type=int, default=3)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="stream_app-bench-") as folder:
        starts = measure(Path(folder), args.runs)
    for goal in goals(starts):
        print(goal.line())
    for line in lines(starts):
        print(line)


if __name__ == "__main__":
    main()
