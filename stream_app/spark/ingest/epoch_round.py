"""The commits of one round of an epoch: what the tasks have written comes into the tables.

In a job of one table, an error ends the epoch and the job. In a job of many (`Isolation`), it holds
its table back, and the others are committed side by side. Rows that were written for another schema
than the table gets, or from before a TRUNCATE, are discarded: their table needs another round.

Source: Paimon `table/sink/StreamTableCommit.java`, `flink/sink/MultiTableCommittableChannel…`.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Generic, Protocol

import pyarrow as pa

from stream_app.clock import Clock
from stream_app.errors import StoppedError
from stream_app.log_facts import about
from stream_app.model.snapshot import (
    SECONDS_PROPERTY,
    SOURCE_END_PROPERTY,
    SOURCE_TIME_PROPERTY,
)
from stream_app.spark.epoch.decode_counts import DecodeCounts, TablesSeen, Where
from stream_app.spark.epoch.epoch_parts import EpochParts
from stream_app.spark.epoch.epoch_plan import EpochPlan, TablePlan
from stream_app.spark.epoch.epoch_runner import EpochRunner, Messages, TableOutput, Writing
from stream_app.spark.ingest.dead_letters import SetAside
from stream_app.spark.ingest.table_feed import EpochReport, TableFeed
from stream_app.spark.ingest.truncation import SourcesMet, counts_from, partition_counts
from stream_app.spark.task_errors import first_line
from stream_app.table.compact.metrics import CompactionMetrics
from stream_app.table.map_in_threads import each

_LOG = logging.getLogger(__name__)
OFFSETS_PROPERTY = "stream_app.offsets"
"""Key of a snapshot's property: the last offset of each partition that the epoch read, as JSON."""
COMMIT_THREADS = 8
SOURCE_ORDER = [("topic", "ascending"), ("partition", "ascending"), ("offset", "ascending")]


class Isolation(Protocol):
    """Lets each table of a job succeed or fail for itself."""

    def failed(self, feed: TableFeed, error: BaseException) -> None:
        """A table lacks the epoch because of an error."""
        ...

    def open(self, feeds: Sequence[TableFeed]) -> None:
        """Read the state of tables; those that cannot be read have failed."""
        ...

    def takes_part(self, feed: TableFeed) -> bool:
        """Whether a table is not held back."""
        ...

    def not_made(self, name: str, error: BaseException) -> None:
        """A table lacks the epoch because it cannot be made for now."""
        ...

    def waiting(self) -> frozenset[str]:
        """The names of the tables that are held back."""
        ...

    def meet(self, seen: Mapping[str, TablesSeen]) -> None:
        """Remember of which source tables each table, by its name, is about to get rows."""
        ...

    def met(self, feed: TableFeed) -> SourcesMet:
        """All source tables of which a table may have rows."""
        ...


