"""The newest epochs as stacked bars: what each waited, read, wrote and committed.

Units of length are those of the drawing, which is `WIDTH` wide and scales with the page.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stream_app.app.job.epoch_history import EpochTimes

WIDTH = 600
HEIGHT = 90
_PARTS = ("wait", "route", "write", "commit")
_NAMES = ("wait", "read and decode", "write", "commit")


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


def epoch_chart(epochs: Sequence[EpochTimes]) -> EpochChart | None:
    """The chart of some epochs; None: there are none."""
    if not epochs:
        return None
    longest = max(one.seconds for one in epochs) or 1.0
    step = WIDTH / max(len(epochs), 20)
    seconds = sum(one.seconds for one in epochs)
    return EpochChart(
        bars=tuple(_bar(one, index * step, step - 1, longest) for index, one in enumerate(epochs)),
        longest_s=longest,
        messages_per_s=sum(one.messages for one in epochs) / seconds if seconds else 0.0,
    )


def _bar(one: EpochTimes, x: float, width: float, longest: float) -> EpochBar:
    parts, top = [], float(HEIGHT)
    for kind in _PARTS:
        height = HEIGHT * getattr(one, f"{kind}_s") / longest
        top -= height
        parts.append((kind, round(top, 1), round(height, 1)))
    times = ", ".join(
        f"{name} {getattr(one, f'{kind}_s'):.2f} s"
        for kind, name in zip(_PARTS, _NAMES, strict=True)
    )
    return EpochBar(
        x=round(x, 1),
        width=round(width, 1),
        title=f"epoch {one.epoch}: {one.messages:,} messages; {times}",
        parts=tuple(parts),
    )
