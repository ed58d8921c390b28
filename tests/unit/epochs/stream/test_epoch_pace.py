"""A job chooses the lengths of epochs that keep rows fresh by what earlier epochs took."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from stream_app.epochs.stream.epoch_pace import FreshPace, PastEpochTimes, chosen_pace
from tests.support.tables.small_table import StandingClock


@pytest.mark.parametrize(
    ("freshness", "epochs", "expected"),
    [
        (60, [], "epochs of 5.0 s keep rows fresher than 60 s: none is known yet"),
        (4, [], "epochs of 2.0 s keep rows fresher than 4 s: none is known yet"),
        # Twice as long at most, at a time; a quarter of the freshness in any case.
        (100, [(20, 1)], "epochs of 40.0 s keep rows fresher than 100 s"),
        (60, [(0.5, 0.4)], "epochs of 15.0 s keep rows fresher than 60 s"),
        # A longer epoch takes longer in proportion: 48 + 48 * 10 / 40 = 60.
        (60, [(20, 9), (40, 10)], "epochs of 48.0 s keep rows fresher than 60 s"),
        # A shorter one does not: 40 + 20 = 60.
        (60, [(50, 20), (56, 6)], "epochs of 40.0 s keep rows fresher than 60 s"),
        (60, [(60, 50)], "epochs of 15.0 s do not keep rows fresher than 60 s"),
    ],
)
def test_the_pace_keeps_rows_fresh_if_epochs_can(
    freshness: float, epochs: list[tuple[float, float]], expected: str
) -> None:
    times = [PastEpochTimes(covered_s=covers, duration_s=took) for covers, took in epochs]
    assert chosen_pace(freshness, times).text().startswith(expected)


def test_the_pace_gives_its_reason() -> None:
    text = chosen_pace(60, [PastEpochTimes(40, 9.04), PastEpochTimes(38, 10.02)]).text()
    assert text == (
        "epochs of 48.0 s keep rows fresher than 60 s: the slowest of the last 2 took 10.0 s"
    )


@dataclass
class EvenJob:
    """A job whose epochs take a fixed time, and more for each second of messages.

    Attributes:
        ages: the age of each epoch's oldest message when readers see it, and the epoch's length.
    """

    pace: FreshPace
    clock: StandingClock
    fixed_s: float
    share: float
    ages: list[tuple[float, float]] = field(default_factory=list)
    last: float | None = None

    def run(self, epochs: int) -> None:
        for epoch in range(epochs):
            now = self.clock.steady_seconds()
            if self.last is None:
                self.last = now
                self.pace.note_poll(now)
            until = self.last + self.pace.choose_pause_s(is_full=False)
            self.clock.sleep(max(0.0, until - now))
            look = self.clock.steady_seconds()
            self.pace.note_poll(look)
            self.pace.begin(epoch)
            self.clock.sleep(self.fixed_s + self.share * (look - self.last))
            self.pace.note_commit(epoch)
            self.ages.append((self.clock.steady_seconds() - self.last, look - self.last))
            self.last = look


@pytest.mark.parametrize("freshness", [2.0, 20.0, 60.0, 600.0])
@pytest.mark.parametrize(("fixed_s", "share"), [(0.02, 0.01), (0.3, 0.2), (0.9, 0.05), (0.05, 0.8)])
def test_rows_stay_fresh_in_the_longest_epochs(
    freshness: float, fixed_s: float, share: float
) -> None:
    clock = StandingClock()
    job = EvenJob(FreshPace(freshness, clock), clock, fixed_s, share)
    job.run(40)
    assert max(age for age, _ in job.ages) <= freshness + 0.01
    assert job.ages[-1][1] == pytest.approx((freshness - fixed_s) / (1 + share), rel=0.02)


def test_a_slow_epoch_shortens_the_next_ones_until_it_is_forgotten() -> None:
    clock = StandingClock()
    job = EvenJob(FreshPace(60.0, clock), clock, 2.0, 0.0)
    job.run(20)
    assert job.ages[-1][1] == pytest.approx(58.0, rel=0.01)
    job.fixed_s = 22.0
    job.run(1)
    assert job.ages[-1][0] > 60, "one epoch is too late"
    job.fixed_s = 2.0
    job.run(16)
    assert {round(length) for _, length in job.ages[-15:]} == {38}
    job.run(16)
    assert job.ages[-1][1] > 57
