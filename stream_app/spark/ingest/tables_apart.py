"""The tables of a job in which each succeeds or fails for itself.

A table that is held back catches up later, with the identifier of the newest epoch.
`micro_batch` calls it under its lock.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic

from stream_app.errors import CheckpointError, StoppedError
from stream_app.kafka.offset_ranges import Offsets, begins_for
from stream_app.spark.epoch.decode_counts import TablesSeen
from stream_app.spark.epoch.epoch_runner import Messages
from stream_app.spark.ingest.epoch_log import EpochLog
from stream_app.spark.ingest.epoch_round import COMMIT_THREADS, EpochBegun
from stream_app.spark.ingest.epoch_run import EpochRun
from stream_app.spark.ingest.held_tables import HeldTable, HeldTables, with_new_partitions
from stream_app.spark.ingest.source_tables_met import SourceTablesMet
from stream_app.spark.ingest.table_feed import TableFeed
from stream_app.spark.ingest.truncation import SourcesMet
from stream_app.spark.task_errors import readable
from stream_app.table.map_in_threads import each


@dataclass(slots=True, kw_only=True)
class TablesApart(Generic[Messages]):
    """Implements `table_feed.Isolation`.

    Attributes:
        work: the tables, and what brings an epoch into them.
        held: the tables that wait, and what the job remembers of all.
    """

    work: EpochRun[Messages]
    log: EpochLog
    held: HeldTables
    _sources: SourceTablesMet = field(init=False)
    _epoch: int = field(init=False)
    _begin: Offsets = field(init=False, default_factory=dict)
    _failed: set[str] = field(init=False, default_factory=set)
    _checked: set[str] = field(init=False, default_factory=set)

    def __post_init__(self) -> None:
        self._sources = SourceTablesMet(self.held.folder)
        self._epoch = self.held.tables.epoch

    def open_all(self) -> int:
        """Open the tables that are not held; returns the newest epoch that all of them have."""
        self._begin_behind()
        self.open(self._ready())
        self.held.try_all()
        if self.work.newcomers is not None and self._epoch >= 0:
            known = {feed.name for feed in self.work.feeds}
            for name, waiting in sorted(self.held.tables.held.items()):
                if name not in known:
                    self._make(name, waiting, releases=True)
            self.work.see_held()
        return self.held.tables.epoch

    def open(self, feeds: Sequence[TableFeed]) -> None:
        """See `Isolation.open`; reads several tables at a time."""
        user, newest = self.log.query_id(), self.held.tables.newest
        topics = {feed.name: self.met(feed).keys() for feed in feeds}

        def opened(feed: TableFeed) -> BaseException | None:
            try:
                feed.job.open(user)
                feed.job.check_epochs(self._epoch + 1, newest.get(feed.name, -1))
                self._check_not_read_before(feed)
                feed.listener.opened(feed.job.table, topics[feed.name])
            except Exception as error:
                return error
            return None

        for feed, error in zip(feeds, each(COMMIT_THREADS, opened, feeds), strict=True):
            if error is not None:
                self.failed(feed, error)

    def takes_part(self, feed: TableFeed) -> bool:
        """See `Isolation.takes_part`."""
        return feed.name not in self.held

    def meet(self, seen: Mapping[str, TablesSeen]) -> None:
        """See `Isolation.meet`."""
        self._sources.take(seen)

    def met(self, feed: TableFeed) -> SourcesMet:
        """See `Isolation.met`."""
        return self._sources.of(feed.name)

    def failed(self, feed: TableFeed, error: BaseException) -> None:
        """See `Isolation.failed`: hold the table back from the epoch in progress on."""
        self._failed.add(feed.name)
        if self.held.hold(feed.name, readable(error), self._epoch, self._begin).has_failed:
            feed.job.forget()

    def failed_idle(self, feed: TableFeed, error: BaseException) -> None:
        """Hold back a table that has failed behind the newest epoch, which it has."""
        self._begin_behind()
        self.failed(feed, error)
        self.held.save()

    def has_failed(self, feed: TableFeed) -> bool:
        """Whether the table is held, and not for its compactions alone."""
        waiting = self.held.tables.held.get(feed.name)
        return waiting is not None and waiting.has_failed and not feed.job.is_open

    def _begin_behind(self) -> None:
        """A table that fails now goes on behind the newest epoch."""
        if self._epoch >= 0 and self.log.goes_back:
            with contextlib.suppress(FileNotFoundError):  # `check_epochs` tells of older copies
                self._begin = json.loads(self.log.source_end(self._epoch))

    def not_made(self, name: str, error: BaseException) -> None:
        """See `Isolation.not_made`: hold its messages back from the epoch in progress on."""
        self.held.hold(name, readable(error), self._epoch, self._begin)

    def waiting(self) -> frozenset[str]:
        """See `Isolation.waiting`."""
        return frozenset(self.held.tables.held)

    def check_epochs(self, epoch: int) -> None:
        """Check that what the job remembers of its tables fits Spark's part of the checkpoint.

        Args:
            epoch: the next one.

        Raises:
            CheckpointError: one of both is older than the other.
        """
        remembered = self.held.tables.epoch
        if epoch - 1 <= remembered <= epoch:
            return
        raise CheckpointError(
            f"the checkpoint goes on with epoch {epoch}, and its tables.json is of epoch "
            f"{remembered}",
            where=str(self.held.folder),
            fix="an older copy of one of both was restored, or the checkpoint is of a job of one "
            "table: restore both together, or give the job a new checkpoint",
        )

    def commit(self, begun: EpochBegun[Messages]) -> None:
        """Bring an epoch into the tables that lack it, and held ones up to it."""
        self._epoch = begun.epoch
        end: Offsets = json.loads(begun.source_end)
        self._begin = begins_for(self.log.source_begin(begun.epoch), end)
        self.held.meet(self._begin)
        self._check_first_epochs()
        committed: Sequence[TableFeed] = ()
        if self.held.tables.epoch < begun.epoch:
            lacking = self.work.lacking(self._ready(), begun)
            committed = self.work.finish(begun, lacking, self.work.newcomers)
        self.held.finish(begun.epoch, {feed.name: begun.epoch for feed in committed})
        self.catch_up()

    def _check_first_epochs(self) -> None:
        """Check the tables that were opened before the job knew where its first epoch begins."""
        for feed in self._ready():
            if feed.name not in self._checked and feed.job.is_open:
                try:
                    self._check_not_read_before(feed)
                except CheckpointError as error:
                    self.failed(feed, error)

    def _check_not_read_before(self, feed: TableFeed) -> None:
        """See `TableJob.check_not_read_before`."""
        waiting = self.held.tables.held.get(feed.name)
        begin = self._begin if waiting is None else waiting.begin
        if begin and self.log.goes_back:
            feed.job.check_not_read_before(begin)
            self._checked.add(feed.name)

    def catch_up(self) -> None:
        """Bring held tables up to the newest epoch, once they are due.

        Tables that go on from the same offsets share an epoch of their own.
        """
        due = {} if self._epoch < 0 else self.held.due()
        if self.work.newcomers is not None:
            for name in sorted(due.keys() - {feed.name for feed in self.work.feeds}):
                self._make(name, due[name], releases=False)
        self._failed.clear()
        together: dict[str, list[TableFeed]] = {}
        for feed in [feed for feed in self.work.feeds if feed.name in due]:
            begin = self._begin_of(feed, due[feed.name])
            if begin is not None:
                together.setdefault(json.dumps(begin, sort_keys=True), []).append(feed)
        for text, feeds in together.items():
            self._read_on(json.loads(text), feeds)
            whole = [feed for feed in feeds if feed.name not in self._failed]
            for feed in whole:
                self.held.release(feed.name)
            self.held.finish(self._epoch, {feed.name: feed.job.last_epoch for feed in whole})
        if self._failed and not together:
            self.held.save()

    def _make(self, name: str, waiting: HeldTable, *, releases: bool) -> None:
        """Make a table that could not be made before; then it is held like others.

        Args:
            releases: whether no epoch has been decoded yet that leaves out the table's messages.
        """
        source_end = self.log.source_end(self._epoch)
        end: Offsets = json.loads(source_end)
        try:
            messages = self.work.runner.between(waiting.begin, end)
            if not self.work.make(name, self._epoch, messages, source_end):
                # Nothing is lacking any more, as when the topic has dropped it.
                self.held.go_on(name, end)
                if releases:
                    self.held.release(name)
        except StoppedError:
            raise
        except Exception as error:
            self.not_made(name, error)
        self.held.save()

    def _begin_of(self, feed: TableFeed, waiting: HeldTable) -> Offsets | None:
        """Where a table goes on; None: it cannot, or it must wait."""
        try:
            if not feed.job.is_open:
                self.open([feed])
            if not feed.job.is_open or feed.job.must_wait():
                return None
            if feed.job.last_epoch >= waiting.since_epoch and feed.job.last_source_end:
                # The commit that seemed to fail is in the table.
                return with_new_partitions(json.loads(feed.job.last_source_end), waiting.begin)
        except StoppedError:
            raise
        except Exception as error:
            self.failed(feed, error)
            return None
        return waiting.begin

    def _read_on(self, begin: Offsets, feeds: Sequence[TableFeed]) -> None:
        """Read what tables lack; those that fail are held on."""
        source_end = self.log.source_end(self._epoch)
        try:
            messages = self.work.runner.between(begin, json.loads(source_end))
            begun = self.work.begin(self._epoch, messages, feeds, source_end)
            self.work.finish(begun, feeds)
        except StoppedError:
            raise
        except Exception as error:
            for feed in feeds:
                self.failed(feed, error)

    def _ready(self) -> list[TableFeed]:
        return [feed for feed in self.work.feeds if self.takes_part(feed)]
