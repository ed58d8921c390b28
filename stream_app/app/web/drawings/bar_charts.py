"""Draws the bar charts of pages: the newest epochs, rows over time, and the latest snapshots.

Heights are in pixels, in a drawing that is `HEIGHT` high. Horizontal positions are in percent of
the chart's width. The axis of snapshots is logarithmic, so that small epochs can be seen beside a
first load.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from stream_app.app.observe.events.epoch_history import PastEpoch
from stream_app.app.text.listing import time_text
from stream_app.epochs.stages.epoch_seconds import epoch_seconds_text
from stream_app.model.consumer import Consumer
from stream_app.model.snapshot import CommitKind, Snapshot
from stream_app.model.tag import Tag

SPAN_COUNT = 40
_SPAN_MIN_MS = 1000
"""The minimum length of a span; a shorter history is preceded by spans without rows."""
SHOWN_SNAPSHOTS_MAX = 60
_BARS_MIN = 40
"""The minimum number of bars for which there is space, so that a few bars are thin as well."""

HEIGHT = 96
_BAR_HEIGHT_MIN = 2.0
"""The minimum height in pixels of a value's bar, so that it is visible."""
_TICKS_MAX = 4
_TOP_MARGIN = 7.0
"""Pixels above the highest line, for its label."""
_AXIS_HEIGHT = HEIGHT - _TOP_MARGIN


@dataclass(frozen=True, slots=True)
class Tick:
    """A horizontal line in the chart, and its value."""

    y: float
    text: str


@dataclass(frozen=True, slots=True)
class ChartAxis:
    """The axis of one chart.

    Attributes:
        share_of: a value → the share of the axis that its bar fills, 0 to 1.
        ticks: from the lowest to the highest.
    """

    share_of: Callable[[float], float]
    ticks: tuple[Tick, ...]

    def height(self, value: float) -> float:
        """Return the height of a value's bar in pixels; zero has no bar."""
        if value <= 0:
            return 0.0
        return round(max(_BAR_HEIGHT_MIN, _AXIS_HEIGHT * self.share_of(value)), 1)


def linear_axis(largest_value: float, text_of: Callable[[float], str]) -> ChartAxis:
    """Return an axis of equal steps, up to a round number that is not below the largest value."""
    step = _round_step(largest_value / 3) if largest_value > 0 else 1.0
    top = step * max(1, math.ceil(largest_value / step - 1e-9))
    values = [step * index for index in range(1, round(top / step) + 1)]
    return _axis(lambda value: value / top, values, text_of)


def log_axis(largest_value: float, text_of: Callable[[float], str]) -> ChartAxis:
    """Return an axis with a step for each power of ten; 1 is one step above zero."""
    power = max(1, math.ceil(math.log10(max(1.0, largest_value)) - 1e-9))
    step = math.ceil((power + 1) / _TICKS_MAX)
    values = [10.0**exponent for exponent in range(power, -1, -step)][::-1]
    return _axis(lambda value: (math.log10(max(1.0, value)) + 1) / (power + 1), values, text_of)


def _axis(
    share_of: Callable[[float], float], values: list[float], text_of: Callable[[float], str]
) -> ChartAxis:
    ticks = [
        Tick(round(HEIGHT - _AXIS_HEIGHT * share_of(value), 1), text_of(value)) for value in values
    ]
    return ChartAxis(share_of, tuple(ticks))


def _round_step(minimum: float) -> float:
    """Return the smallest of 1, 2 and 5 times a power of ten that is not below a number."""
    power = 10.0 ** math.floor(math.log10(minimum))
    return next(
        factor * power for factor in (1, 2, 5, 10) if factor * power >= minimum * (1 - 1e-9)
    )


def short_number(value: float) -> str:
    """Return a short form of a number: ``1500`` becomes ``1.5k``."""
    for size, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g}{unit}"
    return f"{value:g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A bar, and the text that explains it."""

    x: float
    y: float
    width: float
    height: float
    title: str


