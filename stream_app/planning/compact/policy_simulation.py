"""Simulates the bytes that compaction writes in a bucket, by only sizes and levels.

`compaction_policy` compares rules by it. The rules are the job's own (`UniversalCompaction`). All
sizes are in flushes, so buckets of as many flushes share a result, whatever their bytes are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from stream_app.mergetree.compact.universal_compaction import RunSize, UniversalCompaction

_UNITS = 1000
"""The units in which a flush is counted, because the rules compare integers."""
_PICKS_MAX = 1 << 14
"""Maximum number of picks in one simulation, which take some 60 ms of processor time."""


@dataclass(frozen=True, slots=True)
class SimulatedCost:
    """The cost of the flushes in a simulation.

    Attributes:
        writes: the bytes that flushes and compactions wrote for each byte of the flushes.
        runs: the average number of sorted runs after a flush.
        compactions: the compactions for each flush.
    """

    writes: float
    runs: float
    compactions: float


def merged_size(written_size: float, keys: float | None) -> int:
    """Return the bytes of changes after a merge to one row for each key.

    Args:
        written_size: the bytes of changes, of randomly chosen keys.
        keys: the bytes of the rows of all keys; None: each change has a new key.
    """
    if keys is None:
        return math.ceil(written_size)
    return math.ceil(-keys * math.expm1(-written_size / keys))


def simulate(
    rules: UniversalCompaction, num_levels: int, size: int, *, flush_count: int, updates: bool
) -> SimulatedCost:
    """Simulate flushes after a full compaction; each compaction ends before the next flush.

    Args:
        num_levels: the number of levels, including level 0.
        size: the size of the bucket in flushes.
        flush_count: the number of flushes; fewer are simulated if they need more than `_PICKS_MAX`
            picks.
        updates: whether flushes have existing keys; else new keys.
    """
    keys = size * _UNITS
    runs = [RunSize(num_levels - 1, keys)]
    written_size = run_sum = simulated_count = pick_count = 0
    for _ in range(_PICKS_MAX):
        if simulated_count >= flush_count:
            break
        # Below the trigger no rule applies, so these flushes are simulated at once.
        new_count = max(1, rules.run_count_trigger - len(runs))
        run_sum += new_count * len(runs) + new_count * (new_count + 1) // 2
        simulated_count += new_count
        runs[:0] = [RunSize(0, _UNITS)] * new_count
        picked_runs = rules.pick_sizes(num_levels, runs, rules.size_ratio)
        if picked_runs is None:
            continue
        merged_runs = runs[: picked_runs.count]
        if updates:
            missing_share = 1.0
            for run in merged_runs:
                missing_share *= 1 - min(1.0, run.size / keys)
            output_size = math.ceil(keys * (1 - missing_share))
        else:
            output_size = sum(run.size for run in merged_runs)
        written_size += output_size
        pick_count += 1
        runs[: picked_runs.count] = [RunSize(picked_runs.output_level, output_size)]
    return SimulatedCost(
        1 + written_size / (simulated_count * _UNITS),
        run_sum / simulated_count,
        pick_count / simulated_count,
    )
