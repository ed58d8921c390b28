"""The newest snapshots as bars: their records, their tags and consumers, and the next to expire.

The axis is logarithmic, so that small epochs can be seen beside a first load. Places across are
shares of the chart's width in percent, heights are pixels.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from stream_app.app.text.listing import time_text
from stream_app.app.web.drawings.axis import HEIGHT, Tick, log_axis, short_number
from stream_app.model.consumer import Consumer
from stream_app.model.snapshot import Snapshot
from stream_app.model.tag import Tag

SHOWN = 60
_SLOTS = 40
"""Least number of bars that fit, so that a few bars are thin as well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotBar:
    """One snapshot.

    Attributes:
        records: records that it added to files or removed from them.
        kind: in lower case, such as ``append``.
        marks: names of tags and consumers that stand at it.
        is_going: whether the next expiry deletes it.
    """

    x: float
    y: float
    width: float
    height: float
    snapshot: int
    records: int
    kind: str
    title: str
    marks: tuple[str, ...]
    is_going: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotChart:
    """The bars, oldest first, and the axis of records.

    Attributes:
        kinds: of the snapshots, each once.
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
    going: Collection[int] = (),
) -> SnapshotChart:
    """The chart of snapshots.

    Args:
        snapshots: newest first; at most `SHOWN` are drawn.
        going: numbers of snapshots that the next expiry deletes.
    """
    shown = list(snapshots[:SHOWN])[::-1]
    marks: dict[int, list[str]] = defaultdict(list)
    for tag in tags:
        marks[tag.snapshot.snapshot_id].append(f"tag {tag.name}")
    for consumer in consumers:
        marks[consumer.next_snapshot].append(f"consumer {consumer.consumer_id}")
    records = [abs(one.delta_record_count or 0) for one in shown]
    axis = log_axis(max(records, default=0), short_number)
    step = 100 / max(len(shown), _SLOTS)
    bars = []
    for index, (one, count) in enumerate(zip(shown, records, strict=True)):
        height = max(1.0, axis.height(count))
        is_going = one.snapshot_id in going
        here = tuple(marks[one.snapshot_id])
        notes = (*here, *(["the next expiry deletes it"] if is_going else []))
        bars.append(
            SnapshotBar(
                x=round(index * step, 2),
                y=round(HEIGHT - height, 1),
                width=round(0.8 * step, 2),
                height=height,
                snapshot=one.snapshot_id,
                records=count,
                kind=one.commit_kind.value.lower(),
                title=_title(one, notes),
                marks=here,
                is_going=is_going,
            )
        )
    return SnapshotChart(bars=tuple(bars), ticks=axis.ticks)


def _title(snapshot: Snapshot, marks: Sequence[str]) -> str:
    return "; ".join(
        (
            f"snapshot {snapshot.snapshot_id}, {snapshot.commit_kind.value} at "
            f"{time_text(snapshot.time_millis)}",
            f"{snapshot.delta_record_count or 0:+,} records in files",
            *marks,
        )
    )
