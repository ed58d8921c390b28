"""Rows over time: how many the snapshots brought in each of some equal spans of time.

Units of length are those of the drawing, which is `WIDTH` wide and scales with the page.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stream_app.app.output.listing import time_text
from stream_app.model.snapshot import CommitKind, Snapshot

WIDTH = 600
HEIGHT = 90
SPANS = 40
_LEAST_MS = 1000
"""A shorter history has fewer spans."""


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
        first, last: the times at both ends, as texts.
        rows: of all spans.
        most_per_s: rows a second in the span that has most.
    """

    bars: tuple[RowsBar, ...]
    first: str
    last: str
    rows: int
    most_per_s: float


def rows_chart(snapshots: Sequence[Snapshot]) -> RowsChart | None:
    """The chart of some snapshots; compactions bring no rows. None: there are none.

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
    spans = min(SPANS, max(1, (last - first) // _LEAST_MS))
    span_ms = max(_LEAST_MS, (last - first) / spans)
    sums = [0] * spans
    for time, rows in brought:
        sums[min(spans - 1, int((time - first) / span_ms))] += rows
    most, step = max(sums) or 1, WIDTH / spans
    bars = []
    for index, rows in enumerate(sums):
        if rows:
            height = round(max(2.0, HEIGHT * rows / most), 1)
            begin = time_text(round(first + index * span_ms))
            bars.append(
                RowsBar(
                    x=round(index * step, 1),
                    y=round(HEIGHT - height, 1),
                    width=round(step - 1, 1),
                    height=height,
                    title=f"{rows:,} rows in {span_ms / 1000:,.1f} s from {begin} on",
                )
            )
    return RowsChart(
        bars=tuple(bars),
        first=_to_the_second(first),
        last=_to_the_second(round(first + spans * span_ms)),
        rows=sum(sums),
        most_per_s=most / (span_ms / 1000),
    )


def _to_the_second(millis: int) -> str:
    return (time_text(millis) or "").replace("T", " ").partition(".")[0]
