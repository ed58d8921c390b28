"""Brings the messages of one epoch into tables, in rounds: files written, then commits.

Usually there is one round. Another follows for tables whose plan was outdated when their rows were
written, and for tables that appear in the messages. Each round reads the messages again, for those
tables alone.

Source: Paimon `table/sink/StreamTableCommit.java`,
`flink/sink/MultiTableCommittableChannelComputer.java`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Generic

import pyarrow as pa

from stream_app.clock import Clock
from stream_app.epochs.rounds.epoch_tables import EpochTables
from stream_app.epochs.rounds.newcomer_creator import NewcomerCreator, NewcomerOutcome
from stream_app.epochs.rounds.round_commits import (
    SOURCE_ORDER,
    DecodedEpoch,
    RoundCommitter,
    SourceEpoch,
    TableResult,
)
from stream_app.epochs.rounds.table_feed import TableFeed
from stream_app.epochs.stages.decode_counts import DecodeCounts
from stream_app.epochs.stages.epoch_plan import EpochPlan, EpochSettings, TablePlan
from stream_app.epochs.stages.epoch_runner import EpochOutput, EpochRunner, MessagesT, TableOutput
from stream_app.epochs.stages.epoch_seconds import epoch_seconds
from stream_app.errors import CommitError, StoppedError
from stream_app.kafka.offset_ranges import KafkaPartition
from stream_app.model.source.origin import Origin

_ROUNDS_MAX = 20
_RESERVE = 1_000_000
"""Number of sequence numbers that a further round leaves to other writers.

