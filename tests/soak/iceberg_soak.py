"""Runs long random histories of tables that Iceberg's readers follow.

    python -m tests.soak.iceberg_soak [--steps 500] [--seed S] [--kind KIND] [--rest]

Each step is compared (`tests/support/histories/iceberg_history.py`). The exit code is 1 when a
reader saw other rows. With ``--rest`` the readers find the tables in Iceberg's REST catalog. A few
minutes for each kind of table.
"""

from __future__ import annotations

import argparse
import collections
import os
import random
import sys
import tempfile
import traceback
from contextlib import ExitStack, closing
from pathlib import Path

from tests.support.histories.iceberg_history import KINDS, IcebergHistory
from tests.support.judges.iceberg_reader import IcebergReader
from tests.testbed.servers.iceberg_rest import IcebergRest


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak.iceberg_soak")
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(4), "big"))
    parser.add_argument("--kind", choices=KINDS, action="append")
    parser.add_argument("--rest", action="store_true")
    args = parser.parse_args()
    wrong = 0
    with ExitStack() as open_things:
        folder = open_things.enter_context(tempfile.TemporaryDirectory(prefix="stream_app-soak-"))
        judge = open_things.enter_context(IcebergReader())
        uri = open_things.enter_context(closing(IcebergRest())).uri if args.rest else None
        for kind in args.kind or KINDS:
            rng = random.Random(args.seed)
            history = IcebergHistory(Path(folder) / kind, judge, kind, rng, uri)
            try:
                for _ in range(args.steps):
                    history.step()
                    if differences := history.differences():
                        wrong += 1
                        print(*differences, sep="\n")
                        break
            except Exception:
                wrong += 1
                traceback.print_exc()
            steps = collections.Counter(history.steps)
            print(
                f"{kind}, seed {args.seed}: {len(history.steps)} steps, {dict(steps)}", flush=True
            )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
