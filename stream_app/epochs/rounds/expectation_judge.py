"""Warns of records that violate an expectation, or raises an error, before the commit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from stream_app.cdc.change_batch import Violation
from stream_app.cdc.pipeline_steps.expectations import ExpectationAction
from stream_app.checkpoint.job_state import JobWarning
from stream_app.epochs.stages.decode_counts import RecordSighting
from stream_app.errors import ExpectationError, WrongSourceError

_ERRORS: Mapping[str, type[WrongSourceError]] = {
    ExpectationAction.HOLD.value: WrongSourceError,
    ExpectationAction.FAIL.value: ExpectationError,
}
_TREATMENTS = {
    ExpectationAction.DROP.value: "the job drops their changes",
    ExpectationAction.QUARANTINE.value: "the job puts them into the quarantine",
}


@dataclass(slots=True)
class ExpectationJudge:
    """The judge of broken expectations, by errors, and by one warning of each in a run.

    Attributes:
        table: ``DATABASE.TABLE``.
    """

    table: str = ""
    _warned_of: set[Violation] = field(init=False, default_factory=set)

    def judge(self, violations: Mapping[Violation, RecordSighting]) -> Iterator[JobWarning]:
        """Yield the warnings of an epoch's violations.

        Raises:
            WrongSourceError: an expectation holds the table.
            ExpectationError: an expectation ends the job.
        """
        for violation, sighting in violations.items():
            if (error := _ERRORS.get(violation.action)) is not None:
                raise error(
                    f"records that break the expectation {violation.expectation!r}: "
                    f"{sighting.record_count}",
                    where=f"the table {self.table}; the first is topic {sighting.topic}, partition "
                    f"{sighting.partition_number}, offset {sighting.offset}",
                    fix=f"change expectations.{violation.expectation} (its action quarantine lets "
                    "the others go on), or correct the rows at their source before the job reads "
                    "them again",
                )
        for violation in violations.keys() - self._warned_of:
            self._warned_of.add(violation)
            yield JobWarning(
                table=self.table,
                problem=f"records break the expectation {violation.expectation!r}, and "
                f"{_TREATMENTS[violation.action]}",
                fix="correct the rows at their source, or change "
                f"expectations.{violation.expectation}",
                is_lasting=True,
            )
