"""Lists each bucket's LSM tree: its sorted runs by level, and its next compaction."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby

from rich.text import Text

from stream_app.app.inspect.snapshot_files import (
    EVERYTHING,
    BucketFilter,
    file_place,
    key_text,
    live_files,
)
from stream_app.app.text.listing import size_text
from stream_app.app.text.text_table import visible_text
from stream_app.errors import UnsupportedTableError
from stream_app.model.bucket_id import BucketId
from stream_app.model.files.compact_request import CompactRequest
from stream_app.model.files.joined_files import row_total
from stream_app.model.files.manifest_entry import ManifestEntry
from stream_app.model.options.compaction_options import WRITE_ONLY
from stream_app.model.snapshot import Snapshot
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.kinds.table_kind_registry import table_kind_of
from stream_app.table.opening import require_writable

_BAR_WIDTH = 40
"""The characters of the largest run's bar. It is half of a terminal of 80 columns."""
_SHOWN_RUNS_MAX = 8
"""The runs of a bucket that are drawn: as many as make writes wait by default."""
_KEY_WIDTH = 24
"""The characters of a key that are shown, so that two keys fit a line."""
_LEVEL_STYLES = ("yellow", "cyan", "blue", "magenta", "green")
"""The colours of level 0 and up; deeper levels share the last one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DueCompaction:
    """A compaction that is due.

    Attributes:
        sorted_runs: the number of sorted runs of the bucket, or None without a primary key.
        levels: the levels of the input runs, newest first, or None without a primary key.
    """

    partition: str
    bucket: int
    sorted_runs: int | None
    reason: str
    levels: str | None
    output_level: int
    files: int
    bytes: int


def due_compactions(
    table: FileStoreTable,
    snapshot: Snapshot | None,
    buckets: Collection[BucketId] | None = None,
    *,
    is_full: bool = False,
) -> list[DueCompaction]:
    """Return the compactions that are due now, by partition and bucket.

    Args:
        buckets: the buckets to plan for, or None for all.
        is_full: whether to plan a full compaction of each bucket.
    """
    requests = table_kind_of(table.schema).plan_compactions(
        table, snapshot, buckets, is_full=is_full
    )
    compactions = [due_compaction(table, request) for request in requests]
    return sorted(compactions, key=lambda compaction: (compaction.partition, compaction.bucket))


def due_compaction(table: FileStoreTable, request: CompactRequest) -> DueCompaction:
    """Return the compaction that a request describes, with its sizes."""
    unit, has_runs = request.unit, table.kind_traits.merges_by_key
    return DueCompaction(
        partition=table.paths.partition_path(request.partition),
        bucket=request.bucket,
        sorted_runs=request.sorted_run_count if has_runs else None,
        reason=unit.reason,
        levels=" ".join(map(str, unit.levels)) if has_runs else None,
        output_level=unit.output_level,
        files=len(unit.files),
        bytes=unit.total_size,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeRow:
    """One level of one bucket that has files, or one of its sorted runs.

    Attributes:
        min_key, max_key: the range of the row's keys.
        next: the next compaction that includes the level, or None.
    """

    partition: str
    bucket: int
    level: int
    runs: int
    files: int
    rows: int
    deletes: int | None
    bytes: int
    min_key: str
    max_key: str
    next: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NextCompactions:
    """The next compaction of each bucket, or the reason why none is due.

    Attributes:
        plans: the next compactions, by partition and bucket.
        trigger: the number of sorted runs at which compaction begins.
        is_write_only: whether the table's own job leaves compaction to another job.
        obstacle: why stream_app does not compact this table, or None if it does.
    """

    plans: Mapping[tuple[str, int], DueCompaction] = field(default_factory=dict)
    trigger: int = 0
    is_write_only: bool = False
    obstacle: str | None = None

    def of_level(self, bucket_key: tuple[str, int], level: int) -> str | None:
        """Return the next compaction that includes a level as a short text, or None."""
        compaction = self.plans.get(bucket_key)
        if compaction is None or str(level) not in (compaction.levels or "").split():
            return None
        return f"{compaction.reason} → {compaction.output_level}"

    def of_bucket(self, bucket_key: tuple[str, int], sorted_run_count: int) -> str:
        """Describe the next compaction of a bucket that has this many sorted runs."""
        compaction = self.plans.get(bucket_key)
        if compaction is not None:
            levels_text = f", levels {compaction.levels}" if compaction.levels else ""
            executor_text = (
                " (by another job: the table is write-only)" if self.is_write_only else ""
            )
            return (
                f"next: {compaction.reason}{levels_text} → {compaction.output_level}, "
                f"{_count(compaction.files, 'file')}, {size_text(compaction.bytes)}{executor_text}"
            )
        return self.obstacle or f"nothing is due: {why_not_due(sorted_run_count, self.trigger)}"


def why_not_due(sorted_run_count: int, trigger: int) -> str:
    """Return the reason why no rule of universal compaction picks any runs."""
    if sorted_run_count < trigger:
        return f"{_count(sorted_run_count, 'sorted run')}, the trigger is {trigger}"
    return (
        f"{_count(sorted_run_count, 'sorted run')}, as many as the trigger; it takes one more, or "
        "a newest run that is as large as the next"
    )


def next_compactions(table: FileStoreTable, snapshot: Snapshot | None) -> NextCompactions:
    """Return the compactions that a job for the table would start first."""
    try:
        writable_table = require_writable(table).with_options({WRITE_ONLY.key: "false"})
    except UnsupportedTableError as error:
        return NextCompactions(obstacle=f"not compacted by stream_app: {error.problem}")
    return NextCompactions(
        plans={
            (compaction.partition, compaction.bucket): compaction
            for compaction in due_compactions(writable_table, snapshot)
        },
        trigger=table.options.compaction_trigger,
        is_write_only=table.options[WRITE_ONLY],
    )


def level_rows(
    table: FileStoreTable,
    snapshot: Snapshot | None,
    bucket_filter: BucketFilter = EVERYTHING,
    next_compactions: NextCompactions | None = None,
) -> list[TreeRow]:
    """Return the levels of all buckets of a snapshot, from level 0 up."""
    next_compactions = next_compactions or NextCompactions()
    groups = groupby(live_files(table, snapshot, bucket_filter), key=partial(file_place, table))
    return [
        _level_row(table, list(entries), level_key, next_compactions)
        for level_key, entries in groups
    ]


def sorted_run_rows(
    table: FileStoreTable, snapshot: Snapshot | None, bucket_filter: BucketFilter = EVERYTHING
) -> list[TreeRow]:
    """Return a row for each sorted run, newest first, with the columns of `level_rows`."""

    def run_of(entry: ManifestEntry) -> tuple[str, int, int, str]:
        return *file_place(table, entry), "" if entry.file.level else entry.file.file_name

    groups = groupby(live_files(table, snapshot, bucket_filter), key=run_of)
    return [
        _level_row(table, list(entries), run_key[:3], NextCompactions())
        for run_key, entries in groups
    ]


def levels_picture(runs: Sequence[TreeRow], next_compactions: NextCompactions) -> Text:
    """Draw a bar for each row of `sorted_run_rows`, with a length relative to the largest run."""
    picture = Text(no_wrap=True, overflow="ellipsis")
    largest_size = max((run.bytes for run in runs), default=1)
    for (partition, bucket), members in groupby(runs, key=lambda run: (run.partition, run.bucket)):
        tree = list(members)
        tree_size_text = size_text(sum(run.bytes for run in tree))
        picture.append(f"{partition} bucket {bucket}".lstrip(), style="bold")
        picture.append(f": {_count(len(tree), 'sorted run')}, {tree_size_text}\n")
        shown_runs = tree if len(tree) <= _SHOWN_RUNS_MAX + 1 else tree[:_SHOWN_RUNS_MAX]
        for run in shown_runs:
            style = _LEVEL_STYLES[min(run.level, len(_LEVEL_STYLES) - 1)]
            bar = "█" * max(1, round(run.bytes / largest_size * _BAR_WIDTH))
            picture.append(f"  L{run.level} ").append(bar, style=style)
            picture.append(f" {size_text(run.bytes)}, {_count(run.rows, 'row')}")
            picture.append(f" in {run.files} files" if run.files > 1 else "")
            picture.append(f", {_keys_text(run)}\n")
        if len(shown_runs) < len(tree):
            picture.append(f"  … and {len(tree) - len(shown_runs)} more\n")
        picture.append(
            f"  {next_compactions.of_bucket((partition, bucket), len(tree))}\n", style="dim"
        )
    picture.rstrip()
    return picture


def _keys_text(run: TreeRow) -> str:
    min_key, max_key = _short_key(run.min_key), _short_key(run.max_key)
    return f"key {min_key}" if run.min_key == run.max_key else f"keys {min_key} to {max_key}"


def _short_key(key: str) -> str:
    text = visible_text(key)
    return text if len(text) <= _KEY_WIDTH else text[: _KEY_WIDTH - 1] + "…"


def _count(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _level_row(
    table: FileStoreTable,
    entries: Sequence[ManifestEntry],
    level_key: tuple[str, int, int],
    next_compactions: NextCompactions,
) -> TreeRow:
    """Return the row of one level, or of one sorted run, with the totals of its files."""
    partition, bucket, level = level_key
    files = [entry.file for entry in entries]
    delete_counts = [file.delete_row_count for file in files if file.delete_row_count is not None]
    key_type = table.schema.key_type
    return TreeRow(
        partition=partition,
        bucket=bucket,
        level=level,
        runs=len(files) if level == 0 else 1,
        files=len(files),
        rows=row_total(files, joins_files=table.schema.joins_files),
        deletes=sum(delete_counts) if len(delete_counts) == len(files) else None,
        bytes=sum(file.file_size for file in files),
        min_key=key_text(min((file.min_key for file in files), key=table.key_of), key_type),
        max_key=key_text(max((file.max_key for file in files), key=table.key_of), key_type),
        next=next_compactions.of_level((partition, bucket), level),
    )
