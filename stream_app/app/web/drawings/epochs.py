"""The newest epochs as stacked bars of their parts.

Places across are shares of the chart's width in percent, heights are pixels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stream_app.app.observe.events.epoch_history import PastEpoch
from stream_app.app.web.drawings.axis import HEIGHT, Axis, Tick, linear_axis
from stream_app.spark.epoch.epoch_seconds import parts_text

_SLOTS = 40
"""Least number of bars that fit, so that a few bars are thin as well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochBar:
    """One epoch; `parts` are kind, top and height of each rectangle, from the ground up."""

    x: float
    width: float
    title: str
    parts: tuple[tuple[str, float, float], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochChart:
    """The bars, oldest first, and the axis of seconds.

    Attributes:
        messages_per_s: throughput of all epochs, over their working time.
    """

    bars: tuple[EpochBar, ...]
    ticks: tuple[Tick, ...]
    messages_per_s: float


def epoch_chart(epochs: Sequence[PastEpoch]) -> EpochChart | None:
    """The chart of some epochs; None: there are none."""
    if not epochs:
        return None
    axis = linear_axis(max(one.parts.seconds for one in epochs), lambda value: f"{value:g} s")
    step = 100 / max(len(epochs), _SLOTS)
    seconds = sum(one.parts.seconds for one in epochs)
    return EpochChart(
        bars=tuple(_bar(one, index * step, step, axis) for index, one in enumerate(epochs)),
        ticks=axis.ticks,
        messages_per_s=sum(one.messages for one in epochs) / seconds if seconds else 0.0,
    )


def _bar(one: PastEpoch, x: float, step: float, axis: Axis) -> EpochBar:
    parts, below = [], 0.0
    whole = axis.height(one.parts.seconds)
    for kind, seconds in one.parts.by_name.items():
        height = whole * seconds / one.parts.seconds if seconds else 0.0
        below += height
        parts.append((kind, round(HEIGHT - below, 1), round(height, 1)))
    return EpochBar(
        x=round(x, 2),
        width=round(0.8 * step, 2),
        title=f"epoch {one.epoch}: {one.messages:,} messages; {parts_text(one.parts.by_name)}",
        parts=tuple(parts),
    )
