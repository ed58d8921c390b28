"""Ten thousand simulated flushes keep the invariants of a bucket and the bounds of its cost.

`bench.compact.compaction_simulation` drives the job's coordinator and tasks.
The bounds are theory's.
"""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from bench.compact.compaction_simulation import (
    FLUSHES,
    TRIGGERS,
    Simulation,
    simulate,
    simulated_bucket,
)
from bench.compact.loads import ASCENDING, INSERTS, LOADS, MB, UPDATES, Load
from stream_app.table.compact.buckets.bucket_coordinator import BucketCoordinator

TRIGGER = "num-sorted-run.compaction-trigger"
STOP_ABOVE_TRIGGER = 3
"""The default of the stop trigger."""


@pytest.mark.parametrize("trigger", TRIGGERS)
@pytest.mark.parametrize("name", LOADS)
def test_a_bucket_keeps_its_bounds_at_every_flush(tmp_path: Path, name: str, trigger: int) -> None:
    flushes, bucket = 1_000, simulated_bucket(tmp_path, LOADS[name], {TRIGGER: trigger})
    for number in range(flushes):
        bucket.flush()
        check_levels(bucket)
        assert bucket.runs[-1] <= trigger + STOP_ABOVE_TRIGGER + 1
        written = sum(bucket.model.written[file] for file in bucket.live)
        assert written == pytest.approx((number + 1) * MB), "a flush is lost, or there twice"
    check_costs(bucket, trigger)


@pytest.mark.parametrize("name", LOADS)
def test_ten_thousand_flushes_cost_no_more_than_promised(tmp_path: Path, name: str) -> None:
    trigger = TRIGGERS[0]
    bucket = simulated_bucket(tmp_path, LOADS[name], {TRIGGER: trigger})
    for _ in range(FLUSHES):
        bucket.flush()
    check_levels(bucket)
    check_costs(bucket, trigger)


def check_levels(bucket: Simulation) -> None:
    """Levels and table agree; the higher the level, the older the rows; no level overlaps."""
    assert isinstance(bucket.coordinator, BucketCoordinator)
    (levels,) = (manager.levels for manager in bucket.coordinator._managers.values())
    assert {file.file_name: file for file in levels.all_files()} == bucket.live
    ages = [
        (
            min(file.min_sequence_number for file in run.files),
            max(file.max_sequence_number for file in run.files),
        )
        for run in levels.level_sorted_runs()
    ]
    assert all(newer[0] > older[1] for newer, older in pairwise(ages))
    for run in levels.level_sorted_runs():
        ends = [(levels.key_of(f.min_key), levels.key_of(f.max_key)) for f in run.files]
        assert all(left[1] < right[0] for left, right in pairwise(ends))


def check_costs(bucket: Simulation, trigger: int) -> None:
    outcome = bucket.outcome()
    assert outcome.runs_max <= trigger + STOP_ABOVE_TRIGGER + 1
    # Like a binary counter of `trigger` digits: each digit is written once for each doubling, and
    # beyond 2^trigger flushes the least run is written with every flush until it is as large as
    # the next.
    doublings = math.log2(outcome.flushes)
    assert outcome.write_amplification <= 1 + doublings + outcome.flushes / 2**trigger
    # All but the oldest run are at most twice as large as it, or about to be merged with it.
    flights = (STOP_ABOVE_TRIGGER + 1) * MB / bucket.load.merged_size(100 * MB)
    assert outcome.space_max <= 3 + flights
    if bucket.load.keys_size is None:
        assert outcome.space_max == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize("trigger", TRIGGERS)
def test_no_rules_write_less_with_as_few_runs(trigger: int) -> None:
    """If universal compaction has enough runs, it writes little more than this minimum."""
    flushes = 600
    outcome = simulate(INSERTS, {TRIGGER: trigger}, flushes)
    least = least_writes(flushes, outcome.runs_max) / flushes
    assert least <= outcome.write_amplification
    if flushes <= 2**trigger:
        assert outcome.write_amplification <= 2 * least


def least_writes(flushes: int, runs: int) -> int:
    """Flushes' worth of bytes that any policy must write to keep at most so many sorted runs.

    The oldest run is written at some flushes, whole; what comes between two of them is the same
    problem with a run less. With one run, each flush writes everything.
    """
    sizes = np.arange(flushes + 1)
    least = sizes * (sizes + 1) // 2
    for _ in range(runs - 1):
        with_less, least = least, np.zeros(flushes + 1, dtype=np.int64)
        oldest = np.zeros(flushes + 1, dtype=np.int64)
        for count in range(1, flushes + 1):
            oldest[count] = np.min(oldest[:count] + with_less[:count][::-1]) + count
            least[count] = np.min(oldest[: count + 1] + with_less[: count + 1][::-1])
    return int(least[flushes])


def test_least_writes_of_cases_that_can_be_counted_by_hand() -> None:
    assert least_writes(4, 1) == 1 + 2 + 3 + 4
    assert least_writes(4, 4) == 4, "never merged"
    assert least_writes(3, 2) == 1 + 1 + 2, "the third is merged with one of the two"
    assert least_writes(4, 2) == 1 + 1 + 3 + 1, "or with both, and then there is space"


def test_files_that_overlap_nothing_are_moved_and_not_written() -> None:
    """The job writes rows of ascending keys once small and once large, for any number of levels."""
    large = Load("large", flush_size=100 * MB, in_order=True, interval_s=60.0)
    outcome = simulate(large, {}, 200)
    assert outcome.write_amplification == 1
    assert outcome.compactions > 10
    assert outcome.files == 200
    assert simulate(ASCENDING, {}, 500).write_amplification < (
        simulate(INSERTS, {}, 500).write_amplification
    )


def test_the_same_simulation_has_the_same_outcome() -> None:
    assert simulate(UPDATES, {TRIGGER: 3}, 300) == simulate(UPDATES, {TRIGGER: 3}, 300)


def test_sizes_of_the_model_meet_at_the_size_of_all_keys() -> None:
    keys = Load("few", keys_size=10 * MB)
    sizes = [keys.merged_size(count * MB) for count in (1, 10, 1000)]
    assert sizes == sorted(sizes)
    assert sizes[0] < MB
    assert sizes[-1] == 10 * MB
    assert keys.merged_size(5 * MB, 0.5) * 2 == pytest.approx(keys.merged_size(10 * MB), abs=2)
