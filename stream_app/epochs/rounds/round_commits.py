"""Commits one round of an epoch: the files of the tasks become snapshots of the tables.

Each table is committed by itself; `EpochTables.fail` decides what its error means for the job. Rows
that do not fit their table at the commit are discarded, and the table needs another round. Such
rows have another schema, other source tables or too small sequence numbers, or precede a TRUNCATE.

Source: Paimon `table/sink/StreamTableCommit.java`,
`flink/sink/MultiTableCommittableChannelComputer.java`.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Generic

from stream_app.clock import Clock
from stream_app.epochs.rounds.epoch_tables import COMMIT_THREAD_COUNT, EpochTables
from stream_app.epochs.rounds.table_feed import TableFeed
from stream_app.epochs.rounds.table_listener import EpochReport
from stream_app.epochs.rounds.truncation import first_counting_offsets, partition_counts
from stream_app.epochs.stages.decode_counts import DecodeCounts
from stream_app.epochs.stages.epoch_plan import EpochPlan, TablePlan
from stream_app.epochs.stages.epoch_runner import MessagesT, RoutedEpoch, TableOutput
from stream_app.epochs.stages.epoch_seconds import EpochSeconds
from stream_app.errors import ExpectationError, OutdatedRowsError, StoppedError
from stream_app.format.snapshot_properties.source_end_json import offsets_of_topics
from stream_app.kafka.offset_ranges import KafkaPartition
from stream_app.model.job_epoch import Offsets
from stream_app.model.snapshot import (
    PACE_PROPERTY,
    SECONDS_PROPERTY,
    SOURCE_END_PROPERTY,
    SOURCE_TIME_PROPERTY,
)
from stream_app.process.log_fields import logging_about
from stream_app.quarantine.quarantine_writer import QuarantineReport
from stream_app.table.compact.compaction_metrics import CompactionMetrics
from stream_app.table.map_in_threads import map_in_threads

_LOG = logging.getLogger(__name__)
OFFSETS_PROPERTY = "stream_app.offsets"
"""Key of a snapshot's property: the last offset of each partition that the epoch read, as JSON."""
SOURCE_ORDER = [("topic", "ascending"), ("partition", "ascending"), ("offset", "ascending")]
_Outcome = EpochReport | BaseException | None
"""Result of a table's commit; None if its rows must be written again."""


@dataclass(slots=True)
class TableResult:
    """The files and counts that a round has written for one table."""

    feed: TableFeed
    table_plan: TablePlan
    table_output: TableOutput
    quarantine_report: QuarantineReport | None = None

    def discard(self) -> None:
        """Delete the files, which no snapshot has."""
        self.feed.table.discard(self.table_output.changes)


@dataclass(frozen=True, slots=True)
class SourceEpoch(Generic[MessagesT]):
    """An epoch of the source.

    Attributes:
        source_end: the offsets at which the epoch ends in the source, as JSON.
    """

    epoch: int
    messages: MessagesT
    source_end: str

    @property
    def end_offsets(self) -> Offsets:
        """The offsets of `source_end`, if the source has topics."""
        return offsets_of_topics(self.source_end)


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodedEpoch(Generic[MessagesT]):
    """An epoch whose messages are decoded.

    Attributes:
        source_epoch: the epoch of the source.
        plan: the plan of the tables that its blocks are for.
        routed_epoch: the epoch's blocks, which are assigned to writing tasks.
        routing_s: seconds of reading, decoding and routing.
        start_ms: when reading began, in ms since 1970, in UTC.
    """

    source_epoch: SourceEpoch[MessagesT]
    plan: EpochPlan
    routed_epoch: RoutedEpoch
    routing_s: float
    start_ms: int

    @property
    def epoch(self) -> int:
        """The number of the epoch."""
        return self.source_epoch.epoch

    @property
    def source_end(self) -> str:
        """The offsets at which the epoch ends in the source, as JSON."""
        return self.source_epoch.source_end

    def is_idle(self, table_index: int) -> bool:
        """Return whether the epoch is known to have no rows for a table of the round."""
        tables_with_blocks = self.routed_epoch.table_indices
        return (
            tables_with_blocks is not None
            and table_index not in tables_with_blocks
            and table_index in self.plan.table_plans
        )


