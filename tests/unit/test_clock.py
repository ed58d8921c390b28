"""The system clock returns the machine's time."""

from __future__ import annotations

import datetime as dt

import pytest

from stream_app.clock import Clock, SystemClock, utc_ms, wall_clock_ms


def test_the_system_clock() -> None:
    clock: Clock = SystemClock()
    before = dt.datetime.now(dt.UTC).timestamp() * 1000
    now = clock.now_ms()
    after = dt.datetime.now(dt.UTC).timestamp() * 1000
    assert before - 1 <= now <= after
    start = clock.steady_seconds()
    clock.sleep(0.02)
    assert 0.02 <= clock.steady_seconds() - start < 5


@pytest.mark.parametrize("month", range(1, 13))
def test_a_wall_clock_is_read_back(month: int) -> None:
    moment = dt.datetime(2026, month, 20, 14, 30, 15, 678_000, tzinfo=dt.UTC)
    millis = int(moment.timestamp()) * 1000 + 678
    assert utc_ms(wall_clock_ms(millis)) == millis
