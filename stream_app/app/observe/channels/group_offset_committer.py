"""Commits the job's offsets to a consumer group, for tools that watch a group's lag.

The job itself continues from its checkpoint. So it does not wait for a group that is behind or
cannot be written.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from stream_app.app.config.source_config import SourceConfig
from stream_app.app.observe.channels.listener import JobListener
from stream_app.app.source.first_offsets import check_client
from stream_app.app.source.source_connection import SourceConnection
from stream_app.checkpoint.job_state import JobWarning
from stream_app.epochs.stream.running_stream import SourceProgress
from stream_app.errors import StreamAppError
from stream_app.model.job_epoch import Offsets

PAUSE_S = 1.0
"""The minimum time between two commits, each of the newest offsets only."""
PAUSE_AFTER_ERROR_S = 30.0
LAST_WAIT_S = 10.0
"""How long an ending job waits for its last commit."""


@contextmanager
def group_listeners(source_config: SourceConfig) -> Iterator[Sequence[JobListener]]:
    """Within the block, commit a job's offsets to the consumer group of its configuration, if any.

    Raises:
        UsageError: the client that commits lacks a setting of `source.kafka_options`.
    """
    if source_config.group_id is None:
        yield ()
        return
    check_client(source_config)
    committer = GroupOffsetCommitter(source_config, source_config.group_id)
    committer.begin()
    try:
        yield (committer,)
    finally:
        committer.end()


@dataclass(slots=True)
class GroupOffsetCommitter(JobListener):
    """A committer of the job's offsets to a consumer group, in a separate thread after epochs.

    Attributes:
        group_id: the name of the consumer group, which has no members.
    """

    source_config: SourceConfig
    group_id: str
    _newest_offsets: Offsets | None = field(init=False, default=None)
    _committed_offsets: Offsets | None = field(init=False, default=None)
    _has_work: threading.Event = field(init=False, default_factory=threading.Event)
    _is_ending: threading.Event = field(init=False, default_factory=threading.Event)
    _thread: threading.Thread | None = field(init=False, default=None)
    _connection: SourceConnection | None = field(init=False, default=None)
    _error: StreamAppError | None = field(init=False, default=None)

    def begin(self) -> None:
        """Start the thread that commits."""
        self._thread = threading.Thread(target=self._commit_all, name="group", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Commit the newest offsets, and stop."""
        self._is_ending.set()
        self._has_work.set()
        if self._thread is not None:
            self._thread.join(LAST_WAIT_S)
        self.log_problem()

    def on_progress(self, progress: SourceProgress) -> None:
        """Note the offsets at which an epoch ends."""
        self._newest_offsets = progress.end_offsets
        self._has_work.set()

    def problem(self) -> JobWarning | None:
        """Return a warning about the error of the last commit, or None."""
        error = self._error
        if error is None:
            return None
        return JobWarning(
            problem=f"group {self.group_id} is behind, and the job continues: {error.problem}",
            fix=error.fix or "correct source.group-id, or leave it out",
        )

    def _commit_all(self) -> None:
        with ExitStack() as connections:
            is_last = False
            while not is_last:
                self._has_work.wait()
                self._has_work.clear()
                is_last = self._is_ending.is_set()
                self._is_ending.wait(PAUSE_S if self._commit(connections) else PAUSE_AFTER_ERROR_S)

    def _commit(self, connections: ExitStack) -> bool:
        """Commit the newest offsets if the group lacks them; return False if it must retry."""
        offsets = self._newest_offsets
        if offsets is None or offsets == self._committed_offsets:
            return True
        try:
            if self._connection is None:
                self._connection = connections.enter_context(SourceConnection(self.source_config))
            self._connection.commit_group(self.group_id, offsets)
        except StreamAppError as error:
            self._error = error
            connections.close()
            self._connection = None
            self._has_work.set()
            return False
        self._committed_offsets = offsets
        self._error = None
        return True
