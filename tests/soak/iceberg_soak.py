"""Long random histories of tables that Iceberg's readers follow.

    python -m tests.soak.iceberg_soak [--steps 500] [--seed S] [--kind KIND]

Each step is compared (`tests/support/iceberg_history.py`). The exit code is 1 when a reader saw
other rows. A few minutes for each kind of table.
"""

from __future__ import annotations

import argparse
import collections
import os
import random
import sys
import tempfile
import traceback
from pathlib import Path

from tests.support.iceberg_history import KINDS, IcebergHistory
from tests.support.iceberg_reader import IcebergReader


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak.iceberg_soak")
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(4), "big"))
    parser.add_argument("--kind", choices=KINDS, action="append")
    args = parser.parse_args()
    wrong = 0
    with tempfile.TemporaryDirectory(prefix="stream_app-soak-") as folder, IcebergReader() as judge:
        for kind in args.kind or KINDS:
            history = IcebergHistory(Path(folder) / kind, judge, kind, random.Random(args.seed))
            try:
                for _ in range(args.steps):
                    history.step()
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
