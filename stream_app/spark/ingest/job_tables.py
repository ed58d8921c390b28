"""The tables of a job: which of them take part in an epoch, and what a table's error means.

`OnFailure` decides the latter. A table that is held back catches up later (`catch_up`).
`epoch_committer` calls this under its lock; to decode, it reads `feeds` without it.
"""

from __future__ import annotations

import contextlib
import enum
import json
from collections.abc import Callable, Iterable, Sequence

from stream_app.errors import CheckpointError
from stream_app.kafka.offset_ranges import Offsets, begins_for
from stream_app.spark.ingest.epoch_log import EpochLog
from stream_app.spark.ingest.held_table import (
    CompactionWaitError,
    HeldTable,
    with_new_partitions,
)
from stream_app.spark.ingest.held_tables import HeldTables
from stream_app.spark.ingest.job_state import FILE, JobStateFile, JobWarning
from stream_app.spark.ingest.table_feed import EpochReport, TableFeed
from stream_app.table.map_in_threads import map_in_threads

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
    """The tables of a job.

    Attributes:
        feeds: all tables; a table's place here is its index in blocks. Newcomers are appended.
        epoch_log: the checkpoint's log of epochs; the query's id there is the commit user.
        state_file: the job's state.
        held: the tables that wait.
        stops: whether a table's error stops the job.
        newest_begun: the newest epoch that the tables were to take; -1: none.
    """

    def __init__(
        self,
        feeds: Iterable[TableFeed],
        *,
        epoch_log: EpochLog,
        state_file: JobStateFile,
        now_ms: Callable[[], int],
        on_failure: OnFailure,
        on_change: Callable[[str, HeldTable | None], None] = lambda _name, _held: None,
    ) -> None:
        """Start from the job's remembered state.

        Args:
            on_change: see `HeldTables`.
        """
        self.feeds = list(feeds)
        self.epoch_log = epoch_log
        self.state_file = state_file
        self.held = HeldTables(state_file, now_ms, on_change)
        self.stops = on_failure is OnFailure.STOP
        self.newest_begun = state_file.state.epoch
        self._begin: Offsets = {}
        self._checked = set[str]()

    @property
    def epoch(self) -> int:
        """The newest epoch that all tables but the held ones have; -1: none."""
        if self.stops:
            return min(feed.job.last_epoch for feed in self.feeds)
        return self.state_file.state.epoch

    def ready(self) -> list[TableFeed]:
        """The tables that are not held."""
        return [feed for feed in self.feeds if feed.name not in self.held.by_name]

    def open(self, feeds: Sequence[TableFeed]) -> None:
        """Read the state of tables, several at a time; those that cannot be read have failed."""
        user, state = self.epoch_log.query_id(), self.state_file.state

        def opened(feed: TableFeed) -> BaseException | None:
            try:
                feed.job.open(user)
                if not self.stops:
                    feed.job.check_epochs(self.newest_begun + 1, state.newest.get(feed.name, -1))
                self._check_not_read_before(feed)
                feed.listener.opened(feed.job.table, state.source_tables_of(feed.name))
            except Exception as error:
                return error
            return None

        for feed, error in zip(feeds, map_in_threads(COMMIT_THREADS, opened, feeds), strict=True):
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
                where=str(self.state_file.folder),
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
        for name, table in list(self.held.by_name.items()):
            self.held.advance(name, with_new_partitions(table.begin, self._begin))
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

    def finish(self, complete: Iterable[TableFeed]) -> None:
        """Record that all tables but the held ones have the newest epoch that has begun.

        Args:
            complete: the tables that have got it, with or without changes.
        """
        if not self.stops:
            newest = dict(self.state_file.state.newest)
            newest |= {feed.name: last for feed in complete if (last := feed.job.last_epoch) >= 0}
            self.state_file.update(epoch=self.newest_begun, newest=newest)
        self.state_file.note_passing(
            [
                JobWarning(table=feed.job.table.label, what=problem.what, fix=problem.fix)
                for feed in self.feeds
                for problem in feed.job.callback_problems()
            ]
        )

    def fail(self, feed: TableFeed, error: BaseException) -> None:
        """Record that a table lacks the epoch in progress because of an error.

        Raises:
            BaseException: the error, if it stops the job.
        """
        if self.stops:
            raise error
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
        self.state_file.save()

    def has_failed(self, feed: TableFeed) -> bool:
        """Whether the table is held because of a failure, and not only for compactions."""
        waiting = self.held.by_name.get(feed.name)
        return waiting is not None and waiting.has_failed and not feed.job.is_open

    def await_next(self) -> None:
        """A table that fails from here on lacks what comes behind the newest epoch."""
        if self.newest_begun >= 0 and self.epoch_log.goes_back:
            with contextlib.suppress(FileNotFoundError):  # `check_next` reports older copies
                self._begin = json.loads(self.epoch_log.source_end(self.newest_begun))

    def hold(self, name: str, error: BaseException) -> HeldTable:
        """Hold a table back from the epoch in progress on; it may not exist yet."""
        return self.held.hold(name, error, epoch=self.newest_begun, begin=self._begin)

    def _check_not_read_before(self, feed: TableFeed) -> None:
        """See `TableJob.check_not_read_before`."""
        waiting = self.held.by_name.get(feed.name)
        begin = self._begin if waiting is None else waiting.begin
        if begin and self.epoch_log.goes_back:
            feed.job.check_not_read_before(begin)
            self._checked.add(feed.name)
