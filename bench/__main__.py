"""Everything that docs/performance.md shows, in one run.

    ./run.sh bench [--messages N] [--quick]

Steps on one core beside their limits, then the whole of ingest on two cores beside Spark alone,
then the memory of a writer beside its budget. About six minutes; `--quick` takes one.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from bench import ingest, memory, steps


def main() -> None:
    parser = argparse.ArgumentParser(prog="./run.sh bench")
    parser.add_argument("--messages", type=int, default=1_500_000)
    parser.add_argument("--quick", action="store_true", help="a tenth of everything, one run")
    args = parser.parse_args()
    messages = args.messages // 10 if args.quick else args.messages
    runs = 1 if args.quick else 2
    with tempfile.TemporaryDirectory(prefix="stream_app-bench-") as name:
        folder = Path(name)
        print("| step, one core | k rows/s | MB/s | ratio | of | goal |")
        print("| --- | ---: | ---: | ---: | --- | --- |")
        for step in steps.measure(messages // 3, 5 if not args.quick else 2, folder):
            print(step.markdown(), flush=True)
        numbers = ingest.measure(messages, max(1, messages // 6), runs, folder)
        print()
        for line in numbers.lines():
            print(line, flush=True)
        print()
        for line in memory.lines(folder):
            print(line, flush=True)


if __name__ == "__main__":
    main()
