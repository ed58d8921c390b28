"""Brings the messages of one epoch into tables: rounds of a Spark job and commits.

One round is the rule. Another one follows for tables whose plan was outdated when their rows were
written, and for tables that appear in the messages. Each round reads the messages anew, for those
tables alone.

In a job of one table, an error ends the epoch and the job. In a job of many (`HeldTables`), it
holds its table back, and the others are committed side by side.

Source: Paimon `table/sink/StreamTableCommit.java`, `flink/sink/MultiTableCommittableChannel…`.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol

import pyarrow as pa

from stream_app.clock import Clock
from stream_app.errors import CommitError, StoppedError
from stream_app.model.snapshot import SOURCE_END_PROPERTY
from stream_app.spark.epoch.decode_counts import DecodeCounts
from stream_app.spark.epoch.epoch_plan import EpochPlan, EpochShape, MessageSplitter, TablePlan
from stream_app.spark.epoch.epoch_runner import EpochRunner, Messages, TableOutput
from stream_app.spark.ingest.dead_letters import SetAside
from stream_app.spark.ingest.held_tables import CompactionWaitError
from stream_app.spark.ingest.table_feed import EpochReport, TableFeed
from stream_app.spark.task_errors import first_line
from stream_app.table.compact.metrics import CompactionMetrics
from stream_app.table.map_in_threads import each

_LOG = logging.getLogger(__name__)
OFFSETS_PROPERTY = "stream_app.offsets"
"""Key of a snapshot's property: the last offset of each partition that the epoch read, as JSON."""

COMMIT_THREADS = 8
_ROUNDS_MAX = 20
_SOURCE_ORDER = [("topic", "ascending"), ("partition", "ascending"), ("offset", "ascending")]


class Isolation(Protocol):
    """Lets each table of a job succeed or fail for itself."""

    def failed(self, feed: TableFeed, error: BaseException) -> None:
        """A table lacks the epoch because of an error."""
        ...

    def open(self, feeds: Sequence[TableFeed]) -> None:
        """Read the state of tables; those that cannot be read have failed."""
        ...


class Newcomers(Protocol):
    """Makes tables that appear in the messages."""

    def feeds(self, messages: pa.Table) -> Sequence[TableFeed]:
        """New tables, created in the warehouse.

        Args:
            messages: some of each new table, in columns of `MESSAGE_SCHEMA`.
        """
        ...

    def splitter(self, feeds: Sequence[TableFeed]) -> MessageSplitter:
        """The splitter of a job of these tables."""
        ...


