"""Finds and drops the quarantined records that a person chooses by reason, place and time.

A replay marks its records before it commits their rows, so only the snapshots of the tables show
which marks count. `ops.replay` writes the rows of records.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from stream_app.app.config.job_tables.single_table import SingleTable
from stream_app.app.config.job_tables.whole_database import WholeDatabase
from stream_app.app.opening.job_catalog import open_job_table
from stream_app.app.ops.recorded_tables import paths_of
from stream_app.errors import TableNotFoundError
from stream_app.quarantine.quarantine_folder import (
    Quarantine,
    QuarantinedRecord,
    RecordFilter,
    RecordMark,
    RecordOutcome,
)
from stream_app.table.commit.recorded_epochs import newest_epochs


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenRecords:
    """The records of a quarantine that a filter chooses.

    Attributes:
        job_quarantine: the quarantine of the job.
        job_tables: the tables of the job, or None if only its folder is given.
        name: the name of the one table, or None.
    """

    job_quarantine: Quarantine
    job_tables: SingleTable | WholeDatabase | None
    name: str | None
    record_filter: RecordFilter

    @property
    def quarantine(self) -> Quarantine:
        """The folder with the chosen records."""
        return self.job_quarantine if self.name is None else self.job_quarantine.of_table(self.name)

    def unresolved_records(self) -> Sequence[QuarantinedRecord]:
        """Return the records that still wait."""
        return self.record_filter.select(
            self.quarantine.unresolved_records(self._commit_users(self.name))
        )

    def unresolved_by_table(self) -> Mapping[str, Sequence[QuarantinedRecord]]:
        """Return the unresolved records by the name of their table; empty for a single table."""
        separates_tables = self.job_tables is None or self.job_tables.separates_tables
        return {
            name: self.record_filter.select(
                self.job_quarantine.of_table(name).unresolved_records(self._commit_users(name))
            )
            for name in (
                self.job_quarantine.tables() if separates_tables and self.name is None else ()
            )
        }

    def drop(self, records: Sequence[QuarantinedRecord]) -> None:
        """Remove records of `quarantine` for good.

        1. Write the mark. A crash after it leaves records that no longer wait.
        2. Remove the records. A repeated epoch may write one again, which the mark covers.
        """
        self.quarantine.write_mark(  # step 1
            RecordMark(
                name=uuid.uuid4().hex,
                records=tuple(record.identity for record in records),
                outcomes=(RecordOutcome.DROPPED,) * len(records),
            )
        )
        self.quarantine.remove(records)  # step 2

    def _commit_users(self, name: str | None) -> frozenset[str]:
        """Return the users with a commit in the tables; empty without a configuration."""
        users: set[str] = set()
        if self.job_tables is None:
            return frozenset()
        paths = None if name is None else [self.job_tables.path(name)]
        for path in paths or paths_of(self.job_tables, needs_one=False):
            with contextlib.suppress(TableNotFoundError):
                table = open_job_table(self.job_tables, path)
                users.update(newest_epochs(table.snapshots))
        return frozenset(users)
