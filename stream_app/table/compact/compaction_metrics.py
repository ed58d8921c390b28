"""Counts a table's begun and completed compactions in a job, and their cost.

`BucketCoordinator.metrics` gives the current work, and `CompactionTally` sums the committed work.
Counts begin with the process.

Source: Paimon `operation/metrics/CompactionMetrics.java`, whose names are in the docstrings.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from concurrent.futures import Future
from dataclasses import asdict, dataclass, replace
from typing import NamedTuple

from stream_app.mergetree.levels import Levels
from stream_app.model.files.bucket_change import BucketChange
from stream_app.model.files.compact_request import CompactUnit
from stream_app.table.compact.compaction_report import CompactionReport


class TimedCompaction(NamedTuple):
    """A begun compaction; `start_s` is the time of its request by the steady clock."""

    future: Future[BucketChange]
    start_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class UnfinishedCompaction:
    """A compaction that waits for a thread or runs.

    Attributes:
        partition: the partition's folder, such as ``dt=2026-01-31``; empty without partitions.
        is_running: whether a thread runs it.
        levels: the levels of the unit's files, newest first.
        byte_count: the bytes of the files that it reads.
    """

    partition: str
    bucket: int
    is_running: bool
    reason: str
    levels: tuple[int, ...]
    output_level: int
    file_count: int
    byte_count: int


def unfinished_compaction(
    partition: str, bucket: int, unit: CompactUnit, future: Future[BucketChange]
) -> UnfinishedCompaction:
    """Describe a compaction that has not finished."""
    return UnfinishedCompaction(
        partition=partition,
        bucket=bucket,
        is_running=future.running(),
        reason=unit.reason,
        levels=unit.levels,
        output_level=unit.output_level,
        file_count=len(unit.files),
        byte_count=unit.total_size,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionMetrics:
    """A job's figures about compactions. Those without "currently" count since the process began.

    Attributes:
        buckets: the buckets that the job currently knows, because it has written to them.
        level0_files_max: the maximum number of level-0 files that one of these buckets currently
            has (`maxLevel0FileCount`).
        level0_files: the level-0 files that these buckets currently have.
        sorted_runs_max, sorted_runs: the maximum number of sorted runs that one bucket currently
            has, and the sum over these buckets.
        waiting_rows: rows of these buckets that readers currently miss until a compaction
            (`planning.compact.waiting_rows`).
        file_count, byte_count: the number and bytes of the table's current data files; None if
            unknown.
        queued_count: compactions that currently wait for a thread (`compactionQueuedCount`).
        running_count: compactions that currently run.
        finished_count: compactions that currently wait for their commit.
        oldest_queued_age_s, oldest_running_age_s: the age of the oldest queued and running
            compaction in seconds; 0 without one.
        begun_count: compactions that have begun (`compactionTotalCount`).
        completed_count: compactions that were committed (`compactionCompletedCount`).
        failed_count: attempts that ended with an error and are retried.
        dropped_count: results that were dropped because another writer changed the bucket.
        bytes_in, bytes_out: bytes that completed compactions read and wrote.
        run_s: the run time of completed compactions in seconds.
        flushed_byte_count: bytes of level-0 data files that the job has committed.
        waited_s: seconds that epochs waited because a bucket had too many sorted runs.
    """

    buckets: int = 0
    level0_files_max: int = 0
    level0_files: int = 0
    sorted_runs_max: int = 0
    sorted_runs: int = 0
    waiting_rows: int = 0
    file_count: int | None = None
    byte_count: int | None = None
    queued_count: int = 0
    running_count: int = 0
    finished_count: int = 0
    oldest_queued_age_s: float = 0.0
    oldest_running_age_s: float = 0.0
    begun_count: int = 0
    completed_count: int = 0
    failed_count: int = 0
    dropped_count: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    run_s: float = 0.0
    flushed_byte_count: int = 0
    waited_s: float = 0.0

    @property
    def unfinished_count(self) -> int:
        """The number of compactions that run or wait for a thread."""
        return self.queued_count + self.running_count

    @property
    def write_amplification(self) -> float | None:
        """Bytes that flushes and compactions wrote for each flushed byte; None before a flush."""
        if not self.flushed_byte_count:
            return None
        return (self.flushed_byte_count + self.bytes_out) / self.flushed_byte_count


def current_metrics(
    levels: Collection[Levels],
    compactions: Collection[TimedCompaction],
    *,
    now_s: float,
    failed_count: int,
    dropped_count: int,
    waiting_row_count: int = 0,
) -> CompactionMetrics:
    """Return the current figures of some buckets. Compactions may run on during the call.

    Args:
        now_s: seconds of the steady clock.
    """
    unfinished_compactions = [
        compaction for compaction in compactions if not compaction.future.done()
    ]
    running_start_s = [
        compaction.start_s for compaction in unfinished_compactions if compaction.future.running()
    ]
    queued_start_s = [
        compaction.start_s
        for compaction in unfinished_compactions
        if not compaction.future.running()
    ]
    level0_file_counts = [bucket_levels.level0_file_count for bucket_levels in levels]
    sorted_run_counts = [bucket_levels.sorted_run_count for bucket_levels in levels]
    return CompactionMetrics(
        buckets=len(levels),
        level0_files_max=max(level0_file_counts, default=0),
        level0_files=sum(level0_file_counts),
        sorted_runs_max=max(sorted_run_counts, default=0),
        sorted_runs=sum(sorted_run_counts),
        waiting_rows=waiting_row_count,
        queued_count=len(queued_start_s),
        running_count=len(running_start_s),
        finished_count=len(compactions) - len(unfinished_compactions),
        oldest_queued_age_s=now_s - min(queued_start_s, default=now_s),
        oldest_running_age_s=now_s - min(running_start_s, default=now_s),
        failed_count=failed_count,
        dropped_count=dropped_count,
    )


@dataclass(slots=True)
class CompactionTally:
    """The sums of a table's committed compactions.

    Attributes:
        flushed_byte_count: the sizes of the files that flushes wrote.
        completed_count: the number of compactions.
        waited_s: the seconds that writes waited for compactions.
    """

    flushed_byte_count: int = 0
    completed_count: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    run_s: float = 0.0
    waited_s: float = 0.0

    def add_wait(self, seconds: float) -> None:
        """Add the seconds that a write waited for compactions."""
        self.waited_s += seconds

    def add_flushes(self, changes: Iterable[BucketChange]) -> None:
        """Count an epoch's committed files."""
        for change in changes:
            self.flushed_byte_count += sum(file.file_size for file in change.added_files)

    def add_compactions(self, reports: Collection[CompactionReport]) -> None:
        """Count committed compactions."""
        self.completed_count += len(reports)
        self.bytes_in += sum(report.bytes_in for report in reports)
        self.bytes_out += sum(report.bytes_out for report in reports)
        self.run_s += sum(report.seconds for report in reports)

    def metrics(self, bucket_metrics: CompactionMetrics) -> CompactionMetrics:
        """Return the sums together with the begun compactions."""
        lost_count = bucket_metrics.failed_count + bucket_metrics.dropped_count
        live_count = bucket_metrics.unfinished_count + bucket_metrics.finished_count
        return replace(
            bucket_metrics,
            # Exactly one of these counts includes each begun compaction.
            begun_count=self.completed_count + lost_count + live_count,
            **asdict(self),
        )