@dataclass(slots=True)
class Share:
    """One table's results of a round."""

    feed: TableFeed
    plan: TablePlan
    output: TableOutput
    set_aside: SetAside | None = None


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds before and in the Spark job of a round."""

    wait_s: float
    write_s: float


@dataclass(slots=True, kw_only=True)
class EpochRun(Generic[Messages]):
    """Runs epochs.

    Attributes:
        feeds: the job's tables; a table's place here is its index in blocks.
        isolation: gets the errors of tables; None: there is one table, or all fail together.
        newcomers: None: no table may appear.
        totals: of all epochs and tables that this run has committed.
    """

    feeds: list[TableFeed]
    shape: EpochShape
    runner: EpochRunner[Messages]
    clock: Clock
    isolation: Isolation | None = None
    newcomers: Newcomers | None = None
    totals: DecodeCounts = field(default_factory=DecodeCounts)

    def run(
        self, epoch: int, messages: Messages, feeds: Iterable[TableFeed], source_end: str
    ) -> Sequence[TableFeed]:
        """Bring an epoch into some of the tables; returns those that it was committed to."""
        lacking = list(feeds)
        committed: list[TableFeed] = []
        for _ in range(_ROUNDS_MAX):
            began = self.clock.steady_seconds()
            plan = self._plan(lacking)
            if not plan.has_tables:
                return committed
            waited = self.clock.steady_seconds()
            output = self.runner.run(epoch, messages, plan)
            times = Times(waited - began, self.clock.steady_seconds() - waited)
            shares = [
                Share(feed, part, of_table)
                for feed, of_table, part in zip(self.feeds, output.tables, plan.tables, strict=True)
                if part is not None
            ]
            work = _Round(self, epoch, messages, source_end, plan, times)
            lacking = work.commit(shares)
            committed += work.committed
            if output.newcomers.num_rows:
                lacking += self._arrived(output.newcomers)
        raise CommitError(
            f"epoch {epoch} is outdated whenever it is written, {_ROUNDS_MAX} times by now",
            where=", ".join(feed.job.table.location for feed in lacking),
            fix="see which other job commits to the table so often, and stop one of both",
        )

    def plan(self) -> EpochPlan:
        """The plan for all tables, before the first epoch."""
        return EpochPlan(tables=tuple(feed.plan() for feed in self.feeds), shape=self.shape)

    def _plan(self, lacking: Sequence[TableFeed]) -> EpochPlan:
        wanted = {feed.name for feed in lacking}
        parts = [self._part(feed) if feed.name in wanted else None for feed in self.feeds]
        return EpochPlan(tables=tuple(parts), shape=self.shape)

    def _part(self, feed: TableFeed) -> TablePlan | None:
        if self.isolation is None:
            return feed.plan(feed.job.begin_epoch())
        try:
            if feed.job.must_wait():
                raise CompactionWaitError(feed.job.table.location)
            return feed.plan(feed.job.next_sequence_number)
        except StoppedError:
            raise
        except Exception as error:
            self.isolation.failed(feed, error)
            return None

    def _arrived(self, messages: pa.Table) -> Sequence[TableFeed]:
        assert self.newcomers is not None, "the splitter knows that tables may appear"
        assert self.isolation is not None, "such tables come and fail each for itself"
        arrived = self.newcomers.feeds(messages)
        self.feeds += arrived
        splitter = self.newcomers.splitter(self.feeds)
        self.shape = self.shape.with_splitter(splitter)
        self.isolation.open(arrived)
        return [feed for feed in arrived if feed.job.is_open]


@dataclass(slots=True)
class _Round(Generic[Messages]):
    """The commits of a round."""

    run: EpochRun[Messages]
    epoch: int
    messages: Messages
    source_end: str
    plan: EpochPlan
    times: Times
    committed: list[TableFeed] = field(default_factory=list)

    def commit(self, shares: Sequence[Share]) -> list[TableFeed]:
        """Commit all shares; returns the tables whose rows must be written anew."""
        if self.run.isolation is None:
            self._all_or_nothing(list(shares))
            return []
        return self._each_for_itself(shares, self.run.isolation)

    def _all_or_nothing(self, uncommitted: list[Share]) -> None:
        """Check every table's share before the first commit; then commit one after another."""
        try:
            for share in uncommitted:
                self._set_aside(share)
            while uncommitted:
                share = uncommitted.pop(0)
                self._report(share, self._commit(share))
        except BaseException:
            for share in uncommitted:
                share.feed.job.table.discard(share.output.changes)
            raise

    def _each_for_itself(self, shares: Sequence[Share], isolation: Isolation) -> list[TableFeed]:
        for share in shares:
            if share.output.is_empty:
                self.run.totals = self.run.totals.plus(share.output.counts)
        shares = [share for share in shares if not share.output.is_empty]
        outdated: list[TableFeed] = []
        outcomes = each(COMMIT_THREADS, self._outcome, shares)
        for share, outcome in zip(shares, outcomes, strict=True):
            if isinstance(outcome, StoppedError):
                raise outcome
            if isinstance(outcome, BaseException):
                isolation.failed(share.feed, outcome)
            elif outcome is None:
                outdated.append(share.feed)
            else:
                self._report(share, outcome)
        return outdated

    def _outcome(self, share: Share) -> EpochReport | BaseException | None:
        """Commit a table's share, in a thread.

        Returns:
            The error that holds the table back; None: other writers or a new schema have come
            between, and the rows must be written anew.
        """
        job, discarded = share.feed.job, False
        try:
            if share.output.failure is not None:
                raise share.output.failure
            self._set_aside(share)
            newest = job.begin_epoch()
            if newest != share.plan.next_sequence_number or job.table is not share.plan.table:
                job.table.discard(share.output.changes)
                return None
            discarded = True  # by the commit, if it fails
            report = self._commit(share)
            job.upkeep.after_commit()
        except BaseException as error:
            if not discarded:
                job.table.discard(share.output.changes)
            return error
        return report

    def _set_aside(self, share: Share) -> None:
        share.feed.check_tables(share.output.counts.tables)
        bad = self._bad_records(share).sort_by(_SOURCE_ORDER)
        share.set_aside = share.feed.dead_letters.write(self.epoch, bad)

    def _bad_records(self, share: Share) -> pa.Table:
        bad = share.output.bad_records()
        is_kept = share.feed.dead_letters.folder is not None
        if bad.num_rows and is_kept and not self.plan.reads_keys:
            try:
                return self.run.runner.with_keys(self.messages, bad)
            except Exception as error:
                # The topic may have dropped these messages since. The bad records themselves are
                # kept.
                _LOG.warning("the keys of bad records cannot be fetched: %s", first_line(error))
        return bad

    def _commit(self, share: Share) -> EpochReport:
        began = self.run.clock.steady_seconds()
        feed, output = share.feed, share.output
        properties = _properties(output.counts, self.source_end)
        committed = feed.job.commit_epoch(self.epoch, output.changes, properties)
        files = [file for change in output.changes for file in change.written]
        return EpochReport(
            epoch=self.epoch,
            counts=output.counts,
            set_aside=share.set_aside,
            buckets=len(output.changes),
            files=len(files),
            bytes=sum(file.file_size for file in files),
            wait_s=self.times.wait_s,
            write_s=self.times.write_s,
            commit_s=self.run.clock.steady_seconds() - began,
            snapshots=committed.snapshots,
            sorted_runs=feed.job.sorted_runs(),
            compactions=committed.compactions,
            metrics=feed.job.compaction_metrics() or CompactionMetrics(),
        )

    def _report(self, share: Share, report: EpochReport) -> None:
        self.run.totals = self.run.totals.plus(share.output.counts)
        self.committed.append(share.feed)
        share.feed.listener.epoch(report)


def _properties(counts: DecodeCounts, source_end: str) -> dict[str, str]:
    properties = {SOURCE_END_PROPERTY: source_end}
    if offsets := counts.last_offsets():
        properties[OFFSETS_PROPERTY] = json.dumps(offsets, sort_keys=True)
    return properties
