"""Brings held tables up to the newest epoch: each resumes at its offsets, in an extra epoch.

Such an epoch has the newest epoch's identifier. Tables that resume at the same offsets share one.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Generic

from stream_app.errors import StoppedError
from stream_app.kafka.offset_ranges import Offsets
from stream_app.spark.epoch.epoch_runner import Messages
from stream_app.spark.ingest.epoch_writer import EpochWriter
from stream_app.spark.ingest.held_table import HeldTable, with_new_partitions
from stream_app.spark.ingest.table_feed import TableFeed


class CatchUp(Generic[Messages]):
    """Tries held tables again."""

    def __init__(self, writer: EpochWriter[Messages]) -> None:
        self._writer = writer
        self._tables = writer.tables

    def open_all(self) -> None:
        """A run begins: open the tables that are not held, and make all others due."""
        tables = self._tables
        tables.await_next()
        tables.open(tables.ready())
        tables.held.make_all_due()
        if self._writer.newcomers is not None and tables.newest_begun >= 0:
            known = {feed.name for feed in tables.feeds}
            for name, waiting in sorted(tables.held.by_name.items()):
                if name not in known:
                    self._make(name, waiting, releases=True)
            self._writer.see_held()

    def run(self) -> None:
        """Bring the tables that are due up to the newest epoch."""
        tables = self._tables
        due = {} if tables.newest_begun < 0 else tables.held.due()
        if self._writer.newcomers is not None:
            for name in sorted(due.keys() - {feed.name for feed in tables.feeds}):
                self._make(name, due[name], releases=False)
        together: dict[str, list[TableFeed]] = {}
        for feed in [feed for feed in tables.feeds if feed.name in due]:
            begin = self._begin_of(feed, due[feed.name])
            if begin is not None:
                together.setdefault(json.dumps(begin, sort_keys=True), []).append(feed)
        for text, feeds in together.items():
            self._read_on(json.loads(text), feeds)
        if not together:
            tables.state_file.save()

    def _make(self, name: str, waiting: HeldTable, *, releases: bool) -> None:
        """Create a table that could not be created before; then it is held like others.

        Args:
            releases: whether no epoch that leaves out the table's messages has been decoded yet.
        """
        tables = self._tables
        source_end = tables.epoch_log.source_end(tables.newest_begun)
        end: Offsets = json.loads(source_end)
        try:
            messages = self._writer.runner.between(waiting.begin, end)
            if not self._writer.make(name, tables.newest_begun, messages, source_end):
                # The table lacks nothing any more, for instance because the topic has dropped it.
                tables.held.advance(name, end)
                if releases:
                    tables.held.release(name)
        except StoppedError:
            raise
        except Exception as error:
            tables.hold(name, error)
        tables.state_file.save()

    def _begin_of(self, feed: TableFeed, waiting: HeldTable) -> Offsets | None:
        """The offsets where a table resumes; None: it cannot, or it must wait."""
        try:
            if not feed.job.is_open:
                self._tables.open([feed])
            if not feed.job.is_open or feed.job.committer.must_wait():
                return None
            if feed.job.last_epoch >= waiting.since_epoch and feed.job.last_source_end:
                # The commit that seemed to fail is in the table.
                return with_new_partitions(json.loads(feed.job.last_source_end), waiting.begin)
        except StoppedError:
            raise
        except Exception as error:
            self._tables.fail(feed, error)
            return None
        return waiting.begin

    def _read_on(self, begin: Offsets, feeds: Sequence[TableFeed]) -> None:
        """Read what the tables lack; release those that get it and hold the others on."""
        tables = self._tables
        epoch, source_end = tables.newest_begun, tables.epoch_log.source_end(tables.newest_begun)
        complete: Sequence[TableFeed] = ()
        try:
            messages = self._writer.runner.between(begin, json.loads(source_end))
            decoded = self._writer.decode(epoch, messages, feeds, source_end)
            complete = self._writer.finish(decoded, feeds)
        except StoppedError:
            raise
        except Exception as error:
            for feed in feeds:
                tables.fail(feed, error)
        for feed in complete:
            tables.held.release(feed.name)
        tables.finish(complete)
