"""Warns of what ends with its cause: failing services, too few cores, rows that are too old.

`ingest_job` calls it between epochs. The job's state has the warnings, which listings and pages
show.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from stream_app.checkpoint.job_state import JobStateFile, JobWarning
from stream_app.epochs.stream.epoch_pace import Pace
from stream_app.table.compact.core_budget import CoreBudget

_FRESHNESS_FIX = (
    "raise stream.freshness; or see which part of an epoch takes long (stream-app top), and give "
    "the job more cores"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransientWarnings:
    """The warnings of a running job that end with their cause.

    Attributes:
        state_file: the job's state.
        find_service_problems: returns a warning for each service that fails.
        budget: the cores that compactions need, and those that they have.
        pace: decides when epochs begin.
    """

    state_file: JobStateFile
    find_service_problems: Callable[[], Sequence[JobWarning]]
    budget: CoreBudget
    pace: Pace

    def write(self) -> None:
        """Write the warnings into the job's state, in place of those of the last call."""
        self.state_file.write_transient_warnings("services", self.find_service_problems())
        self.state_file.write_transient_warnings("cores", self._core_warnings())
        self.state_file.write_transient_warnings("freshness", self._freshness_warnings())

    def _core_warnings(self) -> Sequence[JobWarning]:
        """Return a warning while compactions need more cores than they have."""
        advice = self.budget.advice
        if advice is None or advice.suffices:
            return ()
        return (JobWarning(problem=advice.need, fix=advice.fix),)

    def _freshness_warnings(self) -> Sequence[JobWarning]:
        """Return a warning while rows are older than ``stream.freshness`` allows."""
        if self.pace.keeps_freshness:
            return ()
        return (JobWarning(problem=self.pace.text(), fix=_FRESHNESS_FIX),)
