"""Tracks the tables of a job: which ones take part in an epoch, and what a table's error means.

A job of one table ends with the table's error, and waits for its compactions (`StoppingTables`). A
job of many holds back a table that fails or must wait (`IndependentTables`): the others continue,
and the held table catches up later. In a first load it cannot (`LoadingTables`). `epoch_committer`
calls this under its lock; to decode, it reads `feeds` without the lock.
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

from stream_app.checkpoint.epoch_log import EpochLog
from stream_app.checkpoint.held_table import HeldTable, with_new_partitions
from stream_app.checkpoint.held_tables import HeldTables
from stream_app.checkpoint.job_state import (
    JOB_STATE_FILE,
    JobStateFile,
    JobWarning,
    SourceTableNames,
)
from stream_app.epochs.rounds.table_feed import TableFeed
from stream_app.epochs.task_errors import readable_error
from stream_app.errors import CheckpointError, CompactionWaitError, StoppedError
from stream_app.kafka.offset_ranges import starts_for
from stream_app.model.job_epoch import Offsets
from stream_app.table.map_in_threads import map_in_threads

COMMIT_THREAD_COUNT = 8


@contextlib.contextmanager
def contain_failure(on_failure: Callable[[Exception], object]) -> Iterator[None]:
    """Pass a failure within the block to `on_failure`; the end of the job is not a failure."""
    try:
        yield
    except StoppedError:
        raise
    except Exception as error:
        on_failure(error)


class EpochTables(ABC):
    """The tables of a job.

    Attributes:
        feeds: all tables, at their index in blocks. New tables are appended.
        epoch_log: the checkpoint's log of epochs; the query's id there is the commit user.
        state_file: the job's state.
        held_tables: the tables that wait.
        newest_begun_epoch: the newest epoch that the tables were to take, or -1.
        commits_at_once: the number of tables whose commits begin together, or None for all.
        commits_idle_epochs: whether an epoch without rows for a table makes a snapshot too.
        holds_tables: whether a table that fails is held, and the others continue.
    """

    commits_at_once: ClassVar[int | None]
    commits_idle_epochs: ClassVar[bool]
    holds_tables: ClassVar[bool]

    def __init__(
        self,
        feeds: Iterable[TableFeed],
        *,
        epoch_log: EpochLog,
        state_file: JobStateFile,
        now_ms: Callable[[], int],
        on_change: Callable[[str, HeldTable | None], None] = lambda _name, _held_table: None,
        load_epoch_count: int = 0,
    ) -> None:
        """Start from the state in the job's checkpoint.

        Args:
            on_change: called with a table's name, and its state if it is held.
            load_epoch_count: the number of epochs of the first load, with which the job begins.
        """
        self.feeds = list(feeds)
        self.epoch_log = epoch_log
        self.state_file = state_file
        self.held_tables = HeldTables(state_file, now_ms, on_change)
        self.newest_begun_epoch = state_file.state.epoch
        self._load_epoch_count = load_epoch_count
        self._start_offsets: Offsets = {}
        self._checked_names = set[str]()

    @property
    @abstractmethod
    def epoch(self) -> int:
        """The newest epoch that all tables but the held ones have, or -1."""

    def add(self, feeds: Iterable[TableFeed]) -> None:
        """Add new tables; `open` opens them."""
        self.feeds += feeds

    @property
    def held_by_name(self) -> Mapping[str, HeldTable]:
        """The held tables by their names; one may not exist yet."""
        return self.held_tables.by_name

    def ready(self) -> list[TableFeed]:
        """Return the tables that are not held."""
        return [feed for feed in self.feeds if feed.name not in self.held_by_name]

    def source_tables_of(self, name: str) -> SourceTableNames:
        """Return the source tables whose rows a table has, by topic."""
        return self.state_file.state.source_tables_of(name)

    def open(self, feeds: Sequence[TableFeed]) -> None:
        """Read the state of tables, several at a time; a table that cannot be read has failed."""
        commit_user = self.epoch_log.query_id()

        def try_open(feed: TableFeed) -> BaseException | None:
            try:
                feed.table_job.open(commit_user)
                self._check_opened_table(feed)
                self._check_not_read_before(feed)
                feed.listener.on_open_table(feed.table, self.source_tables_of(feed.name))
            except Exception as error:
                return error
            return None

        for feed, error in zip(
            feeds, map_in_threads(COMMIT_THREAD_COUNT, try_open, feeds), strict=True
        ):
            if error is not None:
                self.fail(feed, error)

    @abstractmethod
    def check_next_epoch(self, epoch: int) -> None:
        """Check that tables and checkpoint fit together.

        Args:
            epoch: the next one, the first of this run.

        Raises:
            CheckpointError: one of them is older than the other.
        """

    def begin(self, epoch: int, start_offsets: Offsets, end_offsets: Offsets) -> None:
        """Begin an epoch of the tables. A table that fails from now on lacks this epoch.

        Args:
            start_offsets, end_offsets: its offsets; none if the source has none.
        """
        self.newest_begun_epoch = epoch
        self._start_offsets = starts_for(start_offsets, end_offsets)
        for name, held_table in list(self.held_by_name.items()):
            self.held_tables.advance(
                name, with_new_partitions(held_table.start, self._start_offsets)
            )
        # Some tables were opened before the job knew the offsets of its first epoch.
        for feed in self.ready():
            if feed.name not in self._checked_names and feed.table_job.is_open:
                try:
                    self._check_not_read_before(feed)
                except CheckpointError as error:
                    self.fail(feed, error)

    @abstractmethod
    def all_have_epoch(self, epoch: int) -> bool:
        """Return whether the job's state says that all tables have an epoch."""

    @abstractmethod
    def wait_for_sequence_number(self, feed: TableFeed) -> int:
        """Wait until the table accepts rows, and return their smallest sequence number.

        Raises:
            CompactionWaitError: the table must wait, and the others continue.
        """

    def record_complete(self, complete_feeds: Iterable[TableFeed]) -> None:
        """Record that all tables but the held ones have the newest epoch that has begun.

        Args:
            complete_feeds: the tables that have the epoch, with or without changes.
        """
        self._write_newest_epochs(complete_feeds)
        self.state_file.write_transient_warnings(
            "callbacks",
            [
                JobWarning(table=feed.table.label, problem=problem.problem, fix=problem.fix)
                for feed in self.feeds
                for problem in feed.table_job.callback_problems()
            ],
        )

    @abstractmethod
    def _write_newest_epochs(self, complete_feeds: Iterable[TableFeed]) -> None:
        """Record the newest epochs of tables that have got the newest one."""

    @abstractmethod
    def fail(self, feed: TableFeed, error: BaseException) -> None:
        """Record that a table lacks the epoch in progress because of an error.

        Raises:
            BaseException: the error, if it ends the job.
        """

    def fail_between_epochs(self, feed: TableFeed, error: BaseException) -> None:
        """Record that a table failed after it got the newest epoch.

        Raises:
            BaseException: the error, if it ends the job.
        """
        self.await_next()
        self.fail(feed, error)
        self.state_file.write()

    def has_failed(self, feed: TableFeed) -> bool:
        """Return whether the table is held because of a failure, and not only for compactions."""
        held_table = self.held_by_name.get(feed.name)
        return held_table is not None and held_table.has_failed and not feed.table_job.is_open

    def await_next(self) -> None:
        """Record that a table that fails from now on lacks only what follows the newest epoch."""
        if self.newest_begun_epoch >= 0 and self.epoch_log.can_reread:
            with contextlib.suppress(FileNotFoundError):  # `check_next_epoch` reports older copies
                self._start_offsets = self.epoch_log.end_offsets(self.newest_begun_epoch)

    def hold(self, name: str, error: BaseException) -> HeldTable:
        """Hold a table back from the epoch in progress on; it may not exist yet."""
        cause = readable_error(error)
        return self.held_tables.hold(
            name, cause, epoch=self.newest_begun_epoch, start=self._start_offsets
        )

    def _check_not_read_before(self, feed: TableFeed) -> None:
        """See `TableJob.check_not_read_before`."""
        held_table = self.held_by_name.get(feed.name)
        start_offsets = self._start_offsets if held_table is None else held_table.start
        if start_offsets and self.epoch_log.can_reread:
            feed.table_job.check_not_read_before(start_offsets)
            self._checked_names.add(feed.name)

    @abstractmethod
    def _check_opened_table(self, feed: TableFeed) -> None:
        """Check that an opened table has the epochs that the job's state names."""


