"""Database snapshots of random histories equal the database, with repeats, lags and crashes."""

from __future__ import annotations

from random import Random

import pytest

from tests.support.histories.borders_of_history import borders_of_history

pytestmark = pytest.mark.slow
HISTORIES = 40


def test_each_database_snapshot_of_a_history_equals_the_database(seed: int) -> None:
    random, whole_count, complete_count = Random(seed), 0, 0
    for number in (random.getrandbits(32) for _ in range(HISTORIES)):
        job = borders_of_history(number)
        try:
            job.run()
        except AssertionError as error:
            raise AssertionError(f"history {number}: {error}") from error
        whole_count += job.whole
        complete_count += job.newest == len(job.history.log)
    assert whole_count > HISTORIES, "snapshots are recorded at all"
    assert complete_count > HISTORIES // 2, (
        "most histories end with a snapshot of the newest transaction"
    )
