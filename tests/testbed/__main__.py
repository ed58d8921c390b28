"""Changes whole databases at random for a long time, through a job that is killed at random.

    ./run.sh proof --minutes 10 [--seed S] [--steps 200] [--without-alters] [--keep DIR]

After every third kill, and at the end, each table of the warehouse must equal its source in every
column. Prints a line for each of these moments; the exit code is 1 at the first difference. The
seed decides what the databases do; how far the job is at that moment is the machine's.

    ./run.sh proof --servers

starts the servers alone, prints where they are, and runs until Ctrl-C.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
import tempfile
import time
from pathlib import Path

from stream_app.app.launch.embedded_broker import EmbeddedBroker
from tests.support.judges.paimon_java import PaimonJava
from tests.testbed.database_proof import database_proof
from tests.testbed.servers.archives import why_no_databases
from tests.testbed.testbed import addresses, running_testbed

KILLS_BEFORE_A_LOOK = 3


def main() -> int:
    parser = argparse.ArgumentParser(prog="./run.sh proof")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(4), "big"))
    parser.add_argument("--steps", type=int, default=200, help="of each database, before a kill")
    parser.add_argument("--without-alters", action="store_true", help="columns stay as they are")
    parser.add_argument("--keep", type=Path, help="work in this folder, and leave all there")
    parser.add_argument("--servers", action="store_true", help="the servers alone, until Ctrl-C")
    args = parser.parse_args()
    if reason := why_no_databases():
        print(reason, file=sys.stderr)
        return 2
    # A proof that is ended, by `timeout` as by Ctrl-C, takes its processes with it.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if args.servers:
        return _serve()
    print(f"seed {args.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="stream_app-proof-") as temporary:
        folder = args.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        problems = _prove(folder, args)
    print("\n".join(problems) or "every table equals its source", flush=True)
    return 1 if problems else 0


def _serve() -> int:
    with (
        tempfile.TemporaryDirectory(prefix="stream_app-servers-") as folder,
        EmbeddedBroker(Path(folder)) as broker,
        running_testbed(broker) as testbed,
    ):
        words = [f"{name}={value}" for name, value in addresses(testbed).items()]
        print(f"export {' '.join(words)}", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            signal.pause()
    return 0


def _prove(folder: Path, args: argparse.Namespace) -> list[str]:
    deadline = time.monotonic() + args.minutes * 60
    with (
        EmbeddedBroker(folder / "kafka") as broker,
        running_testbed(broker) as testbed,
        PaimonJava() as java,
        database_proof(
            folder,
            testbed,
            args.seed,
            name="proof",
            alters=not args.without_alters,
            big=1000,
            source={"max-offsets-per-trigger": 10_000},
        ) as proof,
    ):
        while True:
            for _ in range(KILLS_BEFORE_A_LOOK):
                proof.work_and_kill(args.steps)
            proof.drain()
            problems = proof.problems(java)
            print("\n".join(proof.story()), flush=True)
            if problems or time.monotonic() > deadline:
                return problems


if __name__ == "__main__":
    sys.exit(main())
