"""Commits one round of an epoch: the files of the tasks become snapshots of the tables.

Each table is committed by itself; `JobTables.fail` decides what its error means for the job. Rows
that do not fit their table at the commit are discarded, and the table needs another round. They
have another schema, other source tables, too small sequence numbers, or precede a TRUNCATE.

Source: Paimon `table/sink/StreamTableCommit.java`, `flink/sink/MultiTableCommittableChannel…`.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic

from stream_app.clock import Clock
from stream_app.errors import StoppedError
from stream_app.log_facts import about
from stream_app.model.snapshot import (
    SECONDS_PROPERTY,
    SOURCE_END_PROPERTY,
    SOURCE_TIME_PROPERTY,
)
from stream_app.spark.epoch.decode_counts import DecodeCounts, Where
from stream_app.spark.epoch.epoch_parts import EpochParts
from stream_app.spark.epoch.epoch_plan import EpochPlan, TablePlan
from stream_app.spark.epoch.epoch_runner import Messages, TableOutput, Writing
from stream_app.spark.ingest.job_tables import COMMIT_THREADS, JobTables
from stream_app.spark.ingest.quarantine_writer import Quarantined
from stream_app.spark.ingest.table_feed import EpochReport, TableFeed
from stream_app.spark.ingest.truncation import counts_from, partition_counts
from stream_app.table.compact.metrics import CompactionMetrics
from stream_app.table.map_in_threads import each

_LOG = logging.getLogger(__name__)
OFFSETS_PROPERTY = "stream_app.offsets"
"""Key of a snapshot's property: the last offset of each partition that the epoch read, as JSON."""
SOURCE_ORDER = [("topic", "ascending"), ("partition", "ascending"), ("offset", "ascending")]
_Outcome = EpochReport | BaseException | None
"""Result of a table's commit; None: its rows must be written anew."""


@dataclass(slots=True)
class Share:
    """The results of one table in a round."""

    feed: TableFeed
    plan: TablePlan
    output: TableOutput
    quarantined: Quarantined | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochBegun(Generic[Messages]):
    """An epoch whose messages are decoded.

    Attributes:
        plan: the plan of the tables that its blocks are for.
        write: writes its blocks.
        read: number of messages, if the runner knows.
        route_s: seconds of reading, decoding and routing.
        began_ms: when reading began, in ms since 1970, UTC.
    """

    epoch: int
    messages: Messages
    source_end: str
    plan: EpochPlan
    write: Writing
    read: int
    route_s: float
    began_ms: int


