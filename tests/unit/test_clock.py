"""The machine's clock."""

from __future__ import annotations

import datetime as dt

from stream_app.clock import Clock, SystemClock


def test_the_system_clock() -> None:
    clock: Clock = SystemClock()
    before = dt.datetime.now(dt.UTC).timestamp() * 1000
    now = clock.now_ms()
    after = dt.datetime.now(dt.UTC).timestamp() * 1000
    assert before - 1 <= now <= after
    start = clock.steady_seconds()
    clock.sleep(0.02)
    assert 0.02 <= clock.steady_seconds() - start < 5