class StoppingTables(EpochTables):
    """The table of a job of one table: its error ends the job.

    Each epoch makes a snapshot, even without rows, so the table itself has its newest epoch.
    """

    commits_at_once = 1
    commits_idle_epochs = True
    holds_tables = False

    @property
    def epoch(self) -> int:
        """The newest epoch that the snapshots of all tables record."""
        return min(feed.table_job.last_epoch for feed in self.feeds)

    def check_next_epoch(self, epoch: int) -> None:
        """Check by the epochs that the tables' snapshots record."""
        for feed in self.feeds:
            feed.table_job.check_epochs(epoch, epoch - 1)

    def all_have_epoch(self, epoch: int) -> bool:
        """Return False, so that each table is asked itself."""
        return False

    def wait_for_sequence_number(self, feed: TableFeed) -> int:
        """Prepare the table, which waits while a bucket has too many sorted runs."""
        return feed.table_job.prepare_epoch()

    def _write_newest_epochs(self, complete_feeds: Iterable[TableFeed]) -> None:
        """Do nothing, because each epoch makes a snapshot, which has the epoch's number."""

    def fail(self, feed: TableFeed, error: BaseException) -> None:
        """Raise the error, which ends the job."""
        raise error

    def _check_opened_table(self, feed: TableFeed) -> None:
        """Do nothing, because the state names no epochs. `check_next_epoch` checks the table."""


