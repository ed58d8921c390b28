"""Commits each epoch of the stream to all tables of the job.

The stream calls `EpochCommitter` for each epoch, on the driver: `spark.stream.topic_stream`, or
Spark by `foreachBatch`. It decodes the epoch, and a thread writes and commits it, so that the next
epoch can be decoded meanwhile. At most one epoch waits for this thread. If the job ends before the
commit, the checkpoint records the epoch as done although the table lacks it. The next job reads the
epoch again, from the offsets in the checkpoint.

A lock ensures that only one thread commits: between two epochs the main thread publishes
compactions, does upkeep and retries held tables. If the job has ended between the commits of two
tables, the next job writes the epoch only for tables that lack it.

Held tables resume at their offsets, in an extra epoch, which brings them up to the newest one. Such
an epoch has the newest epoch's identifier. Tables that resume at the same offsets share one.

Source: Paimon `table/sink/StreamTableCommit.java`.
"""

from __future__ import annotations

import contextlib
import enum
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Generic

from stream_app.epochs.rounds.catch_up import CatchUp
from stream_app.epochs.rounds.epoch_tables import contain_failure
from stream_app.epochs.rounds.round_commits import DecodedEpoch, SourceEpoch
from stream_app.epochs.rounds.round_runner import RoundRunner
from stream_app.epochs.rounds.table_feed import TableFeed
from stream_app.epochs.rounds.table_listener import EpochReport
from stream_app.epochs.stages.epoch_runner import MessagesT
from stream_app.epochs.task_errors import first_line, readable_error
from stream_app.errors import StoppedError
from stream_app.kafka.offset_ranges import JobOffsets
from stream_app.model.job_epoch import Offsets

_CHECK_INTERVAL_S = 5.0
"""Seconds between two checks for held tables whose next try is due."""


class _Phase(enum.Enum):
    """The progress of the tables that are not held."""

    NOT_OPEN = enum.auto()
    ALIKE = enum.auto()
    """All have the same epochs."""
    AMID_EPOCH = enum.auto()
    """Some lack an epoch that is being committed, or whose commit has failed."""


