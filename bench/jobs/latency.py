"""Measures what compaction costs the epochs beside it: the real job with and without compaction.

    python -m bench.jobs.latency [--epochs N] [--messages N] [--runs N]

Broker, Spark and job as in `bench.jobs.ingest`. Epochs follow each other at once, which is the
hardest case for other work on the same two cores. The seconds of an epoch are those of waiting,
writing and committing. The first epochs, in which Java warms up, are left out. Jobs with and
without compaction take turns, each in its own process. About four minutes. Goals: median ≤ 1.15 ×,
99th percentile ≤ 2 ×.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench.jobs.ingest import run_apart
from bench.shop.shop_topic import write_messages
from stream_app.app.launch.embedded_broker import EmbeddedBroker

WARM_UP = 5
ARMS = {
    "without": "bucket = 2\nwrite-only = true",
    "with": "bucket = 2\nnum-sorted-run.compaction-trigger = 3",
}


def lines(folder: Path, epochs: int, messages: int, runs: int) -> Iterator[str]:
    file = folder / "latency.parquet"
    write_messages(file, (epochs + WARM_UP) * messages)
    seconds: dict[str, list[float]] = {arm: [] for arm in ARMS}
    compactions: dict[str, int] = dict.fromkeys(ARMS, 0)
    with EmbeddedBroker(folder / "latency-kafka") as broker:
        run_apart("fill", broker, folder, "fill", messages, {"messages": str(file)})
        for run in range(runs):
            for arm, options in ARMS.items():
                result = run_apart(
                    "ours", broker, folder, f"{arm}{run}", messages, {"options": options}
                )
                pairs = zip(result["epochs"], result["commit_s"], strict=True)
                seconds[arm] += [write + commit for write, commit in pairs][WARM_UP:]
                compactions[arm] += result["compact_snapshots"]
    yield "| compaction | epochs | compactions committed | median, s | 99th percentile, s |"
    yield "| --- | ---: | ---: | ---: | ---: |"
    summary = {}
    for arm, times in seconds.items():
        summary[arm] = statistics.median(times), statistics.quantiles(times, n=100)[98]
        cells = (arm, len(times), compactions[arm], *(f"{value:.2f}" for value in summary[arm]))
        yield f"| {' | '.join(map(str, cells))} |"
    ratios = [ours / plain for ours, plain in zip(summary["with"], summary["without"], strict=True)]
    yield ""
    yield f"median {ratios[0]:.2f} × (goal ≤ 1.15), 99th percentile {ratios[1]:.2f} × (goal ≤ 2)"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.jobs.latency")
    parser.add_argument("--epochs", type=int, default=50)
    parser.add_argument("--messages", type=int, default=5_000, help="of an epoch")
    parser.add_argument("--runs", type=int, default=2)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="stream_app-bench-") as folder:
        for line in lines(Path(folder), args.epochs, args.messages, args.runs):
            print(line, flush=True)


if __name__ == "__main__":
    main()