def _bar_box(bar_index: int, step: float, height: float) -> dict[str, float]:
    return {
        "x": round(bar_index * step, 2),
        "y": round(HEIGHT - height, 1),
        "width": round(0.8 * step, 2),
        "height": height,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsChart:
    """The chart of the rows that a table got in equal spans of time.

    Attributes:
        bars: a bar for each span with rows, oldest first.
        ticks: the ticks of the axis of rows a second.
        first_time, last_time: the times at both ends, as texts.
        row_count: the number of rows of all spans.
    """

    bars: tuple[Bar, ...]
    ticks: tuple[Tick, ...]
    first_time: str
    last_time: str
    row_count: int


def rows_chart(snapshots: Sequence[Snapshot]) -> RowsChart | None:
    """Return the chart of the rows that snapshots add, or None if fewer than two spans have rows.

    Compactions are left out, because they add no rows.

    Args:
        snapshots: newest first.
    """
    row_counts = [
        (snapshot.time_ms, max(0, snapshot.delta_record_count or 0))
        for snapshot in snapshots
        if snapshot.commit_kind is not CommitKind.COMPACT
    ]
    if not row_counts:
        return None
    first_time_ms, last_time_ms = min(row_counts)[0], max(row_counts)[0]
    span_ms = max(_SPAN_MIN_MS, (last_time_ms - first_time_ms) // (SPAN_COUNT - 1) + 1)
    start_ms = last_time_ms - (SPAN_COUNT - 1) * span_ms
    sums = [0] * SPAN_COUNT
    for time_ms, row_count in row_counts:
        sums[(time_ms - start_ms) // span_ms] += row_count
    if sum(map(bool, sums)) < 2:
        return None
    spans_per_s = 1000 / span_ms
    axis = linear_axis(max(sums) * spans_per_s, short_number)
    step = 100 / SPAN_COUNT
    bars = []
    for index, row_count in enumerate(sums):
        if row_count:
            start_text = time_text(start_ms + index * span_ms)
            bars.append(
                Bar(
                    **_bar_box(index, step, axis.height(row_count * spans_per_s)),
                    title=f"{row_count:,} rows in {span_ms / 1000:,.1f} s from {start_text} on",
                )
            )
    return RowsChart(
        bars=tuple(bars),
        ticks=axis.ticks,
        first_time=_to_the_second(start_ms),
        last_time=_to_the_second(last_time_ms + span_ms),
        row_count=sum(sums),
    )


def _to_the_second(time_ms: int) -> str:
    return (time_text(time_ms) or "").replace("T", " ").partition(".")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotBar(Bar):
    """The bar of one snapshot in a table's history.

    Attributes:
        record_count: records that it added to files or removed from them.
        kind: the kind in lower case, such as ``append``.
        labels: the names of tags and consumers at this snapshot.
        is_expiring: whether the next expiry deletes the snapshot.
    """

    snapshot_id: int
    record_count: int
    kind: str
    labels: tuple[str, ...]
    is_expiring: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotChart:
    """The bars, oldest first, and the axis of records.

    Attributes:
        kinds: the kinds of the snapshots, each once.
    """

    bars: tuple[SnapshotBar, ...] = ()
    ticks: tuple[Tick, ...] = ()

    @property
    def kinds(self) -> Sequence[str]:
        """See the attributes."""
        return list(dict.fromkeys(bar.kind for bar in self.bars))


def snapshot_chart(
    snapshots: Sequence[Snapshot],
    tags: Iterable[Tag] = (),
    consumers: Iterable[Consumer] = (),
    expiring_ids: Collection[int] = (),
) -> SnapshotChart:
    """Return the chart of snapshots.

    Args:
        snapshots: newest first; at most `SHOWN_SNAPSHOTS_MAX` are drawn.
        expiring_ids: numbers of snapshots that the next expiry deletes.
    """
    shown_snapshots = list(snapshots[:SHOWN_SNAPSHOTS_MAX])[::-1]
    labels_of: dict[int, list[str]] = defaultdict(list)
    for tag in tags:
        labels_of[tag.snapshot.snapshot_id].append(f"tag {tag.name}")
    for consumer in consumers:
        labels_of[consumer.next_snapshot_id].append(f"consumer {consumer.consumer_id}")
    record_counts = [abs(snapshot.delta_record_count or 0) for snapshot in shown_snapshots]
    axis = log_axis(max(record_counts, default=0), short_number)
    step = 100 / max(len(shown_snapshots), _BARS_MIN)
    bars = []
    for index, (snapshot, record_count) in enumerate(
        zip(shown_snapshots, record_counts, strict=True)
    ):
        is_expiring = snapshot.snapshot_id in expiring_ids
        labels = tuple(labels_of[snapshot.snapshot_id])
        notes = (*labels, *(["the next expiry deletes it"] if is_expiring else []))
        bars.append(
            SnapshotBar(
                **_bar_box(index, step, max(1.0, axis.height(record_count))),
                snapshot_id=snapshot.snapshot_id,
                record_count=record_count,
                kind=snapshot.commit_kind.value.lower(),
                title=_snapshot_title(snapshot, notes),
                labels=labels,
                is_expiring=is_expiring,
            )
        )
    return SnapshotChart(bars=tuple(bars), ticks=axis.ticks)


def _snapshot_title(snapshot: Snapshot, notes: Sequence[str]) -> str:
    return "; ".join(
        (
            f"snapshot {snapshot.snapshot_id}, {snapshot.commit_kind.value} at "
            f"{time_text(snapshot.time_ms)}",
            f"{snapshot.delta_record_count or 0:+,} records in files",
            *notes,
        )
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochBar:
    """One epoch. `rectangles` have their kind, top and height, from the bottom up."""

    x: float
    width: float
    title: str
    rectangles: tuple[tuple[str, float, float], ...]


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
    """Return the chart of some epochs; None without epochs."""
    if not epochs:
        return None
    axis = linear_axis(
        max(epoch.durations.total_s for epoch in epochs), lambda value: f"{value:g} s"
    )
    step = 100 / max(len(epochs), _BARS_MIN)
    seconds = sum(epoch.durations.total_s for epoch in epochs)
    return EpochChart(
        bars=tuple(
            _epoch_bar(epoch, index * step, step, axis) for index, epoch in enumerate(epochs)
        ),
        ticks=axis.ticks,
        messages_per_s=sum(epoch.message_count for epoch in epochs) / seconds if seconds else 0.0,
    )


def _epoch_bar(epoch: PastEpoch, x: float, step: float, axis: ChartAxis) -> EpochBar:
    rectangles, part_top = [], 0.0
    bar_height = axis.height(epoch.durations.total_s)
    for kind, seconds in epoch.durations.by_name.items():
        height = bar_height * seconds / epoch.durations.total_s if seconds else 0.0
        part_top += height
        rectangles.append((kind, round(HEIGHT - part_top, 1), round(height, 1)))
    return EpochBar(
        x=round(x, 2),
        width=round(0.8 * step, 2),
        title=f"epoch {epoch.epoch}: {epoch.message_count:,} messages; "
        f"{epoch_seconds_text(epoch.durations.by_name)}",
        rectangles=tuple(rectangles),
    )