class IndependentTables(EpochTables):
    """The tables of a job of many: one that fails or must wait is held back.

    An epoch without rows for a table makes no snapshot, so the job's state has the newest epochs.
    """

    commits_at_once = None
    commits_idle_epochs = False
    holds_tables = True

    @property
    def epoch(self) -> int:
        """The epoch that the checkpoint's state records."""
        return self.state_file.state.epoch

    def check_next_epoch(self, epoch: int) -> None:
        """Check that the checkpoint's state records the epoch before, or already this one."""
        if not epoch - 1 <= self.epoch <= epoch:
            raise CheckpointError(
                f"the checkpoint continues with epoch {epoch}, and its {JOB_STATE_FILE} is of "
                f"epoch {self.epoch}",
                where=str(self.state_file.checkpoint),
                fix="an older copy of one of the two was restored, or the checkpoint is of a job "
                "of one table: restore both together, or give the job a new checkpoint",
            )

    def all_have_epoch(self, epoch: int) -> bool:
        """Return whether the checkpoint's state records the epoch."""
        return self.epoch >= epoch

    def wait_for_sequence_number(self, feed: TableFeed) -> int:
        """Return the number at once; an error holds back a table that must wait."""
        if not feed.table_job.stream_commit.relieve_back_pressure():
            raise CompactionWaitError(
                "a bucket has too many sorted runs: the table waits for its compactions",
                where=feed.table.location,
            )
        return feed.table_job.next_sequence_number

    def _write_newest_epochs(self, complete_feeds: Iterable[TableFeed]) -> None:
        state = self.state_file.state
        newest_epochs = dict(state.newest_epochs)
        newest_epochs |= {
            feed.name: last_epoch
            for feed in complete_feeds
            if (last_epoch := feed.table_job.last_epoch) >= 0
        }
        self.state_file.update(
            replace(state, epoch=self.newest_begun_epoch, newest_epochs=newest_epochs)
        )

    def fail(self, feed: TableFeed, error: BaseException) -> None:
        """Hold the table back, so that other tables go on."""
        if self.hold(feed.name, error).has_failed:
            feed.table_job.forget()

    def _check_opened_table(self, feed: TableFeed) -> None:
        newest_epoch = self.state_file.state.newest_epochs.get(feed.name, -1)
        feed.table_job.check_epochs(self.newest_begun_epoch + 1, newest_epoch)


class LoadingTables(IndependentTables):
    """The tables of a job of many whose first epochs are a first load.

    A held table reads topics alone. So no table is held while the load lasts, and one that fails
    ends the job.
    """

    def wait_for_sequence_number(self, feed: TableFeed) -> int:
        """Wait for the compactions of the table while the first load lasts."""
        return (
            feed.table_job.prepare_epoch()
            if self._load_lasts
            else super().wait_for_sequence_number(feed)
        )

    def fail(self, feed: TableFeed, error: BaseException) -> None:
        """Raise the error while the first load lasts, which ends the job."""
        if self._load_lasts:
            raise error
        super().fail(feed, error)

    @property
    def _load_lasts(self) -> bool:
        return self.newest_begun_epoch < self._load_epoch_count
