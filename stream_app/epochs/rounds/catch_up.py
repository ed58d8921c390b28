"""Retries the held tables of a job, and brings them up to the newest epoch.

`epoch_committer` calls it under its lock, between two epochs.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Generic, NamedTuple

from stream_app.checkpoint.held_table import HeldTable, with_new_partitions
from stream_app.epochs.rounds.epoch_tables import contain_failure
from stream_app.epochs.rounds.round_commits import SourceEpoch
from stream_app.epochs.rounds.round_runner import RoundRunner
from stream_app.epochs.rounds.table_feed import TableFeed
from stream_app.epochs.stages.epoch_runner import MessagesT
from stream_app.format.snapshot_properties.source_end_json import offsets_of_topics
from stream_app.model.job_epoch import Offsets

_OffsetsKey = tuple[tuple[str, tuple[tuple[str, int], ...]], ...]


def _key_of(offsets: Offsets) -> _OffsetsKey:
    """Return a hashable key, which is equal for equal offsets."""
    return tuple((topic, tuple(sorted(offsets[topic].items()))) for topic in sorted(offsets))


class _ResumingTables(NamedTuple):
    """Tables that resume at the same offsets."""

    start_offsets: Offsets
    feeds: list[TableFeed]


class CatchUp(Generic[MessagesT]):
    """The step that retries held tables."""

    def __init__(self, round_runner: RoundRunner[MessagesT]) -> None:
        self._round_runner = round_runner
        self._tables = round_runner.tables

    def open_recovered_tables(self) -> None:
        """Open the tables that are not held, at the start of a run, and make the held ones due."""
        tables = self._tables
        tables.await_next()
        tables.open(tables.ready())
        tables.held_tables.make_all_tables_due()
        if self._round_runner.newcomer_creator is not None and tables.newest_begun_epoch >= 0:
            names = {feed.name for feed in tables.feeds}
            for name, held_table in sorted(tables.held_by_name.items()):
                if name not in names:
                    self._create_held_table(name, held_table, releases_table=True)
            self._round_runner.skip_held_tables()

    def run(self) -> None:
        """Bring the tables that are due up to the newest epoch."""
        tables = self._tables
        due_tables = {} if tables.newest_begun_epoch < 0 else tables.held_tables.due()
        if self._round_runner.newcomer_creator is not None:
            for name in sorted(due_tables.keys() - {feed.name for feed in tables.feeds}):
                self._create_held_table(name, due_tables[name], releases_table=False)
        groups: dict[_OffsetsKey, _ResumingTables] = {}
        for feed in [feed for feed in tables.feeds if feed.name in due_tables]:
            start_offsets = self._prepare_resumption(feed, due_tables[feed.name])
            if start_offsets is not None:
                groups.setdefault(
                    _key_of(start_offsets), _ResumingTables(start_offsets, [])
                ).feeds.append(feed)
        for resuming_tables in groups.values():
            self._read_missing_messages(resuming_tables.start_offsets, resuming_tables.feeds)
        if not groups:
            tables.state_file.write()

    def _create_held_table(self, name: str, held_table: HeldTable, *, releases_table: bool) -> None:
        """Create a table that could not be created earlier; from then on it is held like others.

        Args:
            releases_table: whether no epoch that leaves out the table's messages has been decoded
                yet.
        """
        tables = self._tables
        source_end = tables.epoch_log.source_end(tables.newest_begun_epoch)
        end_offsets = offsets_of_topics(source_end)
        with contain_failure(partial(tables.hold, name)):
            messages = self._round_runner.epoch_runner.messages_between(
                held_table.start, end_offsets
            )
            source_epoch = SourceEpoch(tables.newest_begun_epoch, messages, source_end)
            if not self._round_runner.create_table(name, source_epoch):
                # The table lacks no message any more, for instance because the topic has deleted
                # the messages.
                tables.held_tables.advance(name, end_offsets)
                if releases_table:
                    tables.held_tables.release(name)
        tables.state_file.write()

    def _prepare_resumption(self, feed: TableFeed, held_table: HeldTable) -> Offsets | None:
        """Open a table, and return the offsets at which it resumes; None if it cannot yet."""
        start_offsets: Offsets | None = None
        with contain_failure(partial(self._tables.fail, feed)):
            if not feed.table_job.is_open:
                self._tables.open([feed])
            if not feed.table_job.is_open:
                return None
            if not feed.table_job.stream_commit.relieve_back_pressure():
                return None
            source_end = feed.table_job.last_source_end
            if feed.table_job.last_epoch >= held_table.since_epoch and source_end:
                # The commit that seemed to fail is in the table.
                start_offsets = with_new_partitions(offsets_of_topics(source_end), held_table.start)
            else:
                start_offsets = held_table.start
        return start_offsets

    def _read_missing_messages(self, start_offsets: Offsets, feeds: Sequence[TableFeed]) -> None:
        """Read the messages that the tables lack, and release the tables that get them."""
        tables = self._tables
        epoch = tables.newest_begun_epoch
        source_end = tables.epoch_log.source_end(epoch)
        complete_feeds: Sequence[TableFeed] = ()

        def fail_all(error: Exception) -> None:
            for feed in feeds:
                tables.fail(feed, error)

        with contain_failure(fail_all):
            messages = self._round_runner.epoch_runner.messages_between(
                start_offsets, offsets_of_topics(source_end)
            )
            decoded_epoch = self._round_runner.decode(
                SourceEpoch(epoch, messages, source_end), feeds
            )
            complete_feeds = self._round_runner.finish(decoded_epoch, feeds)
        for feed in complete_feeds:
            tables.held_tables.release(feed.name)
        tables.record_complete(complete_feeds)
