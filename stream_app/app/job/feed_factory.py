"""Makes the feeds of a job. A feed joins a table with its job, its format and its quarantine.

`table_assembly` calls it for the only table, or for each table of a whole database.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

import pyarrow as pa

from stream_app.app.config.job_tables.job_tables import JobTables
from stream_app.app.config.stream_config import (
    CompactionPolicy,
    NonInsertRecords,
    RepeatedRecords,
    StreamConfig,
)
from stream_app.app.observe.events.event_log import EventLog
from stream_app.app.table_setup.statement_reader import evolution_of
from stream_app.app.table_setup.table_pipeline import job_pipeline
from stream_app.checkpoint.job_folder import JobFolder
from stream_app.checkpoint.job_state import ONLY_TABLE, JobStateFile
from stream_app.epochs.rounds.expectation_judge import ExpectationJudge
from stream_app.epochs.rounds.source_table_check import SourceTableCheck
from stream_app.epochs.rounds.table_feed import TableFeed
from stream_app.epochs.stream.epoch_pace import Pace
from stream_app.quarantine.quarantine_writer import QuarantineWriter
from stream_app.spark.jobs.spark_compactions import SparkCompactExecutor, SparkCompactionQueue
from stream_app.table.compact.auto_policy import PolicyBounds
from stream_app.table.compact.core_budget import CoreBudget
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.job.table_job import TableJob


@dataclass(slots=True, kw_only=True)
class FeedFactory:
    """A factory of a job's feeds, which closes the upkeep of their tables at the end.

    Attributes:
        state_file: the job's state.
        open_folder: opens a folder, such as the quarantine's.
        pace: decides when epochs begin.
        is_stopping: returns whether the job has been asked to end.
        budget: the number of cores that compactions may use.
        unassigned_count: the number of messages that were quarantined without a table.
    """

    job_tables: JobTables
    stream_config: StreamConfig
    state_file: JobStateFile
    open_folder: Callable[[str], JobFolder]
    compaction_queue: SparkCompactionQueue
    pace: Pace
    is_stopping: Callable[[], bool]
    events: EventLog
    budget: CoreBudget = field(init=False)
    unassigned_count: int = field(init=False, default=0)
    _table_jobs: list[TableJob] = field(init=False, default_factory=list)
    _unassigned_quarantine: QuarantineWriter | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.budget = CoreBudget(self.compaction_queue.at_once)

    def of_only_table(self, table: FileStoreTable) -> TableFeed:
        """Return the feed of a job of one table."""
        joins_sources = self.job_tables.joins_sources
        source_check = None if joins_sources else SourceTableCheck(self.state_file)
        return self._feed(ONLY_TABLE, table, self.events, source_check)

    def of_table(self, name: str, table: FileStoreTable) -> TableFeed:
        """Return the feed of one table of a database. Source tables choose its messages."""
        return self._feed(name, table, self.events.of_table(name))

    def write_unassigned_messages(self, epoch: int, messages: pa.Table) -> None:
        """Quarantine messages that belong to no table.

        Args:
            messages: the messages, in columns of `BAD_RECORD_SCHEMA`.

        Raises:
            BadRecordsError: the run has more bad records than its limit allows.
        """
        if self._unassigned_quarantine is None:
            self._unassigned_quarantine = self._quarantine_writer("")
        self.unassigned_count += messages.num_rows
        if (quarantine_report := self._unassigned_quarantine.write(epoch, messages)) is not None:
            self.events.report_unassigned_messages(epoch, quarantine_report)

    def idle_expectations(self) -> Sequence[str]:
        """Return the names of expectations that have applied to no table so far."""
        applied_names = {
            expectation.name
            for table_job in self._table_jobs
            for expectation in self.job_tables.expectations_of(
                table_job.table.name, table_job.table.schema.fields
            )
        }
        names = (expectation.name for expectation in self.job_tables.expectations.all)
        return [name for name in names if name not in applied_names]

    def close(self) -> None:
        """Close the upkeep of all tables, and wait for its end.

        Raises:
            StreamAppError: the error of the first table whose upkeep cannot be closed.
        """
        with ExitStack() as stack:
            for table_job in self._table_jobs:
                stack.callback(table_job.upkeep.close)

    def _feed(
        self,
        name: str,
        table: FileStoreTable,
        events: EventLog,
        source_check: SourceTableCheck | None = None,
    ) -> TableFeed:
        """Make the job of a table, register it for `close`, and return the table's feed."""
        if self.events.metrics is not None:
            table = table.with_counter(self.events.metrics.store.requests)
        make_executor = functools.partial(SparkCompactExecutor, self.compaction_queue)
        accepts_repeats = self.stream_config.repeated_records is RepeatedRecords.STORE
        table_job = TableJob(
            table,
            make_executor,
            self.is_stopping,
            accepts_repeats=accepts_repeats,
            policy_bounds=self._policy_bounds,
        )
        self._table_jobs.append(table_job)
        events.watch(table_job)
        events.history.watch(events.table or "", table_job)
        return TableFeed(
            name=name,
            table_job=table_job,
            make_pipeline=lambda latest_table: job_pipeline(
                self.job_tables,
                latest_table,
                source_filter=None if source_check is None else source_check.source_filter,
                restores_values=True,
                quarantines_non_inserts=self.stream_config.non_insert_records
                is NonInsertRecords.QUARANTINE,
            ),
            source_check=source_check,
            quarantine_writer=self._quarantine_writer(name),
            listener=events,
            expectation_judge=ExpectationJudge(table.label),
            describe_pace=self.pace.text,
            evolution=evolution_of(
                self.job_tables, name, table, self.state_file, table.clock.now_ms
            ),
        )

    @property
    def _policy_bounds(self) -> PolicyBounds | None:
        if self.stream_config.compaction_policy is not CompactionPolicy.AUTO:
            return None
        # A job that drains its source has no pace.
        budget = None if self.stream_config.is_available_now else self.budget
        return PolicyBounds(self.stream_config.compaction_freshness, budget)

    def _quarantine_writer(self, name: str) -> QuarantineWriter:
        quarantine = self.stream_config.quarantine
        bad_records_max = self.stream_config.max_bad_records
        if quarantine is None:
            return QuarantineWriter(None, bad_records_max)
        return QuarantineWriter(
            self.open_folder(self.job_tables.quarantine_of(quarantine, name)), bad_records_max
        )
