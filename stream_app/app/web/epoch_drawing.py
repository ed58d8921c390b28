"""The newest epochs as stacked bars of their parts.

Units of length are those of the drawing, which is `WIDTH` wide and scales with the page.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stream_app.app.job.epoch_history import PastEpoch
from stream_app.spark.epoch.epoch_parts import parts_text

WIDTH = 600
HEIGHT = 90


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochBar:
    """One epoch; `parts` are kind, top and height of each rectangle, from the ground up."""

    x: float
    width: float
    title: str
    parts: tuple[tuple[str, float, float], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochChart:
    """The bars, oldest first, and the scale.

    Attributes:
        longest_s: seconds of the highest bar.
        messages_per_s: of all epochs together, while they were worked at.
    """

    bars: tuple[EpochBar, ...]
    longest_s: float
    messages_per_s: float


def epoch_chart(epochs: Sequence[PastEpoch]) -> EpochChart | None:
    """The chart of some epochs; None: there are none."""
    if not epochs:
        return None
    longest = max(one.parts.seconds for one in epochs) or 1.0
    step = WIDTH / max(len(epochs), 20)
    seconds = sum(one.parts.seconds for one in epochs)
    return EpochChart(
        bars=tuple(_bar(one, index * step, step - 1, longest) for index, one in enumerate(epochs)),
        longest_s=longest,
        messages_per_s=sum(one.messages for one in epochs) / seconds if seconds else 0.0,
    )


def _bar(one: PastEpoch, x: float, width: float, longest: float) -> EpochBar:
    parts, top = [], float(HEIGHT)
    for kind, seconds in one.parts.by_name.items():
        height = HEIGHT * seconds / longest
        top -= height
        parts.append((kind, round(top, 1), round(height, 1)))
    return EpochBar(
        x=round(x, 1),
        width=round(width, 1),
        title=f"epoch {one.epoch}: {one.messages:,} messages; {parts_text(one.parts.by_name)}",
        parts=tuple(parts),
    )
