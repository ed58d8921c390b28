"""Follows a table: yields changes as snapshots appear, and keeps the position in a consumer.

Delivery is at least once. A follower writes the consumer's progress after it has delivered a
snapshot's rows and the reader requests more. An interrupted initial read starts again.

After a rollback, other snapshots can get numbers that were read before. So each step also checks
that the last snapshot is still the same, while it exists.

Source: Paimon `table/source/DataTableStreamScan.java#notifyCheckpointComplete`,
`table/source/AbstractDataTableScan.java#createStartingScanner`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass

import pyarrow as pa

from stream_app.errors import UsageError
from stream_app.model.files.data_split import StreamContent
from stream_app.model.options.scan_options import CONSUMER_EXPIRATION_TIME
from stream_app.planning.read.stream_start import StreamStart
from stream_app.planning.read.stream_step import StepLimits, StreamPosition, StreamStep
from stream_app.planning.upkeep.expire_range import expire_config
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.follow.followed_snapshot import (
    check_progress,
    check_still_read,
    snapshot_name,
)
from stream_app.table.follow.stream_read import StreamRead
from stream_app.table.follow.stream_scan import StreamScan
from stream_app.table.upkeep.announcements import is_announced, is_complete, is_rolled_back

FOLLOW_POLL_SECONDS = 0.5
_ONE_SNAPSHOT = StepLimits(snapshots_max=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangelogBatch:
    """Some rows of one snapshot.

    Attributes:
        rows: the column ``rowkind`` (``+I``, ``-U``, ``+U``, ``-D``), then the requested columns.
        snapshot_id: the number of the snapshot with the changes, or of the initial read's snapshot.
        commit_time_ms: that snapshot's commit time, in milliseconds since 1970 in UTC.
        is_full: whether the rows belong to the initial read, and are not changes.
    """

    rows: pa.RecordBatch
    snapshot_id: int
    commit_time_ms: int
    is_full: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowSettings:
    """The settings of a follower.

    Attributes:
        end: the number of the last snapshot to read; None: no end.
        follows: whether to wait for later snapshots; else the latest snapshot at the start is the
            last.
        consumer_id: name of the consumer that keeps the progress; None: no progress is kept.
        ignores_progress: whether to begin at the configured start even if the consumer has
            progress.
        poll_seconds: the pause between two polls for the next snapshot.
    """

    start: StreamStart
    end: int | None = None
    follows: bool = False
    consumer_id: str | None = None
    ignores_progress: bool = False
    poll_seconds: float = FOLLOW_POLL_SECONDS

    def __post_init__(self) -> None:
        if self.poll_seconds <= 0:
            raise UsageError(
                f"poll interval {self.poll_seconds} is not above 0",
                fix="give a positive number of seconds, such as 0.5",
            )


class ChangelogFollow:
    """One run over a table's changes. Its start is fixed on construction, so no change is missed.

    Args:
        is_stopped: polled while the run waits; true ends the run.

    Raises:
        UsageError: the start does not exist, or the consumer's next snapshot has expired.
    """

    def __init__(
        self,
        stream_read: StreamRead,
        settings: FollowSettings,
        is_stopped: Callable[[], bool] = lambda: False,
    ) -> None:
        self._stream_read = stream_read
        self._scan = StreamScan(stream_read.table, stream_read.row_filter)
        self._settings = settings
        self._is_stopped = is_stopped
        self._end = settings.end
        self._written_id: int | None = None
        self._write_time_ms = 0
        self._is_new_consumer = False
        if not settings.follows:
            latest_id = self._table.snapshots.latest_id() or 0
            self._end = latest_id if settings.end is None else min(settings.end, latest_id)
        self._position = self._start_position()
        self._last_name = snapshot_name(self._table.snapshots, self._position.last_read)

    def steps(self) -> Iterator[StreamStep]:
        """Yield the steps with splits. The request for the next step writes the progress.

        Raises:
            UsageError: the next snapshot has expired, is being expired, or was rolled back.
            CheckpointError: the table was rolled back, and written again.
            CorruptFileError: a file of metadata is missing or damaged.
        """
        self._write_progress(self._position)  # so that expiry keeps the snapshots to read
        while self._end is None or self._position.snapshot_id <= self._end:
            step = self._scan.step(self._position, _ONE_SNAPSHOT)
            # Check after planning the step, so that a rewritten snapshot does not count as the next
            # one.
            self._check_last_read(step.start)
            if step.end != step.start:
                self._last_name = snapshot_name(self._table.snapshots, step.end.last_read)
            if step.splits:
                yield step
            self._position = step.end
            self._write_progress(step.end)
            if step.end == step.start:
                if not self._settings.follows or self._is_stopped():
                    return
                self._table.clock.sleep(self._settings.poll_seconds)

    def batches(self, step: StreamStep) -> Iterator[ChangelogBatch]:
        """Yield the rows of a step, batch by batch.

        Raises:
            CorruptFileError: a file cannot be read.
        """
        for split in step.splits:
            for rows in self._stream_read.read(split):
                yield ChangelogBatch(
                    rows=rows,
                    snapshot_id=split.split.snapshot_id,
                    commit_time_ms=split.commit_time_ms,
                    is_full=split.content is StreamContent.ROWS,
                )

    @property
    def _table(self) -> FileStoreTable:
        return self._stream_read.table

    def _start_position(self) -> StreamPosition:
        consumer_id = self._settings.consumer_id
        if consumer_id is not None and not self._settings.ignores_progress:
            next_snapshot_id = self._table.consumers.next_snapshot_id(consumer_id)
            self._is_new_consumer = next_snapshot_id is None
            if next_snapshot_id is not None:
                check_progress(self._table, consumer_id, next_snapshot_id)
                return StreamPosition(snapshot_id=next_snapshot_id)
        return self._scan.begin(self._settings.start)

    def _check_last_read(self, position: StreamPosition) -> None:
        check_still_read(
            self._table,
            position.last_read,
            self._last_name,
            fix="read all rows again (latest-full), for a consumer with --ignore-progress "
            "(ignore_progress), and rebuild the copies that were made from these changes",
        )

    def _write_progress(self, position: StreamPosition) -> None:
        """Write the consumer's progress if it changed, or refresh it before it expires."""
        consumer_id = self._settings.consumer_id
        if consumer_id is None or position.is_full:
            return
        now_ms = self._table.clock.now_ms()
        expiration_ms = self._table.options[CONSUMER_EXPIRATION_TIME]
        is_due = expiration_ms is not None and now_ms - self._write_time_ms > expiration_ms // 3
        if position.snapshot_id != self._written_id or is_due:
            self._table.consumers.reset(consumer_id, position.snapshot_id)
            if self._written_id is None:
                self._check_not_expiring(consumer_id, position.snapshot_id)
            self._written_id = position.snapshot_id
            self._write_time_ms = now_ms

    def _check_not_expiring(self, consumer_id: str, snapshot_id: int) -> None:
        """Check that no expiry deletes the next snapshot.

        The caller has already written the consumer: an expiry first announces its deletions, and
        then reads the consumers.
        """
        try:
            # Long-lived changelogs stay when their snapshots expire.
            keeps_changelogs = expire_config(self._table.options).is_changelog_longer
            is_expiring = not keeps_changelogs and is_announced(self._table, snapshot_id)
            # An older consumer protects intact snapshots, whatever a crashed expiry has announced.
            if is_expiring and (self._is_new_consumer or not is_complete(self._table, snapshot_id)):
                raise UsageError(
                    f"snapshot {snapshot_id}, where consumer {consumer_id!r} was to begin, is "
                    "expiring",
                    where=self._table.location,
                    fix="begin at a later snapshot, or try again after the expiry (finish an "
                    "interrupted one: stream-app expire-snapshots); an older consumer needs "
                    "--ignore-progress (ignore_progress) for that",
                )
            if is_rolled_back(self._table, snapshot_id - 1):  # another snapshot may get that number
                raise UsageError(
                    f"snapshot {snapshot_id}, where consumer {consumer_id!r} was to continue, "
                    "follows one that a rollback deletes",
                    where=self._table.location,
                    fix="try again after the rollback; or finish an interrupted one: stream-app "
                    "rollback-to; or let a job commit, which continues with the existing snapshots",
                )
            # An announcement ends when the snapshots are deleted, so these checks come last.
            check_progress(self._table, consumer_id, snapshot_id)
        except UsageError:
            if self._is_new_consumer:
                self._table.consumers.delete(consumer_id)  # the consumer's snapshot is gone
            raise


def changelog_batches(changelog_follow: ChangelogFollow) -> Generator[ChangelogBatch, None, None]:
    """Yield all batches. The request after a step's last batch writes the step's progress."""
    for step in changelog_follow.steps():
        yield from changelog_follow.batches(step)
