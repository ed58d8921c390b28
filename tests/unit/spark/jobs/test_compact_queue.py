"""Compactions wait for a thread in the queue's order, and some of them share a job."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from stream_app.spark.jobs.spark_compactions import (
    OVERTAKEN_BY_A_RUN,
    SHARED_COMPACTIONS_MAX,
    SHARED_SIZE_MAX,
    queue_rank,
    shared_count,
)


def test_more_sorted_runs_go_first() -> None:
    runs = [5, 5, 8, 5, 7]
    order = sorted(range(len(runs)), key=lambda number: queue_rank(number, runs[number]))
    assert order == [2, 4, 0, 1, 3]


@given(st.integers(1, 40), st.integers(1, 40), st.integers(0, 10_000))
def test_no_compaction_waits_forever(runs: int, others: int, number: int) -> None:
    """A compaction with more runs overtakes another one only if it comes soon enough."""
    more = max(0, others - runs)
    late = number + OVERTAKEN_BY_A_RUN * more + 1
    assert queue_rank(number, runs) < queue_rank(late, others)


def test_small_compactions_share_a_job_until_it_is_full() -> None:
    small = SHARED_SIZE_MAX // 4
    assert shared_count([small] * 9) == 4
    assert shared_count([small, SHARED_SIZE_MAX, small]) == 1
    assert shared_count([1] * 1000) == SHARED_COMPACTIONS_MAX


def test_a_large_compaction_has_a_job_of_its_own() -> None:
    assert shared_count([SHARED_SIZE_MAX + 1, 1, 1]) == 1
