"""Rows over time: the number that snapshots added in each of `SPANS` equal spans.

Places across are shares of the chart's width in percent, heights are pixels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stream_app.app.text.listing import time_text
from stream_app.app.web.drawings.axis import HEIGHT, Tick, linear_axis, short_number
from stream_app.model.snapshot import CommitKind, Snapshot

SPANS = 40
_LEAST_MS = 1000
"""Least length of a span; before a shorter history there are spans without rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsBar:
    """One span of time."""

    x: float
    y: float
    width: float
    height: float
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsChart:
    """The spans, oldest first; those without rows have no bar.

    Attributes:
        ticks: of the axis of rows a second.
        first, last: the times at both ends, as texts.
        rows: of all spans.
    """

    bars: tuple[RowsBar, ...]
    ticks: tuple[Tick, ...]
    first: str
    last: str
    rows: int


def rows_chart(snapshots: Sequence[Snapshot]) -> RowsChart | None:
    """The chart of some snapshots; compactions bring no rows. None: fewer than two spans
    have rows, which is no history.

    Args:
        snapshots: newest first.
    """
    brought = [
        (one.time_millis, max(0, one.delta_record_count or 0))
        for one in snapshots
        if one.commit_kind is not CommitKind.COMPACT
    ]
    if not brought:
        return None
    first, last = min(brought)[0], max(brought)[0]
    span_ms = max(_LEAST_MS, (last - first) // (SPANS - 1) + 1)
    begin = last - (SPANS - 1) * span_ms
    sums = [0] * SPANS
    for time, rows in brought:
        sums[(time - begin) // span_ms] += rows
    if sum(map(bool, sums)) < 2:
        return None
    a_second = 1000 / span_ms
    axis = linear_axis(max(sums) * a_second, short_number)
    step = 100 / SPANS
    bars = []
    for index, rows in enumerate(sums):
        if rows:
            height = axis.height(rows * a_second)
            from_ms = time_text(begin + index * span_ms)
            bars.append(
                RowsBar(
                    x=round(index * step, 2),
                    y=round(HEIGHT - height, 1),
                    width=round(0.8 * step, 2),
                    height=height,
                    title=f"{rows:,} rows in {span_ms / 1000:,.1f} s from {from_ms} on",
                )
            )
    return RowsChart(
        bars=tuple(bars),
        ticks=axis.ticks,
        first=_to_the_second(begin),
        last=_to_the_second(last + span_ms),
        rows=sum(sums),
    )


def _to_the_second(millis: int) -> str:
    return (time_text(millis) or "").replace("T", " ").partition(".")[0]