@dataclass(slots=True, kw_only=True)
class RoundCommitter(Generic[MessagesT]):
    """The committer of a round.

    Attributes:
        durations: seconds of the parts before the commits.
        reserve: number of sequence numbers that the rows leave to other writers.
        first_offsets: first offsets of tables that their source emptied; this round adds some.
        totals: the totals of the tables that are complete.
        complete_feeds: the tables that have the epoch, including tables for which it has no rows
            and made no snapshot.
    """

    decoded_epoch: DecodedEpoch[MessagesT]
    durations: EpochSeconds
    reserve: int
    first_offsets: dict[str, Mapping[KafkaPartition, int]]
    clock: Clock
    tables: EpochTables
    totals: DecodeCounts = field(default_factory=DecodeCounts)
    complete_feeds: list[TableFeed] = field(default_factory=list)

    def commit(self, results: Sequence[TableResult]) -> list[TableFeed]:
        """Commit all results, and return the tables whose rows must be written again.

        Raises:
            BaseException: the error of a table, if it ends the job.
        """
        pending_results = list[TableResult]()
        outdated_feeds = []
        for result in results:
            if self.tables.commits_idle_epochs or not result.table_output.is_empty:
                pending_results.append(result)
            else:
                self._complete(result)
        try:
            self._write_source_tables(pending_results)
            while pending_results:
                next_results = pending_results[: self.tables.commits_at_once]
                # A commit that has begun discards its own files.
                del pending_results[: len(next_results)]
                outcomes = map_in_threads(COMMIT_THREAD_COUNT, self._try_commit, next_results)
                for result, outcome in zip(next_results, outcomes, strict=True):
                    self._record_outcome(result, outcome)
                    if outcome is None:
                        outdated_feeds.append(result.feed)
        finally:
            for result in pending_results:
                result.discard()
        return outdated_feeds

    def _write_source_tables(self, results: Sequence[TableResult]) -> None:
        """Persist new source tables before their rows are committed.

        A feed that chooses among source tables persists its own choice.
        """
        tables_by_feed = {
            result.feed.name: result.table_output.counts.tables
            for result in results
            if result.feed.source_check is None
        }
        self.tables.state_file.add_source_tables(tables_by_feed)

    def _record_outcome(self, result: TableResult, outcome: _Outcome) -> None:
        """Record what became of a table's result.

        Raises:
            BaseException: the outcome, if it ends the job.
        """
        self.tables.state_file.write_warnings(result.feed.take_warnings())
        if isinstance(outcome, StoppedError | ExpectationError):
            raise outcome
        if isinstance(outcome, BaseException):
            self.tables.fail(result.feed, outcome)
        elif outcome is not None:
            self._complete(result)
            result.feed.listener.on_epoch(outcome)

    def _try_commit(self, result: TableResult) -> _Outcome:
        """Commit a table's result in a thread, and return its report or its error."""
        try:
            with logging_about(table=result.feed.table.label, epoch=self.decoded_epoch.epoch):
                return self._commit_if_current(result)
        except OutdatedRowsError:
            return None
        except BaseException as error:
            return error

    def _commit_if_current(self, result: TableResult) -> EpochReport | None:
        """Commit a table's result; without a commit, delete its files.

        Returns:
            None if the rows must be written again.
        """
        table_job = result.feed.table_job
        with ExitStack() as cleanup:
            cleanup.callback(result.discard)
            if result.table_output.failure is not None:
                raise result.table_output.failure
            if self._follow_source(result):
                return None
            sequence_number_min = table_job.prepare_epoch()
            if self._is_overtaken(result, sequence_number_min):
                return None
            if result.table_output.bad_record_batches:
                # Counted here: a further round would count again.
                bad_records = result.table_output.bad_records().sort_by(SOURCE_ORDER)
                result.quarantine_report = result.feed.quarantine_writer.write(
                    self.decoded_epoch.epoch, bad_records
                )
            cleanup.pop_all()  # a commit that fails discards its own files
        report = self._commit(result)
        table_job.upkeep.after_commit()
        return report

    def _follow_source(self, result: TableResult) -> bool:
        """Evolve a table's schema to its source, and return whether its rows must be decoded again.

        Raises:
            WrongSourceError: the table cannot follow its source.
        """
        feed, counts = result.feed, result.table_output.counts
        if feed.refuse_other_sources(result.table_plan, counts):
            return True
        self.first_offsets[feed.name] = {}
        if counts.truncation_offsets:
            self.first_offsets[feed.name] = first_counting_offsets(
                counts,
                self.tables.source_tables_of(feed.name),
                partition_counts(self.decoded_epoch.source_end),
            )
        has_surplus_rows = self.first_offsets[feed.name] != result.table_plan.first_offsets
        feed.follow_source(result.table_plan, counts)
        are_current = feed.check_rows(result.table_plan, result.table_output.changes)
        return has_surplus_rows or not are_current

    def _is_overtaken(self, result: TableResult, sequence_number_min: int) -> bool:
        """Return whether another writer's commit forces the rows to be written again.

        A rescaled partition or a new key index forces it too, because rows would go elsewhere. So
        does any commit of another writer if rows have values from older rows, which it may have
        changed.

        Args:
            sequence_number_min: the smallest sequence number that rows may take.
        """
        reserve = self.reserve if result.table_output.counts.has_restored_rows else 0
        table_plan = result.table_plan
        is_late = sequence_number_min > table_plan.next_sequence_number - reserve
        is_rerouted = result.feed.is_rerouted(table_plan)
        return is_late or is_rerouted or result.feed.table is not table_plan.table

    def _commit(self, result: TableResult) -> EpochReport:
        """Commit a table's files as this epoch, and return the epoch's report for the table."""
        start_s = self.clock.steady_seconds()
        feed, table_output = result.feed, result.table_output
        properties = _properties(table_output.counts, self.decoded_epoch.source_end, self.durations)
        if pace := feed.describe_pace():
            properties[PACE_PROPERTY] = pace
        for (topic, partition_number), offset in table_output.counts.truncation_offsets.items():
            _LOG.warning(
                "%s: the source has emptied its table (topic %s, partition %d, offset %d): all "
                "rows are deleted, and the later ones follow",
                feed.table.location, topic, partition_number, offset,
            )  # fmt: skip
        epoch_outcome = feed.table_job.stream_commit.commit_epoch(
            self.decoded_epoch.epoch,
            table_output.changes,
            properties=properties,
            truncates=bool(table_output.counts.truncation_offsets),
            basis=result.table_plan.basis,
        )
        files = [file for change in table_output.changes for file in change.written_files]
        return EpochReport(
            epoch=self.decoded_epoch.epoch,
            counts=feed.excuse_new_columns(table_output.counts),
            quarantine_report=result.quarantine_report,
            bucket_count=len(table_output.changes),
            file_count=len(files),
            byte_count=sum(file.file_size for file in files),
            ran_in_driver=table_output.ran_in_driver,
            durations=replace(self.durations, commit_s=self.clock.steady_seconds() - start_s),
            start_ms=self.decoded_epoch.start_ms,
            snapshots=epoch_outcome.snapshots,
            sorted_run_histogram=feed.table_job.sorted_run_histogram(),
            compactions=epoch_outcome.compactions,
            metrics=feed.table_job.compaction_metrics() or CompactionMetrics(),
        )

    def _complete(self, result: TableResult) -> None:
        if result.table_output.counts.message_count:
            self.totals = self.totals.plus(result.table_output.counts)
        self.complete_feeds.append(result.feed)


def _properties(counts: DecodeCounts, source_end: str, durations: EpochSeconds) -> dict[str, str]:
    properties = {SOURCE_END_PROPERTY: source_end, SECONDS_PROPERTY: durations.as_property}
    if offsets := counts.last_offsets():
        properties[OFFSETS_PROPERTY] = json.dumps(offsets, sort_keys=True)
    if (newest_time_ms := counts.newest_time_ms) is not None:
        properties[SOURCE_TIME_PROPERTY] = str(newest_time_ms)
    return properties
