"""The source side of one table of a running job: its message format and its bad records.

`EpochTables` has a feed for each table. `newcomer_creator` creates the feeds of tables that
appear in the messages.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from stream_app.cdc.column_drift import DriftKind
from stream_app.cdc.pipeline import Pipeline
from stream_app.checkpoint.job_state import JobWarning
from stream_app.epochs.rounds.expectation_judge import ExpectationJudge
from stream_app.epochs.rounds.schema_evolution import SchemaEvolution
from stream_app.epochs.rounds.source_table_check import SourceTableCheck
from stream_app.epochs.rounds.table_listener import TableListener
from stream_app.epochs.stages.decode_counts import DecodeCounts
from stream_app.epochs.stages.epoch_plan import TablePlan
from stream_app.model.files.bucket_change import BucketChange
from stream_app.model.options.merge_options import HISTORY_LATE_CHANGES
from stream_app.quarantine.quarantine_writer import QuarantineWriter
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.job.table_job import TableJob


@dataclass(slots=True, kw_only=True)
class TableFeed:
    """The source side of one table, and the table's job.

    Attributes:
        name: the table's name within the job.
        make_pipeline: makes the pipeline for a schema of the table.
        quarantine_writer: writes the table's bad records.
        source_check: decides which source table's records the table accepts; None: any.
        evolution: makes the table follow its source; None if it does not follow.
        expectation_judge: judges the records that violate an expectation.
        describe_pace: returns the job's choice of the epochs' length, for snapshots; empty without
            one.
    """

    name: str
    table_job: TableJob
    make_pipeline: Callable[[FileStoreTable], Pipeline]
    quarantine_writer: QuarantineWriter
    listener: TableListener
    evolution: SchemaEvolution | None = None
    source_check: SourceTableCheck | None = None
    expectation_judge: ExpectationJudge = field(default_factory=ExpectationJudge)
    describe_pace: Callable[[], str] = str
    _table_plan: TablePlan | None = field(init=False, default=None)
    _has_warned_of_late: bool = field(init=False, default=False)
    _new_columns: set[str] = field(init=False, default_factory=set)
    _warnings: list[JobWarning] = field(init=False, default_factory=list)

    @property
    def table(self) -> FileStoreTable:
        """The table with the schema by which the job writes."""
        return self.table_job.table

    def table_plan(self, next_sequence_number: int | None = None) -> TablePlan:
        """Return the table's plan for an epoch, from the current schema of the table's job.

        The stream's thread and the committer's thread may call this at the same time. Rows decoded
        by any format but the last one are decoded again.

        Args:
            next_sequence_number: greater than any sequence number in the table; None if no task
                writes by this plan.

        Raises:
            UsageError: the format's options do not fit the table.
        """
        table, previous_plan = self.table, self._table_plan
        if previous_plan is None or previous_plan.table is not table:
            if self.source_check is not None:
                self.source_check.begin()
            previous_plan = TablePlan(table=table, pipeline=self.make_pipeline(table))
        if next_sequence_number is None:
            next_sequence_number = previous_plan.next_sequence_number
        self._table_plan = table_plan = previous_plan.for_next_epoch(
            next_sequence_number, self.table_job.bucket_basis
        )
        return table_plan

    def refuse_other_sources(self, table_plan: TablePlan, counts: DecodeCounts) -> bool:
        """Refuse other source tables; return whether rows must be written again without theirs.

        Raises:
            WrongSourceError: there are too many records of other tables.
        """
        if self.source_check is None:
            return False
        if self.source_check.admit(counts, table_plan.pipeline.source_filter):
            return False
        self._table_plan = None
        return True

    def follow_source(self, table_plan: TablePlan, counts: DecodeCounts) -> None:
        """Commit the schema that the rows need, and use the latest schema.

        Raises:
            WrongSourceError: a column's type in the source is one that the table does not follow,
                or a record breaks an expectation that holds the table.
            ExpectationError: a record breaks an expectation that ends the job.
            UnsupportedTableError: the job cannot write by the latest schema.
        """
        self._warnings += self.expectation_judge.judge(counts.violations)
        self._warn_of_late(counts.late_change_count)
        if self.evolution is not None:
            self._warnings += self.evolution.follow(self.table, counts.description)
        self.table_job.adopt()
        old_names = table_plan.table.schema.fields.names
        new_names = self.table.schema.fields.names
        self._new_columns.update(set(new_names).difference(old_names))

    def check_rows(self, table_plan: TablePlan, changes: Sequence[BucketChange]) -> bool:
        """Check written rows by the latest schema, and by other writers' index of keys.

        Returns:
            Whether the rows can be committed; if not, they must be decoded again.
        """
        if self.table is not table_plan.table:
            return False
        return bool(table_plan.first_offsets) or self.table_job.follow_and_check(
            table_plan.basis, changes
        )

    def is_rerouted(self, table_plan: TablePlan) -> bool:
        """Return whether rows of the plan have other buckets since another writer's commit."""
        bucket_state = self.table_job.stream_commit.bucket_state
        return not table_plan.first_offsets and not bucket_state.fits(table_plan.basis)

    def _warn_of_late(self, change_count: int) -> None:
        """Warn once in a run of changes to which dropped hidden changes may have mattered."""
        if change_count and not self._has_warned_of_late:
            self._has_warned_of_late = True
            self._warnings.append(
                JobWarning(
                    table=self.table.label,
                    problem=f"changes came later than {HISTORY_LATE_CHANGES.key}, so a version "
                    "may last too long",
                    fix="set it to the longest delay of the source's changes: stream-app alter "
                    f"{self.table.label} --set {HISTORY_LATE_CHANGES.key}=TIME",
                    is_lasting=True,
                )
            )

    def take_warnings(self) -> Sequence[JobWarning]:
        """Return warnings of columns, expectations and late changes since the last call."""
        warnings, self._warnings = self._warnings, []
        return warnings

    def excuse_new_columns(self, counts: DecodeCounts) -> DecodeCounts:
        """Take the new columns out of a committed epoch's counts, which become warnings.

        Records before an ADD COLUMN of the same epoch lack the column, and nothing is wrong. The
        columns are new in one epoch alone, so the next call counts them.
        """
        new_columns, self._new_columns = self._new_columns, set()
        drift = {
            (kind, name): sighting
            for (kind, name), sighting in counts.drift.items()
            if kind is not DriftKind.MISSING or name not in new_columns
        }
        return replace(counts, drift=drift)
