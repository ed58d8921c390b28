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

    done: int
    all: int

    def __str__(self) -> str:
        return f"{self.done:,} of {self.all:,} key ranges"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadProgress:
    """A first load that has not ended.

    Attributes:
        begun_ms: when the load was planned, in ms since 1970, in UTC.
        of_tables: table's name in the job → its key ranges.
    """

    begun_ms: int
    of_tables: Mapping[str, LoadedRanges]

    def line(self, rows: int, until_ms: int | None) -> str:
        """Describe the whole load in one line.

        Args:
            rows: the number of rows in the tables.
            until_ms: the time of the tables' newest commit, in ms since 1970, or None.
        """
        counts = self.of_tables.values()
        sums = LoadedRanges(sum(count.done for count in counts), sum(count.all for count in counts))
        seconds = 0 if until_ms is None else (until_ms - self.begun_ms) / 1000
        rate = f", {rows / seconds:,.0f} a second so far" if seconds > 0 else ""
        return f"first load: {sums} of {len(self.of_tables):,} tables; {rows:,} rows{rate}"


def load_progress(checkpoint: JobFolder) -> LoadProgress | None:
    """Return the progress of a job's first load, or None if there is none or it has ended.

    Raises:
        CheckpointError: a file of the checkpoint is damaged.
    """
    load = read_load_plan(checkpoint)
    if load is None:
        return None
    newest = EpochLogWriter(checkpoint).newest_epoch()
    next_epoch = 0 if newest is None else newest
    if EpochLog(checkpoint, can_reread=True).is_done(next_epoch):
        next_epoch += 1
    return None if next_epoch >= len(load.epochs) else progress_of(load, next_epoch)


def progress_of(load: LoadPlan, epoch: int) -> LoadProgress:
    """Return the progress of a load at the beginning of one of its epochs."""
    range_counts = Counter(part.name for part in load.parts_from(0))
    remaining_counts = Counter(part.name for part in load.parts_from(epoch))
    return LoadProgress(
        begun_ms=load.begun_ms,
        of_tables={
            table: LoadedRanges(count - remaining_counts[table], count)
            for table, count in range_counts.items()
        },
    )
