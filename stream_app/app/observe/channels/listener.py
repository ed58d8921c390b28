"""Defines the port to receivers of a job's events, which `event_log` calls."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from stream_app.checkpoint.held_table import HeldTable
from stream_app.checkpoint.job_state import JobWarning
from stream_app.epochs.rounds.table_listener import EpochReport
from stream_app.epochs.stream.running_stream import SourceProgress
from stream_app.quarantine.quarantine_writer import QuarantineReport
from stream_app.table.job.table_job import IdleReport, TableJob

_LOG = logging.getLogger(__name__)
Observer = TypeVar("Observer")


class JobListener:
    """A receiver of a job's events that ignores them. No method of a subclass may block.

    `table` is ``database.table``, as in metrics' labels, or the job's name for messages without a
    table.
    """

    def on_table(self, table: str, table_job: TableJob) -> None:
        """Receive a table of the job, once and before its first epoch of this run."""

    def on_epoch(self, table: str, report: EpochReport) -> None:
        """Receive the report of an epoch, after its commit."""

    def on_idle_commit(self, table: str, report: IdleReport) -> None:
        """Receive the report of a commit of compactions between epochs."""

    def on_quarantined_messages(self, table: str, quarantine_report: QuarantineReport) -> None:
        """Receive quarantined messages without a table. Those of a table come with its epoch."""

    def on_progress(self, progress: SourceProgress) -> None:
        """Receive the progress after an epoch, which each table has unless it is held back."""

    def on_held_table(self, table: str, held_table: HeldTable | None) -> None:
        """Receive a table that is held back, or that has all epochs again (None)."""

    def on_heartbeat(self) -> None:
        """Receive a sign that the job has checked its stream, five times a second."""

    def problem(self) -> JobWarning | None:
        """Return what prevented the listener's last attempt, or None if it succeeded."""
        return None

    def log_problem(self) -> None:
        """Log the problem of an ending listener, because the job's state gets no more warnings."""
        if (problem := self.problem()) is not None:
            _LOG.warning("%s", problem)


@dataclass(slots=True)
class Listeners:
    """The listeners of a job. One that fails stops neither the job nor the other listeners."""

    listeners: Sequence[JobListener] = ()
    _warned_errors: set[tuple[type, type]] = field(init=False, default_factory=set)

    def call(self, call: Callable[[JobListener], None]) -> None:
        """Call each listener, and warn once of each kind of error."""
        for listener in self.listeners:
            self.guard(listener, call)

    def problems(self) -> list[JobWarning]:
        """Return the current problems of the listeners."""
        problems = (listener.problem() for listener in self.listeners)
        return [problem for problem in problems if problem is not None]

    def guard(self, observer: Observer, call: Callable[[Observer], None]) -> None:
        """Call an observer and catch its error, because the table may have the epoch already."""
        try:
            call(observer)
        except Exception as error:
            error_key = (type(observer), type(error))
            if error_key not in self._warned_errors:
                self._warned_errors.add(error_key)
                _LOG.warning(
                    "an observer of the job has failed, and the job continues: this is a bug, "
                    "please report it",
                    exc_info=True,
                )