class EpochCommitter(Generic[MessagesT]):
    """The committer of a job's epochs.

    Attributes:
        round_runner: writes and commits an epoch, round by round.
        tables: the job's tables, including held ones.
        epoch_log: the log of the epochs that the stream has begun.
        lock: held while an epoch is committed, or during work between epochs.
        failure: the original error that stopped the stream.
        epoch_at_work: the newest epoch in progress, or None.
    """

    def __init__(
        self,
        round_runner: RoundRunner[MessagesT],
        on_committed: Callable[[int], None] = lambda _: None,
    ) -> None:
        """Begin without an epoch.

        Args:
            round_runner: writes and commits an epoch, round by round.
            on_committed: called under the lock, with each epoch that the tables have.
        """
        self.round_runner = round_runner
        self.tables = round_runner.tables
        self.epoch_log = round_runner.tables.epoch_log
        self.lock = threading.Lock()
        self.failure: BaseException | None = None
        self.epoch_at_work: int | None = None
        self._on_committed = on_committed
        self._catch_up = CatchUp(round_runner)
        self._commit_thread = ThreadPoolExecutor(1, thread_name_prefix="commit")
        self._pending_commit: Future[None] | None = None
        self._begun_end_offsets: Offsets | None = None
        self._committed_offsets: Offsets | None = None
        self._phase = _Phase.NOT_OPEN  # under the lock
        self._is_begun = self._is_stopping = False
        self._checked_at_s = float("-inf")

    def process_epoch(self, messages: MessagesT, epoch: int) -> int:
        """Decode an epoch, while the previous one is committed.

        If the runner does not overlap epochs, commit this one too.

        Returns:
            The number of messages read, if the runner knows it.
        """
        try:
            self.epoch_at_work = epoch
            if not self._is_begun:
                self._start(epoch)
            decoded_epoch = self._decode(messages, epoch)
            self.wait_until_committed()
            self._pending_commit = self._commit_thread.submit(self._finish, decoded_epoch)
            if not self.round_runner.epoch_runner.overlaps:
                self.wait_until_committed()
            return decoded_epoch.routed_epoch.message_count
        except StoppedError as error:
            raise RuntimeError(error.problem) from None
        except BaseException as error:
            self.failure = self.failure or readable_error(error)
            # Spark converts the trace to text and searches it with regular expressions, whose
            # stack grows with the text. So Spark gets a short one.
            raise RuntimeError(first_line(self.failure)) from None

    def wait_until_committed(self) -> None:
        """Wait until the decoded epoch is committed.

        Raises:
            BaseException: the original error of the commit.
        """
        pending_commit, self._pending_commit = self._pending_commit, None
        if pending_commit is not None and (error := pending_commit.exception()) is not None:
            raise self.failure or error

    @property
    def reached_offsets(self) -> JobOffsets | None:
        """The offsets that this run has reached; None before an epoch, or without offsets."""
        begun_offsets, committed_offsets = self._begun_end_offsets, self._committed_offsets
        if begun_offsets is None or committed_offsets is None:
            return None
        return JobOffsets(begun_offsets=begun_offsets, committed_offsets=committed_offsets)

    @property
    def is_untouched(self) -> bool:
        """Whether no epoch has arrived yet."""
        return not self._is_begun

    def while_idle(self) -> None:
        """Publish finished compactions, or do upkeep, unless an epoch is being committed.

        Also retry the held tables that are due. Do nothing after an epoch that failed as a whole,
        because the job is about to end. The next job finishes that epoch first.
        """
        if not self.lock.acquire(blocking=False):
            return
        try:
            if self._phase is _Phase.AMID_EPOCH:
                return
            self._open_tables()
            for feed in self.tables.feeds:
                with contain_failure(partial(self.tables.fail_between_epochs, feed)):
                    if report := feed.table_job.while_idle():
                        feed.listener.on_idle_commit(report)
            now_s = self.round_runner.clock.steady_seconds()
            if now_s - self._checked_at_s >= _CHECK_INTERVAL_S:
                self._checked_at_s = now_s
                self._catch_up.run()
        finally:
            self.lock.release()

    def compact_due(self) -> None:
        """Wait for all due compactions and publish them; do upkeep even without an epoch.

        Raises:
            CompactionError: rows of a table still wait for a compaction; the others do not.
        """
        with self.lock:
            self._open_tables()
            for feed in self.tables.feeds:
                self._compact_due(feed)
            held_names = frozenset(self.tables.held_by_name)
            self._catch_up.run()
            for feed in self.tables.feeds:
                if feed.name in held_names:
                    self._compact_due(feed)
            for feed in self.tables.feeds:
                feed.table_job.check_no_row_waits()

    def stop(self, *, publishes_compactions: bool = False) -> None:
        """Begin and commit no more epochs; the commit in progress is completed.

        Args:
            publishes_compactions: whether finished compactions are published before, so that none
                is lost.
        """
        with self.lock:
            is_amid_epoch = self._phase is _Phase.AMID_EPOCH
            for feed in self.tables.feeds if publishes_compactions and not is_amid_epoch else ():
                with contain_failure(partial(self.tables.fail_between_epochs, feed)):
                    if report := feed.table_job.publish_results():
                        feed.listener.on_idle_commit(report)
            self._is_stopping = True

    def _compact_due(self, feed: TableFeed) -> None:
        if not self.tables.has_failed(feed):
            with contain_failure(partial(self.tables.fail_between_epochs, feed)):
                for report in feed.table_job.compact_due():
                    feed.listener.on_idle_commit(report)

    def _start(self, epoch: int) -> None:
        """Open the tables, and check that they fit the first epoch of this run."""
        with self.lock:
            self._check_not_stopping()
            self._open_tables()
            self._is_begun = True
            self.tables.check_next_epoch(epoch)

    def _open_tables(self) -> None:
        """Open the tables once, after the checkpoint has got its id."""
        if self._phase is not _Phase.NOT_OPEN or not self.epoch_log.is_begun():
            return
        self._phase = _Phase.ALIKE
        self._catch_up.open_recovered_tables()
        self._repeat_lost_epoch()

    def _repeat_lost_epoch(self) -> None:
        """Finish an epoch that the checkpoint records as done although tables lack it.

        An older epoch is missing only if the table or the checkpoint is an older copy.
        """
        log = self.epoch_log
        lost_epoch = self.tables.epoch + 1
        if log.can_reread and log.is_done(lost_epoch) and not log.is_done(lost_epoch + 1):
            messages = self.round_runner.epoch_runner.messages_between(
                log.start_offsets(lost_epoch), log.end_offsets(lost_epoch)
            )
            try:
                self._commit(self._decode(messages, lost_epoch))
            except Exception as error:
                self.failure = readable_error(error)
                raise self.failure from None

    def _decode(self, messages: MessagesT, epoch: int) -> DecodedEpoch[MessagesT]:
        """Decode an epoch for the tables that seem to lack it."""
        feeds = [feed for feed in self.tables.feeds if feed.table_job.seems_to_lack(epoch)]
        source_epoch = SourceEpoch(epoch, messages, self.epoch_log.source_end(epoch))
        if self.epoch_log.can_reread:
            if self._committed_offsets is None:
                with contextlib.suppress(FileNotFoundError):  # the first commit makes it known
                    self._committed_offsets = self.epoch_log.start_offsets(epoch)
            self._begun_end_offsets = source_epoch.end_offsets
        return self.round_runner.decode(source_epoch, feeds)

    def _finish(self, decoded_epoch: DecodedEpoch[MessagesT]) -> None:
        """Write and commit an epoch, in the committer's thread."""
        with self.lock:
            try:
                self._check_not_stopping()
                self._commit(decoded_epoch)
            except StoppedError:
                raise
            except BaseException as error:
                self.failure = readable_error(error)
                raise
            finally:
                if self.epoch_at_work == decoded_epoch.epoch:
                    self.epoch_at_work = None

    def _check_not_stopping(self) -> None:
        if self._is_stopping:
            raise StoppedError("the job is stopping")

    def _commit(self, decoded_epoch: DecodedEpoch[MessagesT]) -> None:
        """Commit an epoch to the tables that lack it, and let due held tables catch up."""
        self._phase = _Phase.AMID_EPOCH
        self.epoch_log.sync(decoded_epoch.epoch)
        start_offsets, end_offsets = self._offsets(decoded_epoch)
        self.tables.begin(decoded_epoch.epoch, start_offsets, end_offsets)
        if not self.tables.all_have_epoch(decoded_epoch.epoch):
            lacking_feeds = self._skip_complete_tables(decoded_epoch)
            self.tables.record_complete(
                self.round_runner.finish(
                    decoded_epoch, lacking_feeds, self.round_runner.newcomer_creator
                )
            )
        self._phase = _Phase.ALIKE
        self._catch_up.run()
        self._on_committed(decoded_epoch.epoch)
        if self.epoch_log.can_reread:
            self._committed_offsets = end_offsets

    def _skip_complete_tables(self, decoded_epoch: DecodedEpoch[MessagesT]) -> list[TableFeed]:
        """Report the tables that have the epoch as skipped, and return those that lack it."""
        lacking_feeds = []
        for feed in self.tables.ready():
            if feed.table_job.is_committed(decoded_epoch.epoch, decoded_epoch.source_end):
                feed.listener.on_epoch(EpochReport(epoch=decoded_epoch.epoch, is_skipped=True))
            else:
                lacking_feeds.append(feed)
        return lacking_feeds

    def _offsets(self, decoded_epoch: DecodedEpoch[MessagesT]) -> tuple[Offsets, Offsets]:
        """Return the offsets at which an epoch begins and ends; empty without offsets."""
        if not self.epoch_log.can_reread:
            return {}, {}
        start_offsets = self._committed_offsets
        if start_offsets is None:
            start_offsets = self.epoch_log.start_offsets(decoded_epoch.epoch)
        return start_offsets, decoded_epoch.source_epoch.end_offsets
