"""The LSM tree of each bucket: sorted runs by level, as rows and as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from rich.text import Text

from stream_app.app.inspect_files import FileRow, file_rows, place
from stream_app.app.inspect_listing import size_text
from stream_app.model.snapshot import Snapshot
from stream_app.table.file_store_table import FileStoreTable

_BAR = 40
_RUNS_SHOWN = 8
_LEVEL_STYLES = ("yellow", "cyan", "blue", "magenta", "green")


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelRow:
    """One level of one bucket that has files; in level 0 each file is a sorted run."""

    partition: str
    bucket: int
    level: int
    runs: int
    files: int
    rows: int
    deletes: int | None
    bytes: int


def level_rows(table: FileStoreTable, snapshot: Snapshot | None) -> list[LevelRow]:
    """The levels of all buckets of a snapshot, from level 0 up."""
    files = file_rows(table, snapshot)
    return [_sum(list(members), at) for at, members in groupby(files, key=place)]


def run_rows(table: FileStoreTable, snapshot: Snapshot | None) -> list[LevelRow]:
    """As `level_rows`, but each sorted run is a row of its own; newest first."""

    def run_of(row: FileRow) -> tuple[str, int, int, str]:
        return *place(row), row.file if row.level == 0 else ""

    files = file_rows(table, snapshot)
    return [_sum(list(members), at[:3]) for at, members in groupby(files, key=run_of)]


def levels_picture(runs: Sequence[LevelRow]) -> Text:
    """A bar for each sorted run, as long as its share of the largest; rows from `run_rows`."""
    picture = Text(no_wrap=True, overflow="ellipsis")
    largest = max((run.bytes for run in runs), default=1)
    for (partition, bucket), members in groupby(runs, key=lambda run: (run.partition, run.bucket)):
        tree = list(members)
        name = f"{partition} " if partition else ""
        size = size_text(sum(run.bytes for run in tree))
        picture.append(f"{name}bucket {bucket}", style="bold")
        picture.append(f": {_count(len(tree), 'sorted run')}, {size}\n")
        shown = tree if len(tree) <= _RUNS_SHOWN + 1 else tree[:_RUNS_SHOWN]
        for run in shown:
            style = _LEVEL_STYLES[min(run.level, len(_LEVEL_STYLES) - 1)]
            bar = "█" * max(1, round(run.bytes / largest * _BAR))
            picture.append(f"  L{run.level} ").append(bar, style=style)
            picture.append(f" {size_text(run.bytes)}, {_count(run.rows, 'row')}")
            picture.append(f" in {run.files} files\n" if run.files > 1 else "\n")
        if len(shown) < len(tree):
            picture.append(f"  … and {len(tree) - len(shown)} more\n")
    picture.rstrip()
    return picture


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _sum(files: Sequence[FileRow], at: tuple[str, int, int]) -> LevelRow:
    partition, bucket, level = at
    deletes = [file.deletes for file in files]
    known = [count for count in deletes if count is not None]
    return LevelRow(
        partition=partition,
        bucket=bucket,
        level=level,
        runs=len(files) if level == 0 else 1,
        files=len(files),
        rows=sum(file.rows for file in files),
        deletes=sum(known) if len(known) == len(files) else None,
        bytes=sum(file.bytes for file in files),
    )