@dataclass(slots=True)
class Share:
    """One table's results of a round."""

    feed: TableFeed
    plan: TablePlan
    output: TableOutput
    set_aside: SetAside | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochBegun(Generic[Messages]):
    """An epoch whose messages are decoded.

    Attributes:
        plan: of the tables that its blocks are for.
        write: writes its blocks.
        read: messages, if the runner knows.
        route_s: seconds of reading, decoding and routing.
        began_ms: when that began, since 1970 in UTC.
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
        times: of all parts before the commits.
        begins: of tables that their source has emptied in this epoch; this round adds some.
        isolation: gets the errors of tables; None: there is one table, or all fail together.
        totals, committed: of the tables that this round has committed.
    """

    begun: EpochBegun[Messages]
    times: EpochParts
    begins: dict[str, Mapping[Where, int]]
    runner: EpochRunner[Messages]
    clock: Clock
    isolation: Isolation | None
    totals: DecodeCounts = field(default_factory=DecodeCounts)
    committed: list[TableFeed] = field(default_factory=list)

    def commit(self, shares: Sequence[Share]) -> list[TableFeed]:
        """Commit all shares; returns the tables whose rows must be written anew."""
        if self.isolation is None:
            return self._all_or_nothing(list(shares))
        return self._each_for_itself(shares, self.isolation)

    def _all_or_nothing(self, uncommitted: list[Share]) -> list[TableFeed]:
        """Check every table's share before the first commit; then commit one after another.

        Returns:
            All tables, if one of them must be written anew: then nothing is committed.
        """
        try:
            others = [
                share.feed.has_others(share.plan, share.output.counts) for share in uncommitted
            ]
            if any(others) or any(
                [self._is_outdated(share, share.feed.met()) for share in uncommitted]
            ):
                for share in uncommitted:
                    share.feed.job.table.discard(share.output.changes)
                return [share.feed for share in uncommitted]
            for share in uncommitted:
                self._set_aside(share)
            while uncommitted:
                share = uncommitted.pop(0)
                with about(table=share.feed.job.table.label, epoch=self.begun.epoch):
                    report = self._commit(share)
                self._report(share, report)
        except BaseException:
            for share in uncommitted:
                share.feed.job.table.discard(share.output.changes)
            raise
        return []

    def _each_for_itself(self, shares: Sequence[Share], isolation: Isolation) -> list[TableFeed]:
        for share in shares:
            if share.output.is_empty and share.output.counts.messages:
                self.totals = self.totals.plus(share.output.counts)
        shares = [share for share in shares if not share.output.is_empty]
        self._meet(isolation, shares)
        outdated: list[TableFeed] = []
        outcome_of = partial(self._outcome, isolation)
        outcomes = each(COMMIT_THREADS, outcome_of, shares)
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

    def _meet(self, isolation: Isolation, shares: Sequence[Share]) -> None:
        try:
            isolation.meet({share.feed.name: share.output.counts.tables for share in shares})
        except BaseException:
            for share in shares:
                share.feed.job.table.discard(share.output.changes)
            raise

    def _outcome(self, isolation: Isolation, share: Share) -> EpochReport | BaseException | None:
        """Commit a table's share, in a thread.

        Returns:
            The error that holds the table back; None: other writers, a new schema or a TRUNCATE
            have come between, and the rows must be written anew.
        """
        with about(table=share.feed.job.table.label, epoch=self.begun.epoch):
            return self._outcome_of(isolation, share)

    def _outcome_of(self, isolation: Isolation, share: Share) -> EpochReport | BaseException | None:
        job, discarded = share.feed.job, False
        try:
            if share.output.failure is not None:
                raise share.output.failure
            if self._is_outdated(share, isolation.met(share.feed)):
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

    def _is_outdated(self, share: Share, met: SourcesMet) -> bool:
        """Whether a table's rows must be written anew: by another schema, or without some.

        Raises:
            WrongSourceError: the table cannot follow what its messages tell.
        """
        name, counts = share.feed.name, share.output.counts
        self.begins[name] = {}
        if counts.truncated:
            partitions = partition_counts(self.begun.source_end)
            self.begins[name] = counts_from(counts, met, partitions)
        has_rows_too_many = self.begins[name] != share.plan.begins
        return share.feed.is_outdated(share.plan, share.output) or has_rows_too_many

    def _set_aside(self, share: Share) -> None:
        if share.output.bad:
            bad = self._bad_records(share).sort_by(SOURCE_ORDER)
            share.set_aside = share.feed.dead_letters.write(self.begun.epoch, bad)

    def _bad_records(self, share: Share) -> pa.Table:
        bad = share.output.bad_records()
        is_kept = share.feed.dead_letters.folder is not None
        if bad.num_rows and is_kept and not self.begun.plan.reads_keys:
            try:
                return self.runner.with_keys(self.begun.messages, bad)
            except Exception as error:
                # The topic may have dropped these messages since. The bad records themselves are
                # kept.
                _LOG.warning("the keys of bad records cannot be fetched: %s", first_line(error))
        return bad

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
            set_aside=share.set_aside,
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
