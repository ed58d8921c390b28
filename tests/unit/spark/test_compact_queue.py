"""In which order compactions wait for a thread."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from stream_app.spark.compact_jobs import OVERTAKEN_BY_A_RUN, queue_rank


def test_more_sorted_runs_go_first() -> None:
    runs = [5, 5, 8, 5, 7]
    order = sorted(range(len(runs)), key=lambda number: queue_rank(number, runs[number]))
    assert order == [2, 4, 0, 1, 3]


@given(st.integers(1, 40), st.integers(1, 40), st.integers(0, 10_000))
def test_nobody_waits_for_ever(runs: int, others: int, number: int) -> None:
    """Whatever has `others` runs overtakes only if it comes soon enough."""
    more = max(0, others - runs)
    late = number + OVERTAKEN_BY_A_RUN * more + 1
    assert queue_rank(number, runs) < queue_rank(late, others)
