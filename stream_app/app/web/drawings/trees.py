"""Draws LSM trees: a line for each level, and a rectangle for each sorted run, sized by bytes.

Places and widths are shares of a line in percent.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from stream_app.app.ops.inspect.bucket_trees import LevelRow, NextCompactions
from stream_app.app.text.listing import size_text
from stream_app.table.compact.metrics import CompactionUnderWay

BUCKETS_SHOWN = 32
BUCKETS_OPEN = 6
"""The number of trees that are unfolded at first."""
_GAP = 0.4
_LEAST = 0.6
RUNS_SHOWN = 60
"""Sorted runs of a level that are drawn; the rest are counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunBox:
    """One sorted run.

    Attributes:
        is_next: whether the due compaction includes it.
        is_taken: whether the running compaction includes it.
    """

    x: float
    width: float
    level: int
    title: str
    is_next: bool
    is_taken: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelLine:
    """The runs of one level; `more` of them are not drawn."""

    level: int
    boxes: tuple[RunBox, ...]
    more: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketTree:
    """One bucket's tree.

    Attributes:
        next: the compaction that is due, or why none is.
        works: the compaction that runs or waits for a thread; empty without one.
    """

    name: str
    partition: str
    bucket: int
    runs: int
    rows: int
    bytes: int
    lines: tuple[LevelLine, ...]
    next: str
    works: str


def bucket_trees(
    runs: Sequence[LevelRow],
    planned: NextCompactions,
    under_way: Iterable[CompactionUnderWay] = (),
) -> list[BucketTree]:
    """Return the buckets' trees: first those in compaction, then those with most sorted runs.

    Args:
        runs: the runs of `inspect.bucket_trees.run_rows`; newest first in a bucket.
    """
    works = {(compaction.partition, compaction.bucket): compaction for compaction in under_way}
    groups = groupby(runs, key=lambda run: (run.partition, run.bucket))
    trees = [_tree(at, list(those), planned, works.get(at)) for at, those in groups]
    return sorted(trees, key=lambda tree: (not tree.works, -tree.runs, tree.partition, tree.bucket))


def _tree(
    at: tuple[str, int],
    runs: Sequence[LevelRow],
    planned: NextCompactions,
    work: CompactionUnderWay | None,
) -> BucketTree:
    partition, bucket = at
    lines = []
    by_level = groupby(runs, key=lambda run: run.level)
    levels = {run.level for run in runs}
    largest = max(sum(run.bytes for run in runs if run.level == level) for level in levels)
    for level, those in by_level:
        lines.append(_line(level, list(those), largest, planned, work))
    return BucketTree(
        name=f"{partition} bucket {bucket}".strip(),
        partition=partition,
        bucket=bucket,
        runs=len(runs),
        rows=sum(run.rows for run in runs),
        bytes=sum(run.bytes for run in runs),
        lines=tuple(lines),
        next=planned.of_bucket(at, len(runs)),
        works="" if work is None else _work_text(work),
    )


def _work_text(work: CompactionUnderWay) -> str:
    levels = " ".join(map(str, work.levels))
    return (
        f"{'compacting' if work.is_running else 'waits for a thread'}: {work.reason}, "
        f"levels {levels} → {work.output_level}, {work.files} files, {size_text(work.bytes)}"
    )


def _line(
    level: int,
    runs: Sequence[LevelRow],
    largest: int,
    planned: NextCompactions,
    work: CompactionUnderWay | None,
) -> LevelLine:
    """Return a level's boxes: the widest level fills the drawing; no run is too thin to be seen."""
    shown = runs[:RUNS_SHOWN]
    room = 100 - (_GAP + _LEAST) * len(shown)
    x, boxes = 0.0, []
    taken = 0 if work is None else work.levels.count(level)
    for place, run in enumerate(shown):
        width = round(_LEAST + room * run.bytes / max(1, largest), 2)
        is_next = planned.of_level((run.partition, run.bucket, level)) is not None
        boxes.append(
            RunBox(
                x=round(x, 2),
                width=width,
                level=level,
                title=_title(run),
                is_next=is_next and work is None,
                # Runs added after the compaction began are newer, and come first.
                is_taken=place >= len(runs) - taken,
            )
        )
        x += width + _GAP
    return LevelLine(level=level, boxes=tuple(boxes), more=len(runs) - len(shown))


def _title(run: LevelRow) -> str:
    files = "" if run.files == 1 else f" in {run.files} files"
    return (
        f"level {run.level}: {size_text(run.bytes)}, {run.rows:,} rows{files}, "
        f"keys {run.min_key} to {run.max_key}"
    )
