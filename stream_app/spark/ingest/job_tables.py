"""The tables of a job: which of them take part in an epoch, and how failed tables are treated.

The policy `OnFailure` decides what an error means. A table that is held back catches up later
(`catch_up`). `epoch_committer` calls this under its lock; to decode, it reads `feeds` without it.
"""

from __future__ import annotations

import contextlib
import enum
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from stream_app.errors import CheckpointError
from stream_app.kafka.offset_ranges import Offsets, begins_for
from stream_app.spark.epoch.decode_counts import TablesSeen
from stream_app.spark.ingest.epoch_log import EpochLog
from stream_app.spark.ingest.held_tables import (
    CompactionWaitError,
    HeldTable,
    held,
    with_new_partitions,
)
from stream_app.spark.ingest.job_state import FILE, JobStateFile
from stream_app.spark.ingest.resume_requests import is_resumed
from stream_app.spark.ingest.table_feed import EpochReport, TableFeed
from stream_app.spark.ingest.truncation import SourcesMet, with_seen
from stream_app.spark.task_errors import readable
from stream_app.table.map_in_threads import each

COMMIT_THREADS = 8


class OnFailure(enum.Enum):
    """What a job does about a table that fails, or that must wait for its compactions.

    STOP: for a job of one table. It ends with the table's error, and waits for compactions. Each
    epoch makes a snapshot, even without rows, so the table itself has its newest epoch. HOLD: for a
    job of many tables. It holds the table back, and the others go on. An epoch without rows for a
    table makes no snapshot, so the job's state has the newest epochs.
    """

    STOP = enum.auto()
    HOLD = enum.auto()


