"""Keeps in memory the newest epochs and the current compactions of each table of a running job."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from stream_app.cdc.change_batch import Violation
from stream_app.epochs.rounds.table_listener import EpochReport
from stream_app.epochs.stages.epoch_seconds import EpochSeconds
from stream_app.model.snapshot import SOURCE_TIME_PROPERTY
from stream_app.table.compact.compaction_metrics import CompactionMetrics, UnfinishedCompaction

HISTORY_EPOCHS_MAX = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class PastEpoch:
    """One epoch of one table.

    Attributes:
        time_ms: the time of the commit, in ms since 1970, in UTC.
        ran_in_driver: whether the driver itself ran it, without tasks of Spark.
    """

    epoch: int
    time_ms: int
    message_count: int
    byte_count: int
    ran_in_driver: bool
    durations: EpochSeconds


@dataclass(frozen=True, slots=True, kw_only=True)
class TableActivity:
    """The compactions of a table at this moment, and its violations of expectations.

    `metrics` and `violations` count from the start of the job.
    """

    metrics: CompactionMetrics
    unfinished_compactions: tuple[UnfinishedCompaction, ...] = ()
    violations: Mapping[Violation, int] = field(default_factory=dict)


class ShowsCompactions(Protocol):
    """A table's job, limited to methods that any thread may call."""

    def compaction_metrics(self) -> CompactionMetrics | None:
        """Return metrics of the compactions, or None before the first epoch."""
        ...

    def unfinished_compactions(self) -> Sequence[UnfinishedCompaction]:
        """Return the compactions that wait for a thread or run."""
        ...


@dataclass(slots=True)
class EpochHistory:
    """The newest epochs by table name; in a job of one table the name is ''.

    Attributes:
        source_time_ms: the time of the newest message that any table has, in ms since 1970, or None
            if unknown.
    """

    source_time_ms: int | None = None
    _epochs: dict[str, deque[PastEpoch]] = field(init=False, default_factory=dict)
    _jobs: dict[str, ShowsCompactions] = field(init=False, default_factory=dict)
    _violations: dict[str, Counter[Violation]] = field(init=False, default_factory=dict)

    def watch(self, table: str, table_job: ShowsCompactions) -> None:
        """Read the compactions of a table from the table's job from now on."""
        self._jobs[table] = table_job

    def activity_of(self, table: str) -> TableActivity | None:
        """Return the compactions of a table, or None if its job has not begun."""
        job = self._jobs.get(table)
        metrics = None if job is None else job.compaction_metrics()
        if job is None or metrics is None:
            return None
        return TableActivity(
            metrics=metrics,
            unfinished_compactions=tuple(job.unfinished_compactions()),
            violations=dict(self._violations.get(table, {})),
        )

    def add(self, table: str, report: EpochReport, time_ms: int) -> None:
        """Add a committed epoch."""
        for snapshot in report.snapshots:
            source_time = (snapshot.properties or {}).get(SOURCE_TIME_PROPERTY, "")
            if source_time.isdecimal():
                self.source_time_ms = max(self.source_time_ms or 0, int(source_time))
        violations = self._violations.setdefault(table, Counter())
        for violation, sighting in report.counts.violations.items():
            violations[violation] += sighting.record_count
        epochs = self._epochs.setdefault(table, deque(maxlen=HISTORY_EPOCHS_MAX))
        epochs.append(
            PastEpoch(
                epoch=report.epoch,
                time_ms=time_ms,
                message_count=report.counts.message_count,
                byte_count=report.byte_count,
                ran_in_driver=report.ran_in_driver,
                durations=report.durations,
            )
        )

    def epochs(self, table: str) -> Sequence[PastEpoch]:
        """Return the epochs of a table, oldest first. Any thread may call it."""
        return tuple(self._epochs.get(table, ()))
