"""The pauses between the attempts of a failing compaction grow to a limit."""

from __future__ import annotations

from stream_app.errors import CompactionError
from stream_app.table.compact.compaction_failures import (
    FIRST_RETRY_S,
    LONGEST_RETRY_S,
    CompactionFailures,
)
from tests.support.tables.small_table import StandingClock


def test_pauses_double_up_to_the_longest_however_often_a_compaction_fails() -> None:
    failures = CompactionFailures[str](StandingClock())
    pauses = []
    for _ in range(2000):
        failures.note("b", "bucket-0", CompactionError("the disk is full"))
        start_s = failures.clock.steady_seconds()
        while failures.must_wait("b"):
            failures.clock.sleep(0.5)
        pauses.append(failures.clock.steady_seconds() - start_s)
    assert pauses[:4] == [FIRST_RETRY_S, 2 * FIRST_RETRY_S, 4 * FIRST_RETRY_S, 8 * FIRST_RETRY_S]
    assert set(pauses[10:]) == {LONGEST_RETRY_S}
    assert failures.count("b") == 2000
    failures.forget("b")
    failures.note("b", "bucket-0", CompactionError("the disk is full"))
    failures.clock.sleep(FIRST_RETRY_S)
    assert not failures.must_wait("b"), "the first pause again"