class JobTables:
    """The tables, and which of them wait.

    Attributes:
        feeds: all tables; a table's place here is its index in blocks. Newcomers are appended.
        log: the checkpoint's log of epochs; the query's id there is the commit user.
        newest_begun: the newest epoch that the tables were to take; -1: none.
    """

    def __init__(
        self,
        feeds: Iterable[TableFeed],
        *,
        log: EpochLog,
        state: JobStateFile,
        now_ms: Callable[[], int],
        on_failure: OnFailure,
        on_change: Callable[[str, HeldTable | None], None] = lambda _name, _held: None,
    ) -> None:
        """Start from the job's remembered state.

        Args:
            on_change: called with a table's name, and its state if it is held.
        """
        self.feeds = list(feeds)
        self.log = log
        self.stops = on_failure is OnFailure.STOP
        self.newest_begun = state.state.epoch
        self._file = state
        self._now_ms = now_ms
        self._on_change = on_change
        self._begin: Offsets = {}
        self._checked, self._failed = set[str](), set[str]()
        for name, waiting in self.held.items():
            on_change(name, waiting)

    @property
    def held(self) -> Mapping[str, HeldTable]:
        """The tables that wait, by name."""
        return self._file.state.held

    @property
    def epoch(self) -> int:
        """The newest epoch that all tables but the held ones have; -1: none."""
        if self.stops:
            return min(feed.job.last_epoch for feed in self.feeds)
        return self._file.state.epoch

    def ready(self) -> list[TableFeed]:
        """The tables that are not held."""
        return [feed for feed in self.feeds if feed.name not in self.held]

    def open(self, feeds: Sequence[TableFeed]) -> None:
        """Read the state of tables, several at a time; those that cannot be read have failed."""
        user, newest = self.log.query_id(), self._file.state.newest

        def opened(feed: TableFeed) -> BaseException | None:
            try:
                feed.job.open(user)
                if not self.stops:
                    feed.job.check_epochs(self.newest_begun + 1, newest.get(feed.name, -1))
                self._check_not_read_before(feed)
                feed.listener.opened(feed.job.table, self.met(feed).keys())
            except Exception as error:
                return error
            return None

        for feed, error in zip(feeds, each(COMMIT_THREADS, opened, feeds), strict=True):
            if error is not None:
                self.fail(feed, error)

    def check_next(self, epoch: int) -> None:
        """Check that tables and checkpoint fit together.

        Args:
            epoch: the next one, the first of this run.

        Raises:
            CheckpointError: one of them is older than the other.
        """
        if self.stops:
            for feed in self.feeds:
                feed.job.check_epochs(epoch, epoch - 1)
        elif not epoch - 1 <= self.epoch <= epoch:
            raise CheckpointError(
                f"the checkpoint goes on with epoch {epoch}, and its {FILE} is of epoch "
                f"{self.epoch}",
                where=str(self._file.folder),
                fix="an older copy of one of both was restored, or the checkpoint is of a job of "
                "one table: restore both together, or give the job a new checkpoint",
            )

    def begin(self, epoch: int, source_begin: Offsets, source_end: Offsets) -> None:
        """Begin an epoch of the tables; a table that fails from here on lacks it.

        Args:
            source_begin, source_end: its offsets; none if the source has none.
        """
        self.newest_begun = epoch
        self._begin = begins_for(source_begin, source_end)
        for name, one in list(self.held.items()):
            self.go_on(name, with_new_partitions(one.begin, self._begin))
        # Some tables were opened before the job knew the offsets of its first epoch.
        for feed in self.ready():
            if feed.name not in self._checked and feed.job.is_open:
                try:
                    self._check_not_read_before(feed)
                except CheckpointError as error:
                    self.fail(feed, error)

    def have(self, epoch: int) -> bool:
        """Whether, by the job's state, all tables have an epoch."""
        return not self.stops and self.epoch >= epoch

    def lacking(self, epoch: int, source_end: str) -> list[TableFeed]:
        """The participating tables that do not have the epoch yet."""
        lacking = []
        for feed in self.ready():
            if feed.job.is_committed(epoch, source_end):
                feed.listener.epoch(EpochReport(epoch=epoch, skipped=True))
            else:
                lacking.append(feed)
        return lacking

    def next_sequence_number(self, feed: TableFeed) -> int:
        """The least sequence number of an epoch's rows; waits until the table takes rows.

        Raises:
            CompactionWaitError: the table must wait, and the others go on.
        """
        if self.stops:
            return feed.job.follow_and_wait()
        if feed.job.committer.must_wait():
            raise CompactionWaitError(feed.job.table.location)
        return feed.job.next_sequence_number

    def finish(self, changed: Mapping[str, int]) -> None:
        """Record that all tables but the held ones have the newest epoch that has begun.

        Args:
            changed: table → the newest epoch that brought it changes.
        """
        if not self.stops:
            newest = {**self._file.state.newest, **changed}
            self._file.update(epoch=self.newest_begun, newest=newest)

    def fail(self, feed: TableFeed, error: BaseException) -> None:
        """Record that a table lacks the epoch in progress because of an error.

        Raises:
            BaseException: the error, if it stops the job.
        """
        if self.stops:
            raise error
        self._failed.add(feed.name)
        if self.hold(feed.name, error).has_failed:
            feed.job.forget()

    def fail_idle(self, feed: TableFeed, error: BaseException) -> None:
        """Record that a table failed after it got the newest epoch.

        Raises:
            BaseException: the error, if it stops the job.
        """
        if not self.stops:
            self.await_next()
        self.fail(feed, error)
        self._file.save()

    def take_failed(self) -> set[str]:
        """The names of tables that have failed since the last call."""
        failed, self._failed = self._failed, set()
        return failed

    def has_failed(self, feed: TableFeed) -> bool:
        """Whether the table is held because of a failure, and not only for compactions."""
        waiting = self.held.get(feed.name)
        return waiting is not None and waiting.has_failed and not feed.job.is_open

    def await_next(self) -> None:
        """A table that fails from here on lacks what comes behind the newest epoch."""
        if self.newest_begun >= 0 and self.log.goes_back:
            with contextlib.suppress(FileNotFoundError):  # `check_next` reports older copies
                self._begin = json.loads(self.log.source_end(self.newest_begun))

    def meet(self, seen: Mapping[str, TablesSeen]) -> None:
        """Persist which source tables each table, by its name, is about to get rows from."""
        known = self._file.state.source_tables
        new = {
            name: with_seen(known.get(name, {}), tables)
            for name, tables in seen.items()
            if any(source not in known.get(name, {}).get(topic, ()) for topic, source in tables)
        }
        self._file.update(source_tables={**known, **new})

    def met(self, feed: TableFeed) -> SourcesMet:
        """All source tables whose rows a table may have."""
        return self._file.state.source_tables.get(feed.name, {})

    def warn(self, feed: TableFeed) -> None:
        """Log and remember warnings that a table's messages raise about its columns."""
        self._file.warn(feed.take_warnings())

    def hold(self, name: str, error: BaseException) -> HeldTable:
        """Hold a table back from the epoch in progress on; it may not exist yet."""
        waiting = held(
            readable(error),
            epoch=self.newest_begun,
            begin=self._begin,
            now_ms=self._now_ms(),
            before=self.held.get(name),
        )
        self._file.note(held={**self.held, name: waiting})
        self._on_change(name, waiting)
        return waiting

    def release(self, name: str) -> None:
        """Release a held table, which has all epochs again."""
        self._file.note(held={other: one for other, one in self.held.items() if other != name})
        self._on_change(name, None)

    def go_on(self, name: str, begin: Offsets) -> None:
        """Advance a held table: it lacks nothing before some offsets."""
        self._file.note(held={**self.held, name: replace(self.held[name], begin=begin)})

    def try_all(self) -> None:
        """Make all held tables due: at a start the cause may have been mended."""
        now = self._now_ms()
        self._file.note(held={name: replace(one, retry_ms=now) for name, one in self.held.items()})

    def due(self) -> Mapping[str, HeldTable]:
        """The held tables whose next try is due."""
        now, folder = self._now_ms(), self._file.folder
        return {
            name: one
            for name, one in self.held.items()
            if (one.retry_ms is not None and one.retry_ms <= now) or is_resumed(folder, name, one)
        }

    def save(self) -> None:
        """Persist which tables are held."""
        self._file.save()

    def _check_not_read_before(self, feed: TableFeed) -> None:
        """See `TableJob.check_not_read_before`."""
        waiting = self.held.get(feed.name)
        begin = self._begin if waiting is None else waiting.begin
        if begin and self.log.goes_back:
            feed.job.check_not_read_before(begin)
            self._checked.add(feed.name)
