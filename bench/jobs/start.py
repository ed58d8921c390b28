"""From the command to the first commit: the job of the shop's orders on a topic that is full.

    python -m bench.jobs.start [--runs N]

Seconds of the clock, and of the processor of the job and all below it until then. Each start has a
table and a checkpoint of its own; the broker runs before. Goals: 5 s, and 4 s of the processor.
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
from pathlib import Path

from bench.goal import Goal
from bench.jobs.ingest import run_apart, write_conf
from bench.process_time import ProcessorMeter
from bench.shop.shop_topic import write_messages
from stream_app.app.launch.embedded_broker import EmbeddedBroker

EPOCH = 1_000
GOAL_S, PROCESSOR_GOAL_S = 5.0, 4.0


def goals(folder: Path, runs: int) -> Iterator[Goal]:
    """Medians of some starts."""
    file = folder / "first.parquet"
    write_messages(file, EPOCH)
    with EmbeddedBroker(folder / "start-kafka") as broker:
        run_apart("fill", broker, folder, "start-fill", EPOCH, {"messages": str(file)})
        starts = [_start(broker, folder / f"start-{run}") for run in range(runs)]
    clock, processor = map(statistics.median, zip(*starts, strict=True))
    yield Goal("from the command to the first commit, s", clock, GOAL_S)
    yield Goal("processor until the first commit, s", processor, PROCESSOR_GOAL_S)


def _start(broker: EmbeddedBroker, folder: Path) -> tuple[float, float]:
    folder.mkdir()
    conf = write_conf({"bootstrap": broker.bootstrap, "folder": str(folder), "epoch": EPOCH})
    events = folder / "events.jsonl"
    command = [sys.executable, "-P", "-m", "stream_app", "ingest"]
    began = time.time()
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
                        return event["time_ms"] / 1000 - began, meter.seconds()
        finally:
            process.terminate()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.jobs.start")
    parser.add_argument("--runs", type=int, default=3)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="stream_app-bench-") as folder:
        for goal in goals(Path(folder), args.runs):
            print(goal.line())


if __name__ == "__main__":
    main()
