"""Bar charts have round axis values and matching heights."""

from __future__ import annotations

import pytest

from stream_app.app.web.drawings.bar_charts import (
    HEIGHT,
    ChartAxis,
    linear_axis,
    log_axis,
    short_number,
)


def labels_of(axis: ChartAxis) -> list[str]:
    return [tick.text for tick in axis.ticks]


@pytest.mark.parametrize(
    ("most", "ticks"),
    [
        (0, ["1"]),
        (1, ["0.5", "1"]),
        (3, ["1", "2", "3"]),
        (7, ["5", "10"]),
        (155, ["100", "200"]),
        (60_000, ["20k", "40k", "60k"]),
        (0.05, ["0.02", "0.04", "0.06"]),
    ],
)
def test_a_linear_axis_ends_at_the_next_round_value(most: float, ticks: list[str]) -> None:
    assert labels_of(linear_axis(most, short_number)) == ticks


@pytest.mark.parametrize(
    ("most", "ticks"),
    [
        (0, ["1", "10"]),
        (1, ["1", "10"]),
        (39, ["1", "10", "100"]),
        (1000, ["1", "10", "100", "1k"]),
        (1001, ["1", "100", "10k"]),
        (3_000_000_000, ["10", "10k", "10M", "10G"]),
    ],
)
def test_a_logarithmic_axis_has_powers_of_ten(most: float, ticks: list[str]) -> None:
    assert labels_of(log_axis(most, short_number)) == ticks


def test_a_bar_ends_at_the_line_of_its_value() -> None:
    axis = linear_axis(4, short_number)
    assert labels_of(axis) == ["2", "4"]
    assert [HEIGHT - axis.height(2), HEIGHT - axis.height(4)] == [tick.y for tick in axis.ticks]
    axis = log_axis(1000, short_number)
    heights = [HEIGHT - axis.height(10**power) for power in range(4)]
    assert heights == pytest.approx([tick.y for tick in axis.ticks], abs=0.1)
    assert axis.height(0) == 0.0
    assert 0 < axis.height(1) < axis.height(2)


def test_little_is_seen_beside_much() -> None:
    assert linear_axis(1_000_000, short_number).height(1) == 2.0
