"""Reports the progress of a first load, from its plan and the log of epochs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from stream_app.checkpoint.epoch_log import EpochLog
from stream_app.checkpoint.epoch_log_writer import EpochLogWriter
from stream_app.checkpoint.job_folder import JobFolder
from stream_app.checkpoint.load_plan import LoadPlan, read_load_plan


@dataclass(frozen=True, slots=True)
class LoadedRanges:
    """The numbers of a table's loaded key ranges, and of all its key ranges."""

    loaded_count: int
    total_count: int

    def __str__(self) -> str:
        return f"{self.loaded_count:,} of {self.total_count:,} key ranges"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadProgress:
    """A first load that has not ended.

    Attributes:
        begun_time_ms: when the load was planned, in ms since 1970, in UTC.
        of_tables: table's name in the job → its key ranges.
    """

    begun_time_ms: int
    of_tables: Mapping[str, LoadedRanges]

    def line(self, row_count: int, newest_commit_time_ms: int | None) -> str:
        """Describe the whole load in one line.

        Args:
            row_count: the number of rows in the tables.
            newest_commit_time_ms: the time of the tables' newest commit, in ms since 1970, or None.
        """
        tables = self.of_tables.values()
        ranges = LoadedRanges(
            sum(table.loaded_count for table in tables), sum(table.total_count for table in tables)
        )
        seconds = (
            0
            if newest_commit_time_ms is None
            else (newest_commit_time_ms - self.begun_time_ms) / 1000
        )
        rate_text = f", {row_count / seconds:,.0f} a second so far" if seconds > 0 else ""
        return (
            f"first load: {ranges} of {len(self.of_tables):,} tables; {row_count:,} rows{rate_text}"
        )


def first_load_progress(checkpoint: JobFolder) -> LoadProgress | None:
    """Return the progress of a job's first load, or None without a load or after its end.

    Raises:
        CheckpointError: a file of the checkpoint is damaged.
    """
    plan = read_load_plan(checkpoint)
    if plan is None:
        return None
    newest_epoch = EpochLogWriter(checkpoint).newest_epoch()
    next_epoch = 0 if newest_epoch is None else newest_epoch
    if EpochLog(checkpoint, can_reread=True).is_done(next_epoch):
        next_epoch += 1
    return None if next_epoch >= len(plan.epochs) else progress_of(plan, next_epoch)


def progress_of(plan: LoadPlan, epoch: int) -> LoadProgress:
    """Return the progress of a load at the beginning of one of its epochs."""
    range_counts = Counter(part.name for part in plan.parts_from(0))
    remaining_counts = Counter(part.name for part in plan.parts_from(epoch))
    return LoadProgress(
        begun_time_ms=plan.begun_time_ms,
        of_tables={
            table: LoadedRanges(count - remaining_counts[table], count)
            for table, count in range_counts.items()
        },
    )
