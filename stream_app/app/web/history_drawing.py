"""The newest snapshots as a row of bars: what each brought, what keeps it, and what goes next.

A bar's height is the root of its records' share of the most, so that small epochs can be seen
beside large ones.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from stream_app.app.output.listing import time_text
from stream_app.model.consumer import Consumer
from stream_app.model.snapshot import Snapshot
from stream_app.model.tag import Tag

SHOWN = 60
WIDTH = 600
_GROUND = 70
_LEAST = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotBar:
    """One snapshot.

    Attributes:
        records: that it brought to files or took from them.
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


def snapshot_bars(
    snapshots: Sequence[Snapshot],
    tags: Iterable[Tag] = (),
    consumers: Iterable[Consumer] = (),
    going: Collection[int] = (),
) -> list[SnapshotBar]:
    """The bars of snapshots, oldest first.

    Args:
        snapshots: newest first; at most `SHOWN` are drawn.
        going: numbers of those that the next expiry deletes.
    """
    shown = list(snapshots[:SHOWN])[::-1]
    marks: dict[int, list[str]] = defaultdict(list)
    for tag in tags:
        marks[tag.snapshot.snapshot_id].append(f"tag {tag.name}")
    for consumer in consumers:
        marks[consumer.next_snapshot].append(f"consumer {consumer.consumer_id}")
    records = [abs(one.delta_record_count or 0) for one in shown]
    most = max(records, default=0) or 1
    step = WIDTH / max(len(shown), 20)
    bars = []
    for index, (one, count) in enumerate(zip(shown, records, strict=True)):
        height = round(_LEAST + (_GROUND - _LEAST - 4) * math.sqrt(count / most), 1)
        kind = one.commit_kind.value.lower()
        is_going = one.snapshot_id in going
        here = tuple(marks[one.snapshot_id])
        told = (*here, *(["the next expiry deletes it"] if is_going else []))
        bars.append(
            SnapshotBar(
                x=round(index * step, 1),
                y=_GROUND - height,
                width=round(step - 1, 1),
                height=height,
                snapshot=one.snapshot_id,
                records=count,
                kind=kind,
                title=_title(one, told),
                marks=here,
                is_going=is_going,
            )
        )
    return bars


def _title(snapshot: Snapshot, marks: Sequence[str]) -> str:
    return "; ".join(
        (
            f"snapshot {snapshot.snapshot_id}, {snapshot.commit_kind.value} at "
            f"{time_text(snapshot.time_millis)}",
            f"{snapshot.delta_record_count or 0:+,} records in files",
            *marks,
        )
    )
