"""LSM trees as rectangles: a line for each level, a rectangle for each sorted run, by its bytes.

Units of length are those of the drawing, which is `WIDTH` wide and scales with the page.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from stream_app.app.inspect.levels import LevelRow, NextCompactions
from stream_app.app.output.listing import size_text

WIDTH = 600
LINE = 22
BUCKETS_SHOWN = 32
_LEFT = 34
_GAP = 2
_LEAST = 3
RUNS_SHOWN = 60
"""Sorted runs of a level that are drawn; the rest are counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunBox:
    """One sorted run.

    Attributes:
        is_next: whether the compaction that is due takes it in.
    """

    x: float
    width: float
    level: int
    title: str
    is_next: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelLine:
    """The runs of one level; `more` of them are not drawn."""

    level: int
    y: int
    boxes: tuple[RunBox, ...]
    more: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketTree:
    """One bucket's tree.

    Attributes:
        next: the compaction that is due, or why none is.
    """

    name: str
    partition: str
    bucket: int
    runs: int
    rows: int
    bytes: int
    lines: tuple[LevelLine, ...]
    next: str

    @property
    def height(self) -> int:
        """Of the drawing."""
        return LINE * len(self.lines)

    @property
    def width(self) -> int:
        """Of the drawing."""
        return WIDTH


def bucket_trees(runs: Sequence[LevelRow], planned: NextCompactions) -> list[BucketTree]:
    """The trees of buckets, those with the most sorted runs first.

    Args:
        runs: of `inspect.levels.run_rows`; newest first in a bucket.
    """
    groups = groupby(runs, key=lambda run: (run.partition, run.bucket))
    trees = [
        _tree(partition, bucket, list(those), planned) for (partition, bucket), those in groups
    ]
    return sorted(trees, key=lambda tree: (-tree.runs, tree.partition, tree.bucket))


def _tree(
    partition: str, bucket: int, runs: Sequence[LevelRow], planned: NextCompactions
) -> BucketTree:
    lines = []
    by_level = groupby(runs, key=lambda run: run.level)
    largest = max(sum(run.bytes for run in runs if run.level == level) for level in _levels(runs))
    for index, (level, those) in enumerate(by_level):
        lines.append(_line(index, level, list(those), largest, planned))
    return BucketTree(
        name=f"{partition} bucket {bucket}".strip(),
        partition=partition,
        bucket=bucket,
        runs=len(runs),
        rows=sum(run.rows for run in runs),
        bytes=sum(run.bytes for run in runs),
        lines=tuple(lines),
        next=planned.of_bucket((partition, bucket), len(runs)),
    )


def _levels(runs: Sequence[LevelRow]) -> set[int]:
    return {run.level for run in runs}


def _line(
    index: int, level: int, runs: Sequence[LevelRow], largest: int, planned: NextCompactions
) -> LevelLine:
    """The widest level of a bucket fills the drawing; a run is never too thin to be seen."""
    shown = runs[:RUNS_SHOWN]
    room = WIDTH - _LEFT - (_GAP + _LEAST) * len(shown)
    x, boxes = float(_LEFT), []
    for run in shown:
        width = round(_LEAST + room * run.bytes / max(1, largest), 1)
        is_next = planned.of_level((run.partition, run.bucket, level)) is not None
        boxes.append(
            RunBox(x=round(x, 1), width=width, level=level, title=_title(run), is_next=is_next)
        )
        x += width + _GAP
    return LevelLine(level=level, y=index * LINE, boxes=tuple(boxes), more=len(runs) - len(shown))


def _title(run: LevelRow) -> str:
    files = "" if run.files == 1 else f" in {run.files} files"
    return (
        f"level {run.level}: {size_text(run.bytes)}, {run.rows:,} rows{files}, "
        f"keys {run.min_key} to {run.max_key}"
    )
