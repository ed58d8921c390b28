"""Axes of charts: the heights of values, and the labels beside the chart.

Heights are pixels, from the top of a drawing `HEIGHT` high.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

HEIGHT = 96
_LEAST = 2.0
"""Least pixels of a bar for a value, so that it can be seen."""
_TICKS = 4
_TOP = 7.0
"""Pixels above the highest line, for its label."""
_ROOM = HEIGHT - _TOP


@dataclass(frozen=True, slots=True)
class Tick:
    """A line across the chart, and the value that it stands for."""

    y: float
    text: str


@dataclass(frozen=True, slots=True)
class Axis:
    """The axis of one chart.

    Attributes:
        share: a value → the share of the axis that its bar fills, 0 to 1.
        ticks: from the lowest to the highest.
    """

    share: Callable[[float], float]
    ticks: tuple[Tick, ...]

    def height(self, value: float) -> float:
        """Pixels of a value's bar; zero has none."""
        return round(max(_LEAST, _ROOM * self.share(value)), 1) if value > 0 else 0.0


def linear_axis(most: float, text: Callable[[float], str]) -> Axis:
    """An axis of equal steps, up to a round number that is not below the largest value."""
    step = _round_step(most / 3) if most > 0 else 1.0
    top = step * max(1, math.ceil(most / step - 1e-9))
    values = [step * index for index in range(1, round(top / step) + 1)]
    return _axis(lambda value: value / top, values, text)


def log_axis(most: float, text: Callable[[float], str]) -> Axis:
    """An axis with a step for each power of ten; 1 is one step above zero."""
    power = max(1, math.ceil(math.log10(max(1.0, most)) - 1e-9))
    every = math.ceil((power + 1) / _TICKS)
    values = [10.0**exponent for exponent in range(power, -1, -every)][::-1]
    return _axis(lambda value: (math.log10(max(1.0, value)) + 1) / (power + 1), values, text)


def _axis(
    share: Callable[[float], float], values: list[float], text: Callable[[float], str]
) -> Axis:
    ticks = [Tick(round(HEIGHT - _ROOM * share(value), 1), text(value)) for value in values]
    return Axis(share, tuple(ticks))


def _round_step(least: float) -> float:
    """The smallest of 1, 2 and 5 times a power of ten that is not below a number."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= least * (1 - 1e-9))


def short_number(value: float) -> str:
    """``1500`` → ``1.5k``: a number that fits beside a chart."""
    for size, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g}{unit}"
    return f"{value:g}"
