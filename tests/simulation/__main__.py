"""Implements `./run.sh simulate`: runs many seeds, or one seed with all its actions.

The process starts itself again with a fixed order of sets. Without it, the same seed would not
give the same run.
"""

from __future__ import annotations

import argparse
import logging
import multiprocessing
import os
import sys
import time
import traceback
from collections.abc import Iterator, Sequence

from tests.simulation.minimised import removable_parts
from tests.simulation.seeds import scenario
from tests.simulation.simulation import Outcome, outcome_of, run

HASH_SEED = "PYTHONHASHSEED"
LAST_LINES = 40


def main(arguments: Sequence[str]) -> int:
    """0 when every promise was kept, 1 when not."""
    options = _parser().parse_args(arguments)
    logging.disable(logging.CRITICAL)
    if options.seed is not None:
        return _tell(options.seed, options.without.split(",") if options.without else [])
    began, count = time.monotonic(), 0
    operations = snapshots = struck = lost_power = 0
    failed_seeds = []
    for seed, outcome in _outcomes(
        range(options.start, options.start + options.seeds), options.processes
    ):
        count += 1
        operations += len(outcome.operations)
        snapshots += outcome.snapshots
        struck += outcome.struck
        lost_power += outcome.lost_power
        if outcome.failure is not None:
            failed_seeds.append(seed)
            _tell(seed, [], is_short=True)
            if len(failed_seeds) == options.max_failures:
                break
    seconds = time.monotonic() - began
    print(
        f"{count} seeds from {options.start} in {seconds:.0f} s: {operations} file operations, "
        f"{snapshots} snapshots, {struck} faults, {lost_power} of them took the machine; "
        f"{len(failed_seeds)} seeds failed"
    )
    return 1 if failed_seeds else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("./run.sh simulate", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000, help="how many (1000)")
    parser.add_argument("--from", type=int, default=0, dest="start", help="the first one (0)")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--max-failures", type=int, default=3, help="stop after so many (3)")
    parser.add_argument("--seed", type=int, help="this one alone, with all that happened")
    parser.add_argument("--without", default="", help="parts of it to leave out: r3,r1a0,r2f1")
    return parser


def _outcomes(seeds: range, processes: int) -> Iterator[tuple[int, Outcome]]:
    if processes == 1:
        yield from map(outcome_of, seeds)
        return
    with multiprocessing.get_context("spawn").Pool(processes, logging.disable, [50]) as pool:
        yield from pool.imap_unordered(outcome_of, seeds, chunksize=8)


def _tell(seed: int, without: list[str], *, is_short: bool = False) -> int:
    """Say what happens in a seed, and of a failing one how to repeat it."""
    tried_scenario = scenario(seed).without(without)
    outcome = run(tried_scenario)
    if outcome.failure is None:
        print(f"{tried_scenario}\nall promises were kept; trace {outcome.trace}")
        return 0
    without = [*without, *removable_parts(tried_scenario, outcome.failure)]
    small = scenario(seed).without(without)
    outcome = run(small, keeps_lines=True)
    print(f"{small}\nFAILED, trace {outcome.trace}; the last things that happened:")
    print(*outcome.lines[-LAST_LINES if is_short else 0 :], sep="", end="")
    assert outcome.failure is not None
    print(*traceback.format_exception(outcome.failure, limit=-12), sep="")
    left_out = f" --without {','.join(without)}" if without else ""
    print(f"again: ./run.sh simulate --seed {seed}{left_out}\n", flush=True)
    return 1


if __name__ == "__main__":
    if os.environ.get(HASH_SEED) != "0":
        command = [sys.executable, "-m", "tests.simulation", *sys.argv[1:]]
        os.execve(sys.executable, command, {**os.environ, HASH_SEED: "0"})
    sys.exit(main(sys.argv[1:]))
