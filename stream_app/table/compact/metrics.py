"""Numbers about a job's compactions: what there is to do, what was done, and what it cost.

`CompactCoordinator.load` tells the present, `CompactionTally` adds up what was committed, and
`CompactionMetrics` is both, for logs, events and monitoring. Counts begin with the process.

Source: Paimon `operation/metrics/CompactionMetrics.java`, whose names are in the docstrings.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable
from concurrent.futures import Future
from dataclasses import dataclass, field

from stream_app.mergetree.levels import Levels
from stream_app.model.bucket_change import BucketChange
from stream_app.table.compact.report import CompactionReport

COMPACTION_TIMES_MAX = 100
"""Compactions over which the average time is taken, as in Paimon."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionLoad:
    """The buckets that a job knows and their compactions.

    Attributes:
        level0_files, sorted_runs: their numbers, bucket by bucket.
        queued: compactions that wait for a thread; `running` are worked at, `finished` wait to be
            committed.
        failed, dropped: that came to nothing so far: by an error, or because another writer had
            changed the bucket.
    """

    level0_files: tuple[int, ...] = ()
    sorted_runs: tuple[int, ...] = ()
    queued: int = 0
    running: int = 0
    finished: int = 0
    failed: int = 0
    dropped: int = 0

    @property
    def unfinished(self) -> int:
        """Compactions that wait for a thread or are worked at."""
        return self.queued + self.running


def compaction_load(
    levels: Collection[Levels],
    futures: Collection[Future[BucketChange]],
    *,
    failed: int,
    dropped: int,
) -> CompactionLoad:
    """The load of some buckets; while it looks, compactions may go on.

    Args:
        futures: of compactions that are not committed.
    """
    unfinished = [future for future in futures if not future.done()]
    running = sum(future.running() for future in unfinished)
    return CompactionLoad(
        level0_files=tuple(each.level0_file_count for each in levels),
        sorted_runs=tuple(each.number_of_sorted_runs() for each in levels),
        queued=len(unfinished) - running,
        running=running,
        finished=len(futures) - len(unfinished),
        failed=failed,
        dropped=dropped,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionMetrics:
    """The numbers; those without "currently" count from the beginning of the process.

    Attributes:
        buckets: that the job knows currently: those that it has touched.
        level0_files_max, level0_files_avg: of those buckets, currently (`maxLevel0FileCount`,
            `avgLevel0FileCount`).
        sorted_runs_max: of those buckets, currently.
        queued: compactions that wait for a thread currently (`compactionQueuedCount`).
        running: compactions that are worked at currently.
        begun: all that were asked for (`compactionTotalCount`).
        completed: that were committed (`compactionCompletedCount`).
        failed: attempts that ended with an error; they are tried again.
        dropped: whose result was thrown away, because another writer had changed the bucket.
        bytes_in, bytes_out: that completed ones have read and written.
        seconds: that completed ones have worked; `seconds_avg` is the mean of the last ones
            (`avgCompactionTime`).
        flushed_bytes: data files of level 0 that the job has committed.
        waited_s: that epochs waited because a bucket had too many sorted runs.
    """

    buckets: int = 0
    level0_files_max: int = 0
    level0_files_avg: float = 0.0
    sorted_runs_max: int = 0
    queued: int = 0
    running: int = 0
    begun: int = 0
    completed: int = 0
    failed: int = 0
    dropped: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    seconds: float = 0.0
    seconds_avg: float = 0.0
    flushed_bytes: int = 0
    waited_s: float = 0.0

    @property
    def write_amplification(self) -> float | None:
        """Bytes written by flushes and compactions for each flushed byte; None: no flush yet."""
        if not self.flushed_bytes:
            return None
        return (self.flushed_bytes + self.bytes_out) / self.flushed_bytes


@dataclass(slots=True)
class CompactionTally:
    """Adds up what a job has committed; seconds that it has waited may be added directly."""

    flushed_bytes: int = 0
    completed: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    seconds: float = 0.0
    waited_s: float = 0.0
    _last: deque[float] = field(default_factory=lambda: deque(maxlen=COMPACTION_TIMES_MAX))

    def add_flushes(self, changes: Iterable[BucketChange]) -> None:
        """The files of an epoch are in the table."""
        for change in changes:
            self.flushed_bytes += sum(file.file_size for file in change.added)

    def add_compactions(self, reports: Collection[CompactionReport]) -> None:
        """Compactions are in the table."""
        self.completed += len(reports)
        self.bytes_in += sum(report.bytes_in for report in reports)
        self.bytes_out += sum(report.bytes_out for report in reports)
        self.seconds += sum(report.seconds for report in reports)
        self._last.extend(report.seconds for report in reports)

    def metrics(self, load: CompactionLoad) -> CompactionMetrics:
        """What was added up, beside what there is to do."""
        last = tuple(self._last)
        files = load.level0_files
        ended = self.completed + load.failed + load.dropped
        return CompactionMetrics(
            buckets=len(files),
            level0_files_max=max(files, default=0),
            level0_files_avg=sum(files) / len(files) if files else 0.0,
            sorted_runs_max=max(load.sorted_runs, default=0),
            queued=load.queued,
            running=load.running,
            # Each one that was begun is somewhere.
            begun=ended + load.queued + load.running + load.finished,
            completed=self.completed,
            failed=load.failed,
            dropped=load.dropped,
            bytes_in=self.bytes_in,
            bytes_out=self.bytes_out,
            seconds=self.seconds,
            seconds_avg=sum(last) / len(last) if last else 0.0,
            flushed_bytes=self.flushed_bytes,
            waited_s=self.waited_s,
        )
