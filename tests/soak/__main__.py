"""Runs a real job for a long time, kills it at random, and judges its table each time.

    ./run.sh soak --minutes 30 [--seed S] [--rate 300] [--pause 10] [--keep DIR]
    ./run.sh soak --commits 1000
    ./run.sh soak --trino

The second form lets two engines and a compaction commit at once to a table of each catalog. The
third fetches Trino, 540 MB, and compares the rows that it reads by Iceberg with ours.

Prints a line for each event and a report; the exit code is 1 when anything is wrong. The seed
decides what is killed when and what the shop sells; how far the job is at that moment is the
machine's.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
from pathlib import Path

import pytest

from tests.soak.soak_run import Soak

_CATALOGS = "tests/interop/catalogs/test_catalogs.py"
_TRINO = "tests/interop/iceberg/test_iceberg_trino.py"


def main() -> int:
    parser = argparse.ArgumentParser(prog="./run.sh soak")
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(4), "big"))
    parser.add_argument("--rate", type=int, default=300, help="messages a second")
    parser.add_argument("--pause", type=float, default=10, help="mean seconds between kills")
    parser.add_argument("--keep", type=Path, help="work in this folder, and leave all there")
    parser.add_argument("--commits", type=int, help="of each engine, in each catalog, at once")
    parser.add_argument("--trino", action="store_true", help="as a reader of Iceberg")
    args = parser.parse_args()
    if args.trino:
        os.environ["STREAM_APP_TEST_TRINO"] = "1"
        return int(pytest.main(["-q", "--durations=0", _TRINO]))
    if args.commits is not None:
        os.environ["STREAM_APP_TEST_COMMITS"] = str(args.commits)
        return int(pytest.main(["-q", "--durations=0", "-k", "commit_at_once", _CATALOGS]))
    # A soak that is ended, by `timeout` as by Ctrl-C, takes its processes with it.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    print(f"seed {args.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="stream_app-soak-") as temporary:
        folder = args.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        soak = Soak(folder, seed=args.seed, minutes=args.minutes, rate=args.rate, pause=args.pause)
        report = soak.run()
    print("\n".join(report.lines()), flush=True)
    return 1 if report.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
