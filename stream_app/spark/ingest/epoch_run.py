"""Brings the messages of one epoch into tables: rounds of a Spark job and commits.

One round is the rule. Another one follows for tables whose plan was outdated when their rows were
written, and for tables that appear in the messages. Each round reads the messages anew, for those
tables alone.

Source: Paimon `table/sink/StreamTableCommit.java`, `flink/sink/MultiTableCommittableChannel…`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic

import pyarrow as pa

from stream_app.clock import Clock
from stream_app.errors import CommitError, StoppedError
from stream_app.model.schema.origin import Origin
from stream_app.spark.epoch.decode_counts import DecodeCounts, Where
from stream_app.spark.epoch.epoch_parts import EpochParts, epoch_parts
from stream_app.spark.epoch.epoch_plan import EpochPlan, EpochShape, TablePlan
from stream_app.spark.epoch.epoch_runner import EpochOutput, EpochRunner, Messages
from stream_app.spark.ingest.epoch_round import (
    SOURCE_ORDER,
    EpochBegun,
    Isolation,
    Round,
    Share,
)
from stream_app.spark.ingest.held_tables import CompactionWaitError
from stream_app.spark.ingest.table_feed import Arrived, EpochReport, Newcomers, TableFeed

_ROUNDS_MAX = 20


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
        begins: Mapping[str, Mapping[Where, int]] | None = None,
        shape: EpochShape | None = None,
    ) -> EpochBegun[Messages]:
        """Read, decode and sort out an epoch's messages for some of the tables.

        Neither the tables nor what is known of them change. So it may run beside `finish` of the
        epoch before.

        Args:
            begins: by the table's name; see `TablePlan.begins`.
            shape: of this epoch alone; None: that of all.
        """
        began, began_ms = self.clock.steady_seconds(), self.clock.now_ms()
        wanted = {feed.name for feed in feeds}
        # First the shape: its splitter must not know more tables than the plan.
        shape = shape or self.shape
        begins = begins or {}

        def planned() -> EpochPlan:
            parts = (
                feed.plan().from_offsets(begins.get(feed.name, {})) if feed.name in wanted else None
                for feed in self.feeds
            )
            return EpochPlan(tables=tuple(parts), shape=shape)

        plan = planned()
        try:
            routed = self.runner.route(epoch, messages, plan)
        except Exception:
            # An expiry may have deleted the index of keys by which rows are routed.
            again = planned()
            if again.bases == plan.bases:
                raise
            plan, routed = again, self.runner.route(epoch, messages, again)
        return EpochBegun(
            epoch=epoch,
            messages=messages,
            source_end=source_end,
            plan=plan,
            write=routed.write,
            read=routed.messages,
            route_s=self.clock.steady_seconds() - began,
            began_ms=began_ms,
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
        begins: dict[str, Mapping[Where, int]] = {}
        untold: dict[Origin, str] = {}
        for _ in range(_ROUNDS_MAX):
            if not (lacking or looks):
                return committed
            plan, others, output, times = self._written(begun, lacking)
            parts = zip(self.feeds, plan.tables, output.tables, strict=True)
            shares = [Share(feed, part, of) for feed, part, of in parts if part is not None]
            work = Round(
                begun=begun,
                times=times,
                begins=begins,
                runner=self.runner,
                clock=self.clock,
                isolation=self.isolation,
            )
            try:
                lacking = [*others, *work.commit(shares)]
            finally:
                self.totals = self.totals.plus(work.totals)
            committed += work.committed
            # Another round finds more tables, and the messages of those that could not be made.
            looks = newcomers is not None and output.newcomers.num_rows > 0
            if newcomers is not None and looks:
                lacking += self._arrived(output.newcomers, newcomers, untold)
            elif newcomers is not None:
                if output.unreadable.num_rows:
                    newcomers.unreadable(begun.epoch, output.unreadable.sort_by(SOURCE_ORDER))
                newcomers = None
            if lacking or looks:
                shape = self._shape_of(newcomers, untold) if newcomers and untold else None
                begun = self.begin(
                    begun.epoch, begun.messages, lacking, begun.source_end, begins, shape
                )
        raise CommitError(
            f"epoch {begun.epoch} is outdated whenever it is written, {_ROUNDS_MAX} times by now",
            where=", ".join(feed.job.table.location for feed in lacking),
            fix="see which other job commits to the table so often, and stop one of both",
        )

    def _written(
        self, begun: EpochBegun[Messages], lacking: Sequence[TableFeed]
    ) -> tuple[EpochPlan, list[TableFeed], EpochOutput, EpochParts]:
        """Write what can be written; also the tables that cannot, and the seconds so far."""
        began = self.clock.steady_seconds()
        plan, others = self._ready(begun.plan, lacking)
        waited = self.clock.steady_seconds()
        output = begun.write(plan)
        times = epoch_parts(
            output.slowest,
            wait_s=waited - began,
            routing_s=begun.route_s,
            writing_s=self.clock.steady_seconds() - waited,
        )
        for feed, of_table in zip(self.feeds, output.tables, strict=True):
            feed.job.table.add_store_requests(of_table.counts.requests)
        return plan, others, output, times

    def make(self, name: str, epoch: int, messages: Messages, source_end: str) -> bool:
        """Make a table that could not be made before; returns whether it has messages."""
        assert self.newcomers is not None, "the job has made tables before"
        assert self.isolation is not None, "such tables come and fail each for itself"
        waiting = self.isolation.waiting() - {name}
        shape = self.shape.with_splitter(self.newcomers.splitter(self.feeds, waiting))
        begun = self.begin(epoch, messages, [], source_end, shape=shape)
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
            if part is not None and (routed is None or _is_outdated(routed, part, feed)):
                others.append(feed)
                part = None
            parts.append(part and routed and part.of_routed(routed))
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


def _is_outdated(routed: TablePlan, part: TablePlan, feed: TableFeed) -> bool:
    """Whether rows must be routed anew: by another format, or by an index with other hashes.

    A plan for another schema has another format too.
    """
    if routed.message_format is not part.message_format:
        return True
    return not routed.begins and not feed.job.is_well_routed(routed.basis)
