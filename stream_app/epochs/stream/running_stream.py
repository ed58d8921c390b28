"""Runs the stream until it ends, with the work that happens between its epochs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol

from stream_app.epochs.rounds.epoch_committer import EpochCommitter
from stream_app.epochs.stages.epoch_runner import MessagesT
from stream_app.model.job_epoch import Offsets

POLL_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class SourceProgress:
    """The job's progress in its source after an epoch, or between epochs.

    Attributes:
        lag: unread messages over all partitions; None when unknown.
        end_offsets: topic → partition → offset at which the next epoch begins.
        partition_lags: topic and partition → its unread messages.
        newest_offsets: the offsets behind the newest messages; none when they are unknown.
    """

    epoch: int
    message_count: int
    lag: int | None
    end_offsets: Mapping[str, Mapping[str, int]]
    partition_lags: Mapping[tuple[str, str], int] = field(default_factory=dict)
    newest_offsets: Offsets = field(default_factory=dict)


class Stream(Protocol):
    """A thread that cuts a source into epochs, and gives them to the committer."""

    def start(self) -> None:
        """Begin with the epoch that the checkpoint names."""
        ...

    def wait_for_end(self, wait_s: float) -> bool:
        """Return whether the stream has ended by itself; waits up to `wait_s` for it.

        Raises:
            StreamAppError: the error that ended it, in its own words.
        """
        ...

    def take_progress(self) -> Sequence[SourceProgress]:
        """Take the progress since the last call, in order: after each epoch, and the newest."""
        ...

    def stop(self) -> None:
        """End the stream, even amid an epoch, and wait for its end."""
        ...


@dataclass(slots=True)
class RunningStream(Generic[MessagesT]):
    """A stream while it runs, and the committer's work between its epochs.

    Attributes:
        drains: whether the stream ends when the source is drained.
        on_progress: called with the source's state after an epoch.
        on_idle: called with the source's state if there were no new messages.
        on_drained: called with the source's state after the job has drained the source.
        on_check: called with True whenever the stream is checked, and at last with False.
        stop_requested: set it to end the job after the running epoch.
    """

    epoch_committer: EpochCommitter[MessagesT]
    drains: bool
    on_progress: Callable[[SourceProgress], None]
    on_idle: Callable[[SourceProgress], None]
    on_drained: Callable[[SourceProgress | None], None]
    stop_requested: threading.Event = field(default_factory=threading.Event)
    on_check: Callable[[bool], None] = field(default=lambda _: None)
    _reported_epoch: int = field(init=False, default=-1)
    _newest_progress: SourceProgress | None = field(init=False, default=None)

    def run(self, stream: Stream) -> None:
        """Run until the source is drained, or the job is stopped or fails.

        Raises:
            StreamAppError: the error that stopped the job, in its own words.
        """
        stream.start()
        try:
            self._watch(stream)
            self.on_check(False)
            if self.drains and not self.stop_requested.is_set():
                self.epoch_committer.wait_until_committed()
                self.epoch_committer.compact_due()
                self.on_drained(self._newest_progress)
        finally:
            # From here on no epoch is half done and none begins, so its tasks may be interrupted.
            # The lock must be free again, because an epoch that waits for it would block the stop.
            self.epoch_committer.stop(publishes_compactions=self.stop_requested.is_set())
            stream.stop()

    def _watch(self, stream: Stream) -> None:
        while not stream.wait_for_end(POLL_SECONDS):
            self.on_check(True)
            self.report(stream.take_progress())
            self.epoch_committer.while_idle()
            if self.epoch_committer.failure is not None:
                raise self.epoch_committer.failure  # of an epoch that the checkpoint has as done
            if self.stop_requested.is_set():
                return
        self.report(stream.take_progress())

    def report(self, new_progress: Sequence[SourceProgress]) -> None:
        """Report the progress in the source: after each epoch, and the newest."""
        for progress in new_progress:
            self._newest_progress = progress
            if progress.epoch > self._reported_epoch and (progress.message_count or progress.lag):
                self._reported_epoch = progress.epoch
                self.on_progress(progress)
            elif progress is new_progress[-1]:
                self.on_idle(progress)