Without them, a writer that commits during each round would make each round outdated. The reserve
does not help rows that have values of older rows (`DecodeCounts.has_restored_rows`).
"""


@dataclass(slots=True, kw_only=True)
class _EpochWork(Generic[MessagesT]):
    """An epoch between two rounds.

    Attributes:
        lacking_feeds: the tables that need another round.
        creator: creates tables that appear, or None if all messages belong to known tables.
        first_offsets: tables that their source emptied in this epoch → see `TablePlan`.
        creation_problems: source tables whose messages cannot create their table → why.
        complete_feeds: the tables that have the epoch.
        round_count: number of finished rounds.
    """

    decoded_epoch: DecodedEpoch[MessagesT]
    lacking_feeds: list[TableFeed]
    creator: NewcomerCreator | None
    first_offsets: dict[str, Mapping[KafkaPartition, int]] = field(default_factory=dict)
    creation_problems: dict[Origin, str] = field(default_factory=dict)
    complete_feeds: list[TableFeed] = field(default_factory=list)
    round_count: int = 0

    @property
    def epoch(self) -> int:
        return self.decoded_epoch.epoch

    @property
    def is_done(self) -> bool:
        return not self.lacking_feeds and self.creator is None


class RoundRunner(Generic[MessagesT]):
    """The runner of the rounds that bring epochs into tables.

    Attributes:
        newcomer_creator: creates tables that appear, or None if no table may appear.
        read_statements: gets messages that may carry statements of the source, before the commits
            of the tables; the same ones again if the epoch is repeated.
        totals: totals of all epochs and tables that this run has committed.
    """

    def __init__(
        self,
        *,
        tables: EpochTables,
        settings: EpochSettings,
        epoch_runner: EpochRunner[MessagesT],
        clock: Clock,
        newcomer_creator: NewcomerCreator | None = None,
        read_statements: Callable[[pa.Table], None] | None = None,
    ) -> None:
        self.tables = tables
        self.settings = settings
        self.epoch_runner = epoch_runner
        self.clock = clock
        self.newcomer_creator = newcomer_creator
        self.read_statements = read_statements
        self.totals = DecodeCounts()

    def decode(
        self, source_epoch: SourceEpoch[MessagesT], feeds: Iterable[TableFeed]
    ) -> DecodedEpoch[MessagesT]:
        """Read and decode an epoch's messages, and route them, for some of the tables.

        `decode` may run beside `finish` of the previous epoch, and fails no table. `finish` fails a
        table without a plan, and decodes again what an outdated plan has decoded.
        """
        # The settings come first: their splitter must not know more tables than the plan.
        return self._decode(source_epoch, partial(self.plan, _names(feeds), settings=self.settings))

    def _decode(
        self, source_epoch: SourceEpoch[MessagesT], make_plan: Callable[[], EpochPlan]
    ) -> DecodedEpoch[MessagesT]:
        """Decode an epoch by a plan, or by a newer one when the first is outdated.

        `make_plan` makes a plan by the tables' current state.
        """
        start_s, start_ms = self.clock.steady_seconds(), self.clock.now_ms()
        plan = make_plan()
        try:
            routed_epoch = self.epoch_runner.route(source_epoch.epoch, source_epoch.messages, plan)
        except Exception:
            # An expiry may have deleted the key index: each store has its own error for that.
            outdated_plan, plan = plan, make_plan()
            if plan.bases == outdated_plan.bases:
                raise
            routed_epoch = self.epoch_runner.route(source_epoch.epoch, source_epoch.messages, plan)
        return DecodedEpoch(
            source_epoch=source_epoch,
            plan=plan,
            routed_epoch=routed_epoch,
            routing_s=self.clock.steady_seconds() - start_s,
            start_ms=start_ms,
        )

    def finish(
        self,
        decoded_epoch: DecodedEpoch[MessagesT],
        feeds: Iterable[TableFeed],
        creator: NewcomerCreator | None = None,
    ) -> Sequence[TableFeed]:
        """Commit an epoch round by round; return the tables that got it.

        Args:
            feeds: the tables that lack the epoch, whether `decode` knew it or not.
            creator: makes tables that appear; None if all messages are of known tables.

        Raises:
            BaseException: the error of a table, if it ends the job.
            CommitError: unknown tables appear in each round.
        """
        work = _EpochWork(decoded_epoch=decoded_epoch, lacking_feeds=list(feeds), creator=creator)
        while not work.is_done and work.round_count < _ROUNDS_MAX:
            if work.round_count:
                work.decoded_epoch = self._decode_again(work)
            output, outdated_feeds = self._run_round(work)
            work.lacking_feeds = [*outdated_feeds, *self._add_tables(work, output)]
            work.round_count += 1
        for feed in work.lacking_feeds:
            error = CommitError(
                f"epoch {work.epoch} is outdated whenever it is written, {_ROUNDS_MAX} times",
                where=feed.table.location,
                fix="find out which other job commits to the table so often, and stop one of them",
            )
            self.tables.fail(feed, error)
        if work.creator is not None:
            raise CommitError(
                f"unknown tables appear in each of {_ROUNDS_MAX} rounds of epoch {work.epoch}",
                fix="start the job again: it continues with this epoch",
            )
        return work.complete_feeds

    def _run_round(self, work: _EpochWork[MessagesT]) -> tuple[EpochOutput, list[TableFeed]]:
        """Write and commit the tables that can be. Return also those that need another round."""
        decoded_epoch, start_s = work.decoded_epoch, self.clock.steady_seconds()
        plan, unfit_feeds = self._plan_writes(work)
        planned_at_s = self.clock.steady_seconds()
        output = decoded_epoch.routed_epoch.write(plan)
        if self.read_statements is not None and output.statements.num_rows:
            self.read_statements(output.statements.sort_by(SOURCE_ORDER))
        durations = epoch_seconds(
            output.slowest_task,
            wait_s=planned_at_s - start_s,
            routing_s=decoded_epoch.routing_s,
            writing_s=self.clock.steady_seconds() - planned_at_s,
        )
        results = []
        for index, table_plan in plan.table_plans.items():
            feed = self.tables.feeds[index]
            table_output = output.table_outputs.get(index, TableOutput())
            feed.table.add_store_requests(table_output.counts.request_counts)
            results.append(TableResult(feed, table_plan, table_output))
        round_committer = RoundCommitter(
            decoded_epoch=decoded_epoch,
            durations=durations,
            reserve=work.round_count * _RESERVE,
            first_offsets=work.first_offsets,
            clock=self.clock,
            tables=self.tables,
        )
        try:
            outdated_feeds = round_committer.commit(results)
        finally:
            self.totals = self.totals.plus(round_committer.totals)
        work.complete_feeds += round_committer.complete_feeds
        return output, [*unfit_feeds, *outdated_feeds]

    def _add_tables(self, work: _EpochWork[MessagesT], output: EpochOutput) -> Sequence[TableFeed]:
        """Create the tables that have appeared; their next round may bring up more.

        Once a round brings up none, messages without a table are final.
        """
        if (creator := work.creator) is None:
            return ()
        if not output.newcomer_messages.num_rows:
            if (records := output.unassigned_records).num_rows:
                creator.quarantine_unassigned_messages(work.epoch, records.sort_by(SOURCE_ORDER))
            work.creator = None
            return ()
        outcome = creator.create(output.newcomer_messages)
        work.creation_problems.update(outcome.creation_problems)
        self._open_created_tables(outcome, creator)
        return [feed for feed in outcome.feeds if feed.name not in self.tables.held_by_name]

    def _decode_again(self, work: _EpochWork[MessagesT]) -> DecodedEpoch[MessagesT]:
        """Read and decode the epoch's messages again, for the tables that need another round."""
        settings = self.settings
        if work.creator and work.creation_problems:
            settings = self._settings_of(work.creator, work.creation_problems)
        make_plan = partial(self.plan, _names(work.lacking_feeds), work.first_offsets, settings)
        return self._decode(work.decoded_epoch.source_epoch, make_plan)

    def create_table(self, name: str, source_epoch: SourceEpoch[MessagesT]) -> bool:
        """Create a table that could not be created before; return whether it has messages."""
        creator = self.newcomer_creator
        assert creator is not None, "the job has made tables before"
        held_names = frozenset(self.tables.held_by_name.keys() - {name})
        settings = self.settings.with_splitter(creator.splitter(self.tables.feeds, held_names))
        decoded_epoch = self._decode(source_epoch, partial(self.plan, (), settings=settings))
        messages = decoded_epoch.routed_epoch.write(decoded_epoch.plan).newcomer_messages
        if messages.num_rows:
            self._open_created_tables(creator.create(messages, are_held=True), creator)
        return bool(messages.num_rows)

    def skip_held_tables(self) -> None:
        """Make the splitter skip exactly the messages of tables that cannot be created."""
        if self.newcomer_creator is not None:
            self.settings = self._settings_of(self.newcomer_creator, {})

    def plan(
        self,
        names: Collection[str] | None = None,
        first_offsets: Mapping[str, Mapping[KafkaPartition, int]] = MappingProxyType({}),
        settings: EpochSettings | None = None,
    ) -> EpochPlan:
        """Return the plan by which messages of some tables are decoded; without names, of all.

        Args:
            first_offsets: table's name → see `TablePlan.first_offsets`.
        """
        table_plans = {
            index: table_plan
            for index, feed in enumerate(self.tables.feeds)
            if (names is None or feed.name in names)
            and (table_plan := self._plan_of(feed, first_offsets.get(feed.name, {})))
        }
        return EpochPlan(table_plans=table_plans, settings=settings or self.settings)

    def _plan_of(
        self, feed: TableFeed, first_offsets: Mapping[KafkaPartition, int]
    ) -> TablePlan | None:
        """Return the table's plan for decoding, or None; then `_prepare_plan` fails the table."""
        try:
            return feed.table_plan().with_first_offsets(first_offsets)
        except Exception:
            if not self.tables.holds_tables:
                raise
            return None

    def _plan_writes(self, work: _EpochWork[MessagesT]) -> tuple[EpochPlan, list[TableFeed]]:
        """Return the plan of the writable tables, and the tables whose blocks do not fit."""
        decoded_epoch, names = work.decoded_epoch, {feed.name for feed in work.lacking_feeds}
        write_plans, unfit_feeds = dict[int, TablePlan](), list[TableFeed]()
        for index, feed in enumerate(self.tables.feeds):
            if feed.name not in names:
                continue
            if not self.tables.commits_idle_epochs and decoded_epoch.is_idle(index):
                work.complete_feeds.append(feed)  # without a plan
            elif (write_plan := self._prepare_plan(feed, work.round_count * _RESERVE)) is not None:
                routed_plan = decoded_epoch.plan.table_plans.get(index)
                if routed_plan is None or _is_outdated(routed_plan, write_plan, feed):
                    unfit_feeds.append(feed)
                else:
                    write_plans[index] = write_plan.for_routed_rows(routed_plan)
        return decoded_epoch.plan.for_writing(write_plans), unfit_feeds

    def _prepare_plan(self, feed: TableFeed, reserve: int) -> TablePlan | None:
        """Wait until the table accepts rows, and return its plan, or None after a failure."""
        try:
            return feed.table_plan(self.tables.wait_for_sequence_number(feed) + reserve)
        except StoppedError:
            raise
        except Exception as error:
            self.tables.fail(feed, error)
            return None

    def _open_created_tables(self, outcome: NewcomerOutcome, creator: NewcomerCreator) -> None:
        """Open the tables that were created, and hold those that could not be created."""
        names = {feed.name for feed in self.tables.feeds}
        feeds = [feed for feed in outcome.feeds if feed.name not in names]
        for name, error in outcome.failures.items():
            self.tables.hold(name, error)
        self.tables.add(feeds)
        self.settings = self._settings_of(creator, {})
        self.tables.open(feeds)

    def _settings_of(
        self, creator: NewcomerCreator, problems: Mapping[Origin, str]
    ) -> EpochSettings:
        names = frozenset(self.tables.held_by_name)
        return self.settings.with_splitter(creator.splitter(self.tables.feeds, names, problems))


def _names(feeds: Iterable[TableFeed]) -> Collection[str]:
    return {feed.name for feed in feeds}


def _is_outdated(routed_plan: TablePlan, write_plan: TablePlan, feed: TableFeed) -> bool:
    """Return whether rows must be routed again: by another format, or by a changed key index.

    A plan for another schema has another format too.
    """
    return routed_plan.pipeline is not write_plan.pipeline or feed.is_rerouted(routed_plan)
