"""Draws LSM trees: a line for each level, and a rectangle for each sorted run, sized by bytes.

Places and widths are shares of a line in percent.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from stream_app.app.inspect.bucket_trees import NextCompactions, TreeRow
from stream_app.app.text.listing import size_text
from stream_app.table.compact.compaction_metrics import UnfinishedCompaction

SHOWN_BUCKETS_MAX = 32
OPEN_BUCKETS_MAX = 6
"""The number of trees that are unfolded at first."""
_GAP = 0.4
_BOX_WIDTH_MIN = 0.6
SHOWN_RUNS_MAX = 60
"""The number of sorted runs of a level that are drawn; the others are counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunBox:
    """One sorted run.

    Attributes:
        is_next: whether the due compaction includes it.
        is_compacting: whether the unfinished compaction includes it.
    """

    x: float
    width: float
    level: int
    title: str
    is_next: bool
    is_compacting: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelLine:
    """The runs of one level; `more_count` of them are not drawn."""

    level: int
    boxes: tuple[RunBox, ...]
    more_count: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketTree:
    """One bucket's tree.

    Attributes:
        next_text: the compaction that is due, or why none is.
        compaction: the compaction that runs or waits for a thread; empty without one.
    """

    name: str
    partition: str
    bucket: int
    sorted_run_count: int
    row_count: int
    byte_count: int
    lines: tuple[LevelLine, ...]
    next_text: str
    compaction: str


def bucket_trees(
    runs: Sequence[TreeRow],
    next_compactions: NextCompactions,
    unfinished_compactions: Iterable[UnfinishedCompaction] = (),
) -> list[BucketTree]:
    """Return the buckets' trees: first those in compaction, then those with most sorted runs.

    Args:
        runs: the runs of `inspect.bucket_trees.sorted_run_rows`; newest first in a bucket.
    """
    compactions = {
        (compaction.partition, compaction.bucket): compaction
        for compaction in unfinished_compactions
    }
    groups = groupby(runs, key=lambda run: (run.partition, run.bucket))
    trees = [
        _tree(bucket_key, list(bucket_runs), next_compactions, compactions.get(bucket_key))
        for bucket_key, bucket_runs in groups
    ]
    return sorted(
        trees,
        key=lambda tree: (not tree.compaction, -tree.sorted_run_count, tree.partition, tree.bucket),
    )


def _tree(
    bucket_key: tuple[str, int],
    runs: Sequence[TreeRow],
    next_compactions: NextCompactions,
    compaction: UnfinishedCompaction | None,
) -> BucketTree:
    """Return the drawing of one bucket's tree: a line a level, as long as its share of bytes."""
    partition, bucket = bucket_key
    lines = []
    by_level = groupby(runs, key=lambda run: run.level)
    levels = {run.level for run in runs}
    level_bytes_max = max(sum(run.bytes for run in runs if run.level == level) for level in levels)
    for level, level_runs in by_level:
        lines.append(_line(level, list(level_runs), level_bytes_max, next_compactions, compaction))
    return BucketTree(
        name=f"{partition} bucket {bucket}".strip(),
        partition=partition,
        bucket=bucket,
        sorted_run_count=len(runs),
        row_count=sum(run.rows for run in runs),
        byte_count=sum(run.bytes for run in runs),
        lines=tuple(lines),
        next_text=next_compactions.of_bucket(bucket_key, len(runs)),
        compaction="" if compaction is None else _compaction_text(compaction),
    )


def _compaction_text(compaction: UnfinishedCompaction) -> str:
    levels_text = " ".join(map(str, compaction.levels))
    return (
        f"{'compacting' if compaction.is_running else 'waits for a thread'}: {compaction.reason}, "
        f"levels {levels_text} → {compaction.output_level}, {compaction.file_count} files, "
        f"{size_text(compaction.byte_count)}"
    )


def _line(
    level: int,
    runs: Sequence[TreeRow],
    level_bytes_max: int,
    next_compactions: NextCompactions,
    compaction: UnfinishedCompaction | None,
) -> LevelLine:
    """Return a level's boxes. The widest level fills the drawing; no run is too thin to be seen."""
    shown_runs = runs[:SHOWN_RUNS_MAX]
    remaining_width = 100 - (_GAP + _BOX_WIDTH_MIN) * len(shown_runs)
    x, boxes = 0.0, []
    compacting_count = 0 if compaction is None else compaction.levels.count(level)
    for index, run in enumerate(shown_runs):
        width = round(_BOX_WIDTH_MIN + remaining_width * run.bytes / max(1, level_bytes_max), 2)
        is_next = next_compactions.of_level((run.partition, run.bucket), level) is not None
        boxes.append(
            RunBox(
                x=round(x, 2),
                width=width,
                level=level,
                title=_run_title(run),
                is_next=is_next and compaction is None,
                # Runs added after the compaction began are newer, and come first.
                is_compacting=index >= len(runs) - compacting_count,
            )
        )
        x += width + _GAP
    return LevelLine(level=level, boxes=tuple(boxes), more_count=len(runs) - len(shown_runs))


def _run_title(run: TreeRow) -> str:
    files_text = "" if run.files == 1 else f" in {run.files} files"
    return (
        f"level {run.level}: {size_text(run.bytes)}, {run.rows:,} rows{files_text}, "
        f"keys {run.min_key} to {run.max_key}"
    )
