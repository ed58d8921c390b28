"""Follows a table: batches of changes as snapshots come, and a consumer that remembers the place.

At least once: a consumer's progress is written when the rows of a snapshot have been taken and
more is asked for, never before. Rows that are read first have no progress of their own: who is
interrupted there begins anew.

A table that was rolled back and written again has other snapshots under the numbers that were read.
So each look also asks whether the last one is still what it was, as long as it is there.

Source: Paimon `table/source/DataTableStreamScan.java#notifyCheckpointComplete`,
`table/source/AbstractDataTableScan.java#createStartingScanner`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass

import pyarrow as pa

from stream_app.errors import UsageError
from stream_app.model.data_split import StreamContent
from stream_app.model.options.stream_options import CONSUMER_EXPIRATION_TIME
from stream_app.planning.read.stream_start import StreamStart
from stream_app.planning.read.stream_step import StepLimits, StreamPosition, StreamStep
from stream_app.planning.upkeep.expire_config import expire_config
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.follow.next_snapshot import check_progress, check_still_read, snapshot_name
from stream_app.table.follow.stream_read import StreamRead
from stream_app.table.follow.stream_scan import StreamScan
from stream_app.table.upkeep.announcements import is_announced, is_rolled_back, is_whole

POLL_SECONDS = 0.5
_A_SNAPSHOT = StepLimits(max_snapshots=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangelogBatch:
    """Some rows of one snapshot.

    Attributes:
        rows: the column ``rowkind`` (``+I``, ``-U``, ``+U``, ``-D``), then those that were wanted.
        snapshot_id: the snapshot that brought the changes, or whose rows are read first.
        commit_time_millis: of that snapshot, since 1970 in UTC.
        is_full: these are rows of the version that is read first; else changes.
    """

    rows: pa.RecordBatch
    snapshot_id: int
    commit_time_millis: int
    is_full: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Following:
    """How a table is followed.

    Attributes:
        end: the last snapshot that is read; None: none is the last one.
        follow: wait for snapshots that are still to come; else end at the latest of the beginning.
        consumer_id: under which progress is kept; None: nowhere.
        ignore_progress: begin where the start says, although the consumer has been here before.
        poll_seconds: between two looks for the next snapshot.
    """

    start: StreamStart
    end: int | None = None
    follow: bool = False
    consumer_id: str | None = None
    ignore_progress: bool = False
    poll_seconds: float = POLL_SECONDS

    def __post_init__(self) -> None:
        if self.poll_seconds <= 0:
            raise UsageError(f"poll interval {self.poll_seconds} is not above 0", fix="give 0.5")


class ChangelogFollow:
    """One run over a table's changes; begins at once, so that nothing after this moment is missed.

    Args:
        stopped: asked while waiting; true ends the run.

    Raises:
        UsageError: the start does not exist, or the consumer's next snapshot has expired.
    """

    def __init__(
        self, read: StreamRead, how: Following, stopped: Callable[[], bool] = lambda: False
    ) -> None:
        self._read = read
        self._scan = StreamScan(read.table, read.row_filter)
        self._how = how
        self._stopped = stopped
        self._end = how.end
        self._told: int | None = None
        self._told_at = 0
        self._is_new = False
        if not how.follow:
            latest = self._table.snapshots.latest_id() or 0
            self._end = latest if how.end is None else min(how.end, latest)
        self._position = self._beginning()
        self._last_name = snapshot_name(self._table.snapshots, self._position.last_read)

    def steps(self) -> Iterator[StreamStep]:
        """Steps with splits, a snapshot each; progress is written when the next one is asked for.

        Raises:
            UsageError: the next snapshot has expired or is just expiring, or the table went back.
            CheckpointError: the table went back, and was written again.
            CorruptFileError: a file of metadata is missing or damaged.
        """
        self._tell(self._position)  # from here on expiry leaves what is read
        while self._end is None or self._position.snapshot_id <= self._end:
            step = self._scan.step(self._position, _A_SNAPSHOT)
            # After the step is planned: a snapshot on top of another one is not taken for the next.
            self._check_last_read(step.begin)
            if step.end != step.begin:
                self._last_name = snapshot_name(self._table.snapshots, step.end.last_read)
            if step.splits:
                yield step
            self._position = step.end
            self._tell(step.end)
            if step.end == step.begin:
                if not self._how.follow or self._stopped():
                    return
                self._table.clock.sleep(self._how.poll_seconds)

    def batches(self, step: StreamStep) -> Iterator[ChangelogBatch]:
        """The rows of a step, batch by batch.

        Raises:
            CorruptFileError: a file cannot be read.
        """
        for split in step.splits:
            for rows in self._read.read(split):
                yield ChangelogBatch(
                    rows=rows,
                    snapshot_id=split.split.snapshot_id,
                    commit_time_millis=split.commit_time_millis,
                    is_full=split.content is StreamContent.ROWS,
                )

    @property
    def _table(self) -> FileStoreTable:
        return self._read.table

    def _beginning(self) -> StreamPosition:
        consumer_id = self._how.consumer_id
        if consumer_id is not None and not self._how.ignore_progress:
            following = self._table.consumers.next_snapshot(consumer_id)
            self._is_new = following is None
            if following is not None:
                check_progress(self._table, consumer_id, following)
                return StreamPosition(snapshot_id=following)
        return self._scan.begin(self._how.start)

    def _check_last_read(self, position: StreamPosition) -> None:
        check_still_read(
            self._table,
            position.last_read,
            self._last_name,
            fix="begin anew with all rows (latest-full), a consumer with --ignore-progress "
            "(ignore_progress) as well, and make what was taken over since then anew",
        )

    def _tell(self, position: StreamPosition) -> None:
        """Write how far the consumer has come, if that is new; or to say that he is still there."""
        consumer_id = self._how.consumer_id
        if consumer_id is None or position.is_full:
            return
        now = self._table.clock.now_ms()
        expires_after = self._table.options[CONSUMER_EXPIRATION_TIME]
        is_silent = expires_after is not None and now - self._told_at > expires_after // 3
        if position.snapshot_id != self._told or is_silent:
            self._table.consumers.reset(consumer_id, position.snapshot_id)
            if self._told is None:
                self._check_not_going(consumer_id, position.snapshot_id)
            self._told, self._told_at = position.snapshot_id, now

    def _check_not_going(self, consumer_id: str, number: int) -> None:
        """After the consumer is there: who takes away says so, and then looks for him."""
        try:
            # Changes that live longer than their snapshots stay.
            longer = expire_config(self._table.options).is_changelog_longer
            is_going = not longer and is_announced(self._table, number)
            # Who was there before holds what is whole, whatever a dead expiry has announced.
            if is_going and (self._is_new or not is_whole(self._table, number)):
                raise UsageError(
                    f"snapshot {number}, where consumer {consumer_id!r} was to begin, is expiring",
                    where=self._table.location,
                    fix="begin at a later snapshot, or again when that is done (if an expiry was "
                    "interrupted, finish it: stream-app expire-snapshots); a consumer who was "
                    "there before with --ignore-progress (ignore_progress)",
                )
            if is_rolled_back(self._table, number - 1):  # what comes next may follow the target
                raise UsageError(
                    f"snapshot {number}, where consumer {consumer_id!r} was to go on, follows one "
                    "that goes with a rollback",
                    where=self._table.location,
                    fix="try again when that is done; if it was interrupted, finish it: stream-app "
                    "rollback-to; or let a job commit, which goes on with what there is",
                )
            # An announcement is taken back when the snapshots are gone, so these come last.
            check_progress(self._table, consumer_id, number)
        except UsageError:
            if self._is_new:
                self._table.consumers.delete(consumer_id)  # else he would hold what is gone
            raise


def changelog_batches(follow: ChangelogFollow) -> Generator[ChangelogBatch, None, None]:
    """All batches; a step's progress is written when the batch after its last one is asked for."""
    for step in follow.steps():
        yield from follow.batches(step)
