"""A job that has logged nothing for a while logs its current step."""

from __future__ import annotations

import logging
from functools import partial

from stream_app.app.observe.channels.job_log import quiet_libraries
from stream_app.app.observe.channels.signs_of_life import Activity, SignsOfLife, signs_of_life
from stream_app.clock import Clock


class SetClock(Clock):
    """Stands still until it is set."""

    seconds = 0.0

    def steady_seconds(self) -> float:
        return self.seconds

    def now_ms(self) -> int:
        return round(self.seconds * 1000)

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds


WORK, WAIT = Activity("epoch 3 is at work"), Activity("nothing comes in", repeats=False)


def lines_of(activities: dict[int, Activity | None], heard: set[int], until: int) -> dict[int, str]:
    """Second → line, looked at each second."""
    clock = SetClock()
    signs = SignsOfLife(clock)
    lines = {}
    for second in range(until):
        clock.seconds = second
        if second in activities:
            signs.watch(partial(activities.__getitem__, second))
        if second in heard:
            signs.record_line()
        if line := signs.take_due_line():
            lines[second] = line
    return lines


def test_long_work_is_reported_again_and_again() -> None:
    assert lines_of({0: WORK}, {0}, 20) == {
        7: "epoch 3 is at work: 7 s so far",
        14: "epoch 3 is at work: 14 s so far",
    }


def test_a_silent_source_is_reported_once() -> None:
    assert lines_of({0: WAIT}, {0}, 60) == {7: "nothing comes in"}


def test_a_job_that_logs_gets_no_sign_of_life() -> None:
    assert lines_of({0: WORK}, {0, 5, 10, 15}, 20) == {}
    assert lines_of({0: None}, {0}, 60) == {}


def test_a_new_activity_does_not_prolong_the_silence() -> None:
    assert lines_of({0: Activity("begins"), 5: WORK}, {0}, 10) == {
        7: "epoch 3 is at work: 2 s so far"
    }


def test_lines_of_all_modules_are_heard() -> None:
    clock = SetClock()
    with signs_of_life(clock) as signs:
        clock.seconds = 5
        logging.getLogger("stream_app.table.anything").warning("a line")
        assert signs._last_line_at_s == 5


def test_warnings_of_kafkas_client_are_not_logged() -> None:
    quiet_libraries()
    assert not logging.getLogger("kafka.net.selector").isEnabledFor(logging.WARNING)
    assert logging.getLogger("kafka.net.selector").isEnabledFor(logging.ERROR)
