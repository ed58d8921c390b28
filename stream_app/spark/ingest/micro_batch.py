"""The sink of the stream: epochs → snapshots of each table of the job.

Spark calls `MicroBatch` for each micro-batch (`foreachBatch`), on the driver. It is the only
committer of the job: idle commits and upkeep take the same lock.

It reads the source once for all tables, and commits each table by itself. When the job ended
between two commits, it writes the epoch only for the tables that lack it. A table that is held back
has offsets of its own; it catches up in an epoch of its own.

Source: Paimon `table/sink/StreamTableCommit.java`.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Generic

from stream_app.errors import CheckpointError, StoppedError
from stream_app.kafka.offset_ranges import Offsets
from stream_app.spark.epoch.decode_counts import DecodeCounts
from stream_app.spark.epoch.epoch_plan import EpochPlan
from stream_app.spark.epoch.epoch_runner import Messages
from stream_app.spark.ingest.epoch_run import COMMIT_THREADS, EpochRun
from stream_app.spark.ingest.held_tables import HeldTables, with_new_partitions
from stream_app.spark.ingest.table_feed import EpochReport, TableFeed
from stream_app.spark.task_errors import first_line, readable
from stream_app.table.map_in_threads import each

_LOOK_S = 5.0
"""Seconds between two looks for held tables whose time has come."""


@dataclass(slots=True, kw_only=True)
class MicroBatch(Generic[Messages]):
    """Writes and commits epochs.

    Attributes:
        work: the tables, and what brings an epoch into them.
        commit_user: the streaming query's id; read in the first epoch, when Spark has set it.
        source_end: the end of an epoch as Spark has recorded it.
        held: the tables that wait; None: an error of one table stops the job.
        failure: the error that stopped the query, with its own text.
        epoch_at_work: the epoch in progress; None: there is none.
    """

    work: EpochRun[Messages]
    commit_user: Callable[[], str]
    source_end: Callable[[int], str]
    held: HeldTables | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)
    stopping: bool = False
    failure: BaseException | None = None
    epoch_at_work: int | None = None
    _begin: Offsets = field(init=False, default_factory=dict)
    _epoch: int = field(init=False, default=-1)
    _is_begun: bool = field(init=False, default=False)
    _looked_at: float = field(init=False, default=float("-inf"))

    def __post_init__(self) -> None:
        if self.held is not None:
            self.work.isolation = self
            self._epoch = self.held.tables.epoch

    def __call__(self, messages: Messages, epoch: int) -> None:
        """Process a micro-batch; skips tables that have the epoch already."""
        with self.lock:
            if self.stopping:
                raise RuntimeError("the job is stopping")
            self.epoch_at_work = epoch
            try:
                if self.held is None:
                    self._for_all(messages, epoch)
                else:
                    self._for_each(messages, epoch, self.held)
            except StoppedError as error:
                raise RuntimeError(error.what) from None
            except BaseException as error:
                self.failure = readable(error)
                # Spark converts the trace to text and searches it with regular expressions, whose
                # stack grows with the text. So Spark gets a short one.
                raise RuntimeError(first_line(self.failure)) from None
            finally:
                self.epoch_at_work = None

    @property
    def feeds(self) -> Sequence[TableFeed]:
        """The tables of the job."""
        return self.work.feeds

    @property
    def totals(self) -> DecodeCounts:
        """Of all epochs and tables that this run has committed."""
        return self.work.totals

    @property
    def is_untouched(self) -> bool:
        """Whether no epoch has arrived yet."""
        return not any(feed.job.is_open for feed in self.feeds)

    def plan(self) -> EpochPlan:
        """The plan for all tables, before the first epoch."""
        return self.work.plan()

    def while_idle(self) -> None:
        """Publish finished compactions, or do upkeep, unless an epoch is in progress.

        Tables that are held back are tried again, when their time has come.
        """
        if not self.lock.acquire(blocking=False):
            return
        try:
            for feed in self.feeds:
                if report := feed.job.while_idle():
                    feed.listener.idle_commit(report)
            now = self.work.clock.steady_seconds()
            if self.held is not None and self._epoch >= 0 and now - self._looked_at >= _LOOK_S:
                self._looked_at = now
                self._catch_up(self._epoch, self.held)
        finally:
            self.lock.release()

    def drain(self) -> None:
        """Wait for all due compactions and publish them; do upkeep even without an epoch."""
        with self.lock:
            for feed in self.feeds:
                for report in feed.job.drain():
                    feed.listener.idle_commit(report)
            if self.held is not None and self._epoch >= 0:
                self._catch_up(self._epoch, self.held)

    def _for_all(self, messages: Messages, epoch: int) -> None:
        """An epoch of a job whose tables succeed or fail together."""
        for feed in self.feeds:
            if not feed.job.is_open:
                feed.job.open(self.commit_user(), epoch, epoch - 1)
        source_end = self.source_end(epoch)
        lacking = self._lacking(self.feeds, epoch, source_end)
        for feed in self.work.run(epoch, messages, lacking, source_end):
            feed.job.upkeep.after_commit()

    def _for_each(self, messages: Messages, epoch: int, held: HeldTables) -> None:
        """An epoch of a job whose tables succeed or fail each for itself."""
        source_end = self.source_end(epoch)
        end: Offsets = json.loads(source_end)
        self._begin = with_new_partitions(self.work.runner.begin_of(messages), end)
        held.meet(self._begin)
        self._epoch = epoch
        if not self._is_begun:
            self._is_begun = True
            _check_remembered(held.tables.epoch, epoch, str(held.folder))
            self.open([feed for feed in self.feeds if feed.name not in held])
        committed: Sequence[TableFeed] = ()
        if held.tables.epoch < epoch:
            ready = [feed for feed in self.feeds if feed.name not in held]
            lacking = self._lacking(ready, epoch, source_end)
            committed = self.work.run(epoch, messages, lacking, source_end)
        held.finish(epoch, {feed.name: epoch for feed in committed})
        self._catch_up(epoch, held)

    def _lacking(
        self, feeds: Iterable[TableFeed], epoch: int, source_end: str
    ) -> Sequence[TableFeed]:
        """The tables that do not have the epoch."""
        found = []
        for feed in feeds:
            if feed.job.is_committed(epoch, source_end):
                feed.listener.epoch(EpochReport(epoch=epoch, skipped=True))
            else:
                found.append(feed)
        return found

    def open(self, feeds: Sequence[TableFeed]) -> None:
        """See `Isolation.open`; reads several tables at a time."""
        assert self.held is not None, "in a job of many tables"
        user, newest = self.commit_user(), self.held.tables.newest

        def opened(feed: TableFeed) -> BaseException | None:
            try:
                feed.job.open(user, self._epoch, newest.get(feed.name, -1))
            except Exception as error:
                return error
            return None

        for feed, error in zip(feeds, each(COMMIT_THREADS, opened, feeds), strict=True):
            if error is not None:
                self.failed(feed, error)

    def failed(self, feed: TableFeed, error: BaseException) -> None:
        """See `Isolation.failed`: hold the table back from the epoch in progress on."""
        assert self.held is not None, "in a job of many tables"
        found = readable(error)
        if self.held.hold(feed.name, found, self._epoch, self._begin).has_failed:
            feed.job.forget()

    def _catch_up(self, epoch: int, held: HeldTables) -> None:
        """Bring held tables up to the others, each in an epoch of its own, once they are due."""
        due = held.due()
        source_end = self.source_end(epoch) if due else ""
        for feed in [feed for feed in self.feeds if feed.name in due]:
            waiting = due[feed.name]
            try:
                if not feed.job.is_open:
                    self.open([feed])
                if not feed.job.is_open or feed.job.must_wait():
                    continue
                begin = waiting.begin
                if feed.job.last_epoch >= waiting.since_epoch and feed.job.last_source_end:
                    # The commit that seemed to fail is in the table.
                    begin = json.loads(feed.job.last_source_end)
                messages = self.work.runner.between(begin, json.loads(source_end))
                self.work.run(epoch, messages, [feed], source_end)
            except StoppedError:
                raise
            except Exception as error:
                self.failed(feed, error)
                held.save()
                continue
            if held.tables.held[feed.name] == waiting:
                held.release(feed.name)
                held.finish(epoch, {feed.name: feed.job.last_epoch})
            else:
                held.save()


def _check_remembered(remembered: int, epoch: int, checkpoint: str) -> None:
    """Check that what the job remembers of its tables fits Spark's part of the checkpoint.

    Raises:
        CheckpointError: one of both is older than the other.
    """
    if epoch - 1 <= remembered <= epoch:
        return
    raise CheckpointError(
        f"the checkpoint goes on with epoch {epoch}, and its tables.json is of epoch {remembered}",
        where=checkpoint,
        fix="an older copy of one of both was restored, or the checkpoint is of a job of one "
        "table: restore both together, or give the job a new checkpoint",
    )
