"""Describes a held table: why it waits, and the offsets at which it resumes.

A table that fails does not stop the others. Its changes stay in the topic until the cause has
passed or is fixed. Then an extra epoch brings it up to the others. Before the missed
epoch ends, the job's state records the offsets at which the table resumes, so no change is lost.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from stream_app.errors import (
    CommitError,
    CompactionError,
    NoAccessError,
    StorageError,
    StreamAppError,
    UnsupportedTableError,
)
from stream_app.model.job_epoch import Offsets

FIRST_PAUSE_S, LONGEST_PAUSE_S = 5, 600


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldTable:
    """A table that is held back.

    Attributes:
        since_epoch: the first epoch that it lacks.
        begin: the first offsets that it lacks; newer partitions are missing.
        reason: the text of the error.
        since_ms, retry_ms: when the table was first held back, and when the job retries it, in UTC.
            `retry_ms` is None if only an operator can fix the cause. The table then waits for
            ``resume``, or for a restart of the job.
        tries: number of consecutive failures; 0 if the table only waits for its compactions.
    """

    since_epoch: int
    begin: Offsets
    reason: str
    since_ms: int
    retry_ms: int | None
    tries: int = 1

    @property
    def has_failed(self) -> bool:
        """Whether the table has failed; otherwise it only waits for its compactions."""
        return self.tries > 0


class CompactionWaitError(CompactionError):
    """A bucket has too many sorted runs; its compaction is under way."""

    def __init__(self, where: str) -> None:
        super().__init__(
            "a bucket has too many sorted runs: the table waits for its compactions", where=where
        )


def is_temporary(error: BaseException) -> bool:
    """Return whether the cause of a failure may be temporary."""
    if isinstance(error, (NoAccessError, UnsupportedTableError)):
        return False
    if isinstance(error, (StorageError, CommitError, CompactionError, OSError)):
        return True
    return not isinstance(error, StreamAppError)


def next_held_state(
    error: BaseException, *, epoch: int, begin: Offsets, now_ms: int, before: HeldTable | None
) -> HeldTable:
    """Return a table's held state after a failure; `before` is its earlier held state, or None."""
    tries = 1 if before is None else before.tries + 1
    pause_ms = 1000 * min(FIRST_PAUSE_S * 2 ** (tries - 1), LONGEST_PAUSE_S)
    if isinstance(error, CompactionWaitError):
        tries = pause_ms = 0
    retry_ms = now_ms + pause_ms if is_temporary(error) else None
    reason = str(error) or type(error).__name__
    if before is not None:
        return replace(before, reason=reason, retry_ms=retry_ms, tries=tries)
    return HeldTable(
        since_epoch=epoch,
        begin=begin,
        reason=reason,
        since_ms=now_ms,
        retry_ms=retry_ms,
        tries=tries,
    )


def with_new_partitions(begin: Offsets, epoch_offsets: Offsets) -> Offsets:
    """Return the offsets at which the table resumes, completed by partitions that appear in a later
    epoch.
    """
    return {
        topic: {**epoch_offsets.get(topic, {}), **begin.get(topic, {})}
        for topic in {*begin, *epoch_offsets}
    }
