"""Tells how far a first load is, whether its job runs or not: by its plan and the log of epochs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from stream_app.spark.checkpoint.epoch_log import EpochLog
from stream_app.spark.checkpoint.epoch_log_writer import EpochLogWriter
from stream_app.spark.checkpoint.load_plan import LoadPlan, read_load
from stream_app.spark.job_folder import Folder


@dataclass(frozen=True, slots=True)
class LoadedRanges:
    """The key ranges of a table that are in it, and those that will be."""

    done: int
    all: int

    def __str__(self) -> str:
        return f"{self.done:,} of {self.all:,} key ranges"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadProgress:
    """A first load that lasts.

    Attributes:
        begun_ms: when it was planned, since 1970 in UTC.
        of_tables: a table's name in the job → its ranges.
    """

    begun_ms: int
    of_tables: Mapping[str, LoadedRanges]

    def line(self, rows: int, until_ms: int | None) -> str:
        """The whole load for people.

        Args:
            rows: in its tables.
            until_ms: when the newest of them came, since 1970 in UTC; None: none has come.
        """
        ranges = self.of_tables.values()
        sums = LoadedRanges(sum(one.done for one in ranges), sum(one.all for one in ranges))
        seconds = 0 if until_ms is None else (until_ms - self.begun_ms) / 1000
        rate = f", {rows / seconds:,.0f} a second so far" if seconds > 0 else ""
        return f"first load: {sums} of {len(self.of_tables):,} tables; {rows:,} rows{rate}"


def load_progress(checkpoint: Folder) -> LoadProgress | None:
    """How far the first load of a job is; None: none lasts.

    Raises:
        CheckpointError: a file of the checkpoint is damaged.
    """
    load = read_load(checkpoint)
    if load is None:
        return None
    newest = EpochLogWriter(checkpoint).newest()
    epoch = 0 if newest is None else newest
    next_epoch = epoch + EpochLog(checkpoint, goes_back=True).is_done(epoch)
    return None if next_epoch >= len(load.epochs) else progress_of(load, next_epoch)


def progress_of(load: LoadPlan, epoch: int) -> LoadProgress:
    """How far a load is when an epoch of it begins."""
    whole = Counter(part.name for part in load.parts_from(0))
    left = Counter(part.name for part in load.parts_from(epoch))
    return LoadProgress(
        begun_ms=load.begun_ms,
        of_tables={
            table: LoadedRanges(count - left[table], count) for table, count in whole.items()
        },
    )
