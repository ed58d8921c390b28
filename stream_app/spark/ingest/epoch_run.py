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
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic

import pyarrow as pa

from stream_app.clock import Clock
from stream_app.errors import CommitError, StoppedError
from stream_app.model.schema.origin import Origin
from stream_app.model.snapshot import SOURCE_END_PROPERTY
from stream_app.spark.epoch.decode_counts import DecodeCounts
from stream_app.spark.epoch.epoch_plan import EpochPlan, EpochShape, TablePlan
from stream_app.spark.epoch.epoch_runner import EpochRunner, Messages, TableOutput, Writing
from stream_app.spark.ingest.dead_letters import SetAside
from stream_app.spark.ingest.held_tables import CompactionWaitError
from stream_app.spark.ingest.table_feed import Arrived, EpochReport, Isolation, Newcomers, TableFeed
from stream_app.spark.task_errors import first_line
from stream_app.table.compact.metrics import CompactionMetrics
from stream_app.table.map_in_threads import each

_LOG = logging.getLogger(__name__)
OFFSETS_PROPERTY = "stream_app.offsets"
"""Key of a snapshot's property: the last offset of each partition that the epoch read, as JSON."""

COMMIT_THREADS = 8
_ROUNDS_MAX = 20
_SOURCE_ORDER = [("topic", "ascending"), ("partition", "ascending"), ("offset", "ascending")]


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


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochBegun(Generic[Messages]):
    """An epoch whose messages are decoded.

    Attributes:
        plan: of the tables that its blocks are for.
        write: writes its blocks.
        route_s: seconds of reading, decoding and routing.
    """

    epoch: int
    messages: Messages
    source_end: str
    plan: EpochPlan
    write: Writing
    route_s: float


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

    def begin(
        self,
        epoch: int,
        messages: Messages,
        feeds: Iterable[TableFeed],
        source_end: str,
        shape: EpochShape | None = None,
    ) -> EpochBegun[Messages]:
        """Read, decode and sort out an epoch's messages for some of the tables.

        Neither the tables nor what is known of them change. So it may run beside `finish` of the
        epoch before.

        Args:
            shape: of this epoch alone; None: that of all.
        """
        began, wanted = self.clock.steady_seconds(), {feed.name for feed in feeds}
        # First the shape: its splitter must not know more tables than the plan.
        shape = shape or self.shape
        parts = [feed.plan() if feed.name in wanted else None for feed in self.feeds]
        plan = EpochPlan(tables=tuple(parts), shape=shape)
        return EpochBegun(
            epoch=epoch,
            messages=messages,
            source_end=source_end,
            plan=plan,
            write=self.runner.route(epoch, messages, plan),
            route_s=self.clock.steady_seconds() - began,
        )

    def finish(
        self,
        begun: EpochBegun[Messages],
        feeds: Iterable[TableFeed],
        newcomers: Newcomers | None = None,
    ) -> Sequence[TableFeed]:
        """Bring an epoch into tables; returns those that it was committed to.

        Args:
            feeds: the tables that lack the epoch, whether `begin` knew it or not.
            newcomers: makes tables that appear; None: the messages are of known tables.
        """
        lacking, looks = list(feeds), newcomers is not None
        committed: list[TableFeed] = []
        untold: dict[Origin, str] = {}
        for _ in range(_ROUNDS_MAX):
            if not (lacking or looks):
                return committed
            began = self.clock.steady_seconds()
            plan, others = self._ready(begun.plan, lacking)
            waited = self.clock.steady_seconds()
            output = begun.write(plan)
            write_s = begun.route_s + self.clock.steady_seconds() - waited
            parts = zip(self.feeds, plan.tables, output.tables, strict=True)
            shares = [Share(feed, part, of) for feed, part, of in parts if part is not None]
            work = _Round(self, begun, Times(waited - began, write_s))
            lacking = [*others, *work.commit(shares)]
            committed += work.committed
            # Another round finds more tables, and the messages of those that could not be made.
            looks = newcomers is not None and output.newcomers.num_rows > 0
            if newcomers is not None and looks:
                lacking += self._arrived(output.newcomers, newcomers, untold)
            elif newcomers is not None:
                if output.unreadable.num_rows:
                    newcomers.unreadable(begun.epoch, output.unreadable.sort_by(_SOURCE_ORDER))
                newcomers = None
            if lacking or looks:
                shape = self._shape_of(newcomers, untold) if newcomers and untold else None
                begun = self.begin(begun.epoch, begun.messages, lacking, begun.source_end, shape)
        raise CommitError(
            f"epoch {begun.epoch} is outdated whenever it is written, {_ROUNDS_MAX} times by now",
            where=", ".join(feed.job.table.location for feed in lacking),
            fix="see which other job commits to the table so often, and stop one of both",
        )

    def make(self, name: str, epoch: int, messages: Messages, source_end: str) -> bool:
        """Make a table that could not be made before; returns whether it has messages."""
        assert self.newcomers is not None, "the job has made tables before"
        assert self.isolation is not None, "such tables come and fail each for itself"
        waiting = self.isolation.waiting() - {name}
        shape = self.shape.with_splitter(self.newcomers.splitter(self.feeds, waiting))
        begun = self.begin(epoch, messages, [], source_end, shape)
        found = begun.write(begun.plan).newcomers
        if found.num_rows:
            self._take(self.newcomers.feeds(found, holds=True), self.newcomers)
        return bool(found.num_rows)

    def see_held(self) -> None:
        """From now on leave out messages of tables that cannot be made, and no others."""
        if self.newcomers is not None:
            self.shape = self._shape_of(self.newcomers, {})

    def lacking(
        self, feeds: Iterable[TableFeed], begun: EpochBegun[Messages]
    ) -> Sequence[TableFeed]:
        """The tables that do not have an epoch."""
        found = []
        for feed in feeds:
            if feed.job.is_committed(begun.epoch, begun.source_end):
                feed.listener.epoch(EpochReport(epoch=begun.epoch, skipped=True))
            else:
                found.append(feed)
        return found

    def plan(self) -> EpochPlan:
        """The plan for all tables, before the first epoch."""
        return EpochPlan(tables=tuple(feed.plan() for feed in self.feeds), shape=self.shape)

    def _ready(
        self, planned: EpochPlan, lacking: Sequence[TableFeed]
    ) -> tuple[EpochPlan, list[TableFeed]]:
        """The plan of the tables that can be written now, and those without blocks that fit."""
        wanted = {feed.name for feed in lacking}
        parts: list[TablePlan | None] = []
        others: list[TableFeed] = []
        for index, feed in enumerate(self.feeds):
            routed = planned.tables[index] if index < len(planned.tables) else None
            part = self._part(feed) if feed.name in wanted else None
            if part is not None and (routed is None or routed.table is not part.table):
                others.append(feed)
                part = None
            parts.append(part)
        return EpochPlan(tables=tuple(parts), shape=planned.shape), others

    def _part(self, feed: TableFeed) -> TablePlan | None:
        """The table's part, once it takes rows; None: it has failed."""
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

    def _arrived(
        self, messages: pa.Table, newcomers: Newcomers, untold: dict[Origin, str]
    ) -> Sequence[TableFeed]:
        assert self.isolation is not None, "such tables come and fail each for itself"
        found = newcomers.feeds(messages)
        untold.update(found.untold)
        self._take(found, newcomers)
        return [feed for feed in found.feeds if self.isolation.takes_part(feed)]

    def _take(self, found: Arrived, newcomers: Newcomers) -> None:
        assert self.isolation is not None, "such tables come and fail each for itself"
        known = {feed.name for feed in self.feeds}
        arrived = [feed for feed in found.feeds if feed.name not in known]
        for name, error in found.failed.items():
            self.isolation.not_made(name, error)
        self.feeds += arrived
        self.shape = self._shape_of(newcomers, {})
        self.isolation.open(arrived)

    def _shape_of(self, newcomers: Newcomers, untold: Mapping[Origin, str]) -> EpochShape:
        assert self.isolation is not None, "such tables come and fail each for itself"
        waiting = self.isolation.waiting()
        return self.shape.with_splitter(newcomers.splitter(self.feeds, waiting, untold))