@dataclass(slots=True, kw_only=True)
class Round(Generic[Messages]):
    """The commits of a round.

    Attributes:
        times: seconds of the parts before the commits.
        room: how many sequence numbers the rows leave to other writers.
        begins: first offsets of tables that their source emptied; this round adds some.
        totals, committed: results of the tables that this round has committed.
    """

    begun: EpochBegun[Messages]
    times: EpochParts
    room: int
    begins: dict[str, Mapping[Where, int]]
    clock: Clock
    tables: JobTables
    totals: DecodeCounts = field(default_factory=DecodeCounts)
    committed: list[TableFeed] = field(default_factory=list)

    def commit(self, shares: Sequence[Share]) -> list[TableFeed]:
        """Commit all shares; returns the tables whose rows must be written anew.

        Raises:
            BaseException: the error of a table, if it stops the job.
        """
        pending = [share for share in shares if self._makes_snapshot(share)]
        outdated = []
        try:
            self._meet_sources(pending)
            for share, outcome in self._outcomes(pending):
                self.tables.warn(share.feed)
                if isinstance(outcome, StoppedError):
                    raise outcome
                if isinstance(outcome, BaseException):
                    self.tables.fail(share.feed, outcome)
                elif outcome is None:
                    outdated.append(share.feed)
                else:
                    self._report(share, outcome)
        finally:
            for share in pending:
                share.feed.job.table.discard(share.output.changes)
        return outdated

    def _makes_snapshot(self, share: Share) -> bool:
        """Whether a share is committed: in a job of many tables an empty one is only counted."""
        if self.tables.stops or not share.output.is_empty:
            return True
        if share.output.counts.messages:
            self.totals = self.totals.plus(share.output.counts)
        return False

    def _meet_sources(self, shares: Sequence[Share]) -> None:
        """Persist new source tables before their rows are committed.

        A feed that chooses among source tables persists its own choice.
        """
        chosen = [share for share in shares if share.feed.sources is None]
        self.tables.meet({share.feed.name: share.output.counts.tables for share in chosen})

    def _outcomes(self, pending: list[Share]) -> Iterator[tuple[Share, _Outcome]]:
        """Commit shares side by side; one after the other where the first error ends the job.

        Args:
            pending: those whose commit has not begun.
        """
        while pending:
            begun = pending[:1] if self.tables.stops else pending[:]
            del pending[: len(begun)]
            yield from zip(begun, each(COMMIT_THREADS, self._outcome, begun), strict=True)

    def _outcome(self, share: Share) -> _Outcome:
        """Commit a table's share, in a thread."""
        with about(table=share.feed.job.table.label, epoch=self.begun.epoch):
            return self._outcome_of(share)

    def _outcome_of(self, share: Share) -> _Outcome:
        job, discarded = share.feed.job, False
        try:
            if share.output.failure is not None:
                raise share.output.failure
            if self._is_outdated(share):
                job.table.discard(share.output.changes)
                return None
            if self._is_overtaken(share, job.begin_epoch()):
                job.table.discard(share.output.changes)
                return None
            if share.output.bad:  # a further round would count them once more
                bad = share.output.bad_records().sort_by(SOURCE_ORDER)
                share.quarantined = share.feed.quarantine.write(self.begun.epoch, bad)
            discarded = True  # the commit has discarded them if it failed
            report = self._commit(share)
            job.upkeep.after_commit()
        except BaseException as error:
            if not discarded:
                job.table.discard(share.output.changes)
            return error
        return report

    def _is_outdated(self, share: Share) -> bool:
        """Whether a table's rows must be written anew: with another schema, or without some rows.

        Raises:
            WrongSourceError: the table cannot follow what its messages tell.
        """
        feed, counts = share.feed, share.output.counts
        if feed.has_others(share.plan, counts):
            return True
        self.begins[feed.name] = {}
        if counts.truncated:
            partitions = partition_counts(self.begun.source_end)
            self.begins[feed.name] = counts_from(counts, self.tables.met(feed), partitions)
        has_rows_too_many = self.begins[feed.name] != share.plan.begins
        return feed.is_outdated(share.plan, share.output) or has_rows_too_many

    def _is_overtaken(self, share: Share, least: int) -> bool:
        """Whether another writer has committed meanwhile, so that rows must be written anew.

        Rows that took values from older rows leave no room: the other writer may have changed them.

        Args:
            least: the least sequence number that rows may take.
        """
        room = self.room if share.output.counts.restored else 0
        is_late = least > share.plan.next_sequence_number - room
        return is_late or share.feed.job.table is not share.plan.table

    def _commit(self, share: Share) -> EpochReport:
        began = self.clock.steady_seconds()
        feed, output = share.feed, share.output
        properties = _properties(output.counts, self.begun.source_end, self.times)
        for (topic, partition), offset in output.counts.truncated.items():
            _LOG.warning(
                "%s: the source has emptied its table (topic %s, partition %d, offset %d): all "
                "rows are deleted, and the later ones follow",
                feed.job.table.location, topic, partition, offset,
            )  # fmt: skip
        committed = feed.job.commit_epoch(
            self.begun.epoch,
            output.changes,
            properties,
            empties=bool(output.counts.truncated),
            basis=share.plan.basis,
        )
        files = [file for change in output.changes for file in change.written]
        return EpochReport(
            epoch=self.begun.epoch,
            counts=feed.counts_to_tell(output.counts),
            quarantined=share.quarantined,
            buckets=len(output.changes),
            files=len(files),
            bytes=sum(file.file_size for file in files),
            parts=replace(self.times, commit_s=self.clock.steady_seconds() - began),
            began_ms=self.begun.began_ms,
            snapshots=committed.snapshots,
            sorted_runs=feed.job.sorted_runs(),
            compactions=committed.compactions,
            metrics=feed.job.compaction_metrics() or CompactionMetrics(),
        )

    def _report(self, share: Share, report: EpochReport) -> None:
        self.totals = self.totals.plus(share.output.counts)
        self.committed.append(share.feed)
        share.feed.listener.epoch(report)


def _properties(counts: DecodeCounts, source_end: str, times: EpochParts) -> dict[str, str]:
    properties = {SOURCE_END_PROPERTY: source_end, SECONDS_PROPERTY: times.as_property}
    if offsets := counts.last_offsets():
        properties[OFFSETS_PROPERTY] = json.dumps(offsets, sort_keys=True)
    if (newest_ms := counts.newest_ms) is not None:
        properties[SOURCE_TIME_PROPERTY] = str(newest_ms)
    return properties
