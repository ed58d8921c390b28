"""Simulates the bytes that compaction writes in a bucket, by only sizes and levels.

`compaction_policy` compares rules by it. The rules are the job's own (`UniversalCompaction`). All
sizes are in flushes, so buckets of as many flushes share a result, whatever their bytes are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from stream_app.mergetree.compact.universal_compaction import RunSize, UniversalCompaction

_FLUSH_SIZE = 1000
"""The units in which a flush is counted, because the rules compare integers."""
_PICKS_MAX = 1 << 14
"""Maximum number of picks in one simulation, which take some 60 ms of processor time."""


@dataclass(frozen=True, slots=True)
class SimulatedCost:
    """The cost of the flushes in a simulation.

    Attributes:
        write_amplification: the bytes that flushes and compactions wrote for each byte of the
            flushes.
        mean_run_count: the average number of sorted runs after a flush.
        compactions_per_flush: the number of compactions for each flush.
    """

    write_amplification: float
    mean_run_count: float
    compactions_per_flush: float


def merged_size(written_size: float, keys_size: float | None) -> int:
    """Return the bytes of changes after a merge to one row for each key.

    Args:
        written_size: the bytes of changes, of randomly chosen keys.
        keys_size: the bytes of the rows of all keys; None if each change has a new key.
    """
    if keys_size is None:
        return math.ceil(written_size)
    return math.ceil(-keys_size * math.expm1(-written_size / keys_size))


def simulate(
    rules: UniversalCompaction,
    num_levels: int,
    flush_count: int,
    *,
    count_max: int,
    has_updates: bool,
) -> SimulatedCost:
    """Simulate flushes after a full compaction; each compaction ends before the next flush.

    Args:
        num_levels: the number of levels, including level 0.
        flush_count: the size of the bucket in flushes.
        count_max: the number of flushes to simulate; fewer are simulated if they need more than
            `_PICKS_MAX` picks.
        has_updates: whether flushes have existing keys; else new keys.
    """
    bucket_size = flush_count * _FLUSH_SIZE
    run_sizes = [RunSize(num_levels - 1, bucket_size)]
    written_size = run_sum = simulated_count = pick_count = 0
    for _ in range(_PICKS_MAX):
        if simulated_count >= count_max:
            break
        # Below the trigger no rule applies, so these flushes are simulated at once.
        new_count = max(1, rules.run_count_trigger - len(run_sizes))
        run_sum += new_count * len(run_sizes) + new_count * (new_count + 1) // 2
        simulated_count += new_count
        run_sizes[:0] = [RunSize(0, _FLUSH_SIZE)] * new_count
        picked_runs = rules.pick_runs(num_levels, run_sizes, rules.size_ratio)
        if picked_runs is None:
            continue
        merged_sizes = run_sizes[: picked_runs.count]
        if has_updates:
            missing_share = 1.0
            for run in merged_sizes:
                missing_share *= 1 - min(1.0, run.size / bucket_size)
            output_size = math.ceil(bucket_size * (1 - missing_share))
        else:
            output_size = sum(run.size for run in merged_sizes)
        written_size += output_size
        pick_count += 1
        run_sizes[: picked_runs.count] = [RunSize(picked_runs.output_level, output_size)]
    return SimulatedCost(
        1 + written_size / (simulated_count * _FLUSH_SIZE),
        run_sum / simulated_count,
        pick_count / simulated_count,
    )
