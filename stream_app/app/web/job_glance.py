"""Summarizes a whole job in a few numbers, and decides which tables are behind."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from stream_app.app.inspect.table_status import JobTableState, TableStatus
from stream_app.app.observe.events.epoch_history import PastEpoch, TableActivity
from stream_app.app.text.listing import age_text
from stream_app.checkpoint.job_state import JobWarning

_WINDOW_S = 300
"""The seconds over which throughput is measured. The kept epochs of a table may cover fewer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobGlance:
    """The facts about a whole job above the list of tables.

    Attributes:
        is_here: whether the job runs in this process.
        max_staleness_s: seconds for which a table may be behind.
        changed_s: seconds since the newest commit of any table, or None without a commit.
        ends_problem: why the broker does not report the topics' ends, or None if it does.
        messages_per_s: the recent messages per second of all tables; None if the job runs
            elsewhere.
        running_count, queued_count: the compactions of all tables; None if the job runs elsewhere.
        unresolved_records: table → its unresolved records, if any; '' means no table. None if they
            are not counted.
        warnings: the warnings of the job.
        decoder: the decoder in use; empty if the format has only one.
    """

    is_here: bool = False
    max_staleness_s: int = 300
    changed_s: int | None = None
    ends_problem: str | None = None
    messages_per_s: float | None = None
    running_count: int | None = None
    queued_count: int | None = None
    unresolved_records: Mapping[str, int] | None = field(default_factory=dict)
    warnings: Sequence[JobWarning] = ()
    decoder: str = ""

    def is_late(self, tables: Iterable[TableStatus]) -> bool:
        """Return whether the job commits nothing although messages wait for sound tables."""
        is_old = self.changed_s is not None and self.changed_s > self.max_staleness_s
        return is_old and any(
            status.lag
            for status in tables
            if status.state in (JobTableState.READY, JobTableState.BEHIND)
        )

    def with_lateness(self, tables: Sequence[TableStatus]) -> list[TableStatus]:
        """Return the tables; the state of a ready one that is too far behind becomes ``behind``.

        While the broker does not respond, the lag of a ready table is unknown.
        """
        is_late = self.is_late(tables)
        return [self._with_lateness(status, is_late=is_late) for status in tables]

    def _with_lateness(self, status: TableStatus, *, is_late: bool) -> TableStatus:
        if status.state is JobTableState.READY and self.ends_problem is not None:
            return replace(status, fresh_s=None)
        is_old = status.fresh_s is not None and status.fresh_s > self.max_staleness_s
        if status.state is not JobTableState.READY or status.lag is None or not is_old:
            return status
        reason = f"behind for longer than stream.max-staleness, {age_text(self.max_staleness_s)}"
        if is_late:
            hint = "look at its log" if self.is_here else "look whether it runs"
            reason = f"{reason}; the job commits nothing: {hint}"
        return replace(status, state=JobTableState.BEHIND, reason=reason)


def messages_per_s(tables: Iterable[Sequence[PastEpoch]], now_ms: int) -> float:
    """Return the throughput of the last minutes.

    Args:
        tables: the epochs of each table, oldest first.
    """
    start_ms = now_ms - 1000 * _WINDOW_S
    rate = 0.0
    for epochs in tables:
        if epochs:
            first_time_ms = epochs[0].time_ms - round(1000 * epochs[0].durations.total_s)
            seconds = max(1.0, (now_ms - max(start_ms, first_time_ms)) / 1000)
            rate += (
                sum(epoch.message_count for epoch in epochs if epoch.time_ms > start_ms) / seconds
            )
    return rate


def compactions_of_all(activities: Iterable[TableActivity | None]) -> tuple[int, int]:
    """Return the numbers of running and of queued compactions."""
    metrics = [activity.metrics for activity in activities if activity is not None]
    running_count = sum(table.running_count for table in metrics)
    return running_count, sum(table.queued_count for table in metrics)
