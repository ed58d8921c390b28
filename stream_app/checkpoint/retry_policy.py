"""Decides whether and when a job retries a table that has failed."""

from __future__ import annotations

from dataclasses import replace

from stream_app.checkpoint.held_table import HeldTable
from stream_app.errors import (
    CommitError,
    CompactionError,
    CompactionWaitError,
    NoAccessError,
    StorageError,
    StreamAppError,
    UnsupportedTableError,
)
from stream_app.model.job_epoch import Offsets

FIRST_PAUSE_S, LONGEST_PAUSE_S = 5, 600


def is_temporary(error: BaseException) -> bool:
    """Return whether the cause of a failure may be temporary."""
    if isinstance(error, (NoAccessError, UnsupportedTableError)):
        return False
    if isinstance(error, (StorageError, CommitError, CompactionError, OSError)):
        return True
    return not isinstance(error, StreamAppError)


def next_held_state(
    error: BaseException,
    *,
    epoch: int,
    start: Offsets,
    now_ms: int,
    earlier_table: HeldTable | None,
) -> HeldTable:
    """Return a table's held state after a failure.

    Args:
        earlier_table: the held state before; None if the table was not held.
    """
    try_count = 1 if earlier_table is None else earlier_table.tries + 1
    pause_ms = 1000 * min(FIRST_PAUSE_S * 2 ** (try_count - 1), LONGEST_PAUSE_S)
    if isinstance(error, CompactionWaitError):
        try_count = pause_ms = 0
    retry_ms = now_ms + pause_ms if is_temporary(error) else None
    reason = str(error) or type(error).__name__
    if earlier_table is not None:
        return replace(earlier_table, reason=reason, retry_ms=retry_ms, tries=try_count)
    return HeldTable(
        since_epoch=epoch,
        start=start,
        reason=reason,
        since_ms=now_ms,
        retry_ms=retry_ms,
        tries=try_count,
    )