@dataclass(slots=True)
class _Round(Generic[Messages]):
    """The commits of a round."""

    run: EpochRun[Messages]
    begun: EpochBegun[Messages]
    times: Times
    committed: list[TableFeed] = field(default_factory=list)

    def commit(self, shares: Sequence[Share]) -> list[TableFeed]:
        """Commit all shares; returns the tables whose rows must be written anew."""
        if self.run.isolation is None:
            return self._all_or_nothing(list(shares))
        return self._each_for_itself(shares, self.run.isolation)

    def _all_or_nothing(self, uncommitted: list[Share]) -> list[TableFeed]:
        """Check every table's share before the first commit; then commit one after another.

        Returns:
            All tables, if one of them got a new schema: then nothing is committed.
        """
        try:
            for share in uncommitted:
                share.feed.check_tables(share.output.counts.tables)
            if any([share.feed.is_outdated(share.plan, share.output) for share in uncommitted]):
                for share in uncommitted:
                    share.feed.job.table.discard(share.output.changes)
                return [share.feed for share in uncommitted]
            for share in uncommitted:
                self._set_aside(share)
            while uncommitted:
                share = uncommitted.pop(0)
                self._report(share, self._commit(share))
        except BaseException:
            for share in uncommitted:
                share.feed.job.table.discard(share.output.changes)
            raise
        return []

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
            share.feed.check_tables(share.output.counts.tables)
            if share.feed.is_outdated(share.plan, share.output):
                job.table.discard(share.output.changes)
                return None
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
        bad = self._bad_records(share).sort_by(_SOURCE_ORDER)
        share.set_aside = share.feed.dead_letters.write(self.begun.epoch, bad)

    def _bad_records(self, share: Share) -> pa.Table:
        bad = share.output.bad_records()
        is_kept = share.feed.dead_letters.folder is not None
        if bad.num_rows and is_kept and not self.begun.plan.reads_keys:
            try:
                return self.run.runner.with_keys(self.begun.messages, bad)
            except Exception as error:
                # The topic may have dropped these messages since. The bad records themselves are
                # kept.
                _LOG.warning("the keys of bad records cannot be fetched: %s", first_line(error))
        return bad

    def _commit(self, share: Share) -> EpochReport:
        began = self.run.clock.steady_seconds()
        feed, output = share.feed, share.output
        properties = _properties(output.counts, self.begun.source_end)
        committed = feed.job.commit_epoch(self.begun.epoch, output.changes, properties)
        files = [file for change in output.changes for file in change.written]
        return EpochReport(
            epoch=self.begun.epoch,
            counts=feed.counts_to_tell(output.counts),
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
