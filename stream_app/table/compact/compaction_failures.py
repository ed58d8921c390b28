"""Tracks compactions that failed or were dropped.

The coordinators of a job use it. A failed compaction runs again after a growing pause; a bucket
that keeps failing delays no epoch. A compaction is dropped when another writer commits first.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from stream_app.clock import Clock
from stream_app.errors import StreamAppError, UnsupportedTableError
from stream_app.model.bucket_id import BucketId

_LOG = logging.getLogger(__name__)
FAILURES_MAX = 3
"""The number of failures in a row after which no epoch waits for the compaction."""
FIRST_RETRY_S = 1.0
"""Wait after the first failure; each further failure in a row doubles it."""
LONGEST_RETRY_S = 300.0

Key = TypeVar("Key", bound=Hashable)


@dataclass(slots=True)
class _BucketFailures:
    """The failures in a row of one key; `retry_at` is in seconds of the steady clock."""

    count: int = 0
    retry_at: float = 0.0
    is_final: bool = False
    last_error: BaseException | None = None


@dataclass(slots=True)
class CompactionFailures(Generic[Key]):
    """The failures by key, which is a bucket or another unit of compaction."""

    clock: Clock
    total: int = 0
    _failures: dict[Key, _BucketFailures] = field(init=False, default_factory=dict)

    def note(self, key: Key, where: str, error: BaseException) -> None:
        """Note that a compaction of this key failed."""
        failures = self._failures.setdefault(key, _BucketFailures())
        wait = min(LONGEST_RETRY_S, FIRST_RETRY_S * 2**failures.count)
        self.total += 1
        failures.count += 1
        failures.retry_at = self.clock.steady_seconds() + wait
        failures.last_error = error
        failures.is_final = isinstance(error, UnsupportedTableError)
        _LOG.error(
            "compaction of %s failed (%d in a row, tried again in %.0f s): %s",
            where,
            failures.count,
            wait,
            error,
        )

    def forget(self, key: Key) -> None:
        """Note that a compaction succeeded, or that the key needs no more compaction."""
        self._failures.pop(key, None)

    def must_wait(self, key: Key) -> bool:
        """Return whether it is too early for a retry."""
        failures = self._failures.get(key)
        return failures is not None and failures.retry_at > self.clock.steady_seconds()

    def is_stuck(self, key: Key) -> bool:
        """Return whether the failures in a row have reached `FAILURES_MAX`."""
        return self.count(key) >= FAILURES_MAX or self.is_final(key)

    def is_final(self, key: Key) -> bool:
        """Return whether no retry can help, because values in the table prevent the compaction."""
        return key in self._failures and self._failures[key].is_final

    def count(self, key: Key) -> int:
        """Return the number of failures in a row."""
        return self._failures[key].count if key in self._failures else 0

    def last(self, key: Key) -> str:
        """Return the last error in one line."""
        error = self._failures[key].last_error
        if isinstance(error, StreamAppError) and error.where:
            return f"{error.problem} ({error.where})"
        return str(error)

    def to_be_retried(self) -> set[Key]:
        """Return the keys that failed and have attempts left."""
        return {key for key in self._failures if not self.is_stuck(key)}

    def stuck_errors(self) -> dict[Key, BaseException | None]:
        """Return the keys that have failed too often, with the last error."""
        stuck = ((key, self._failures[key]) for key in self._failures if self.is_stuck(key))
        return {key: failures.last_error for key, failures in stuck}

    def seconds_until_retry(self) -> float | None:
        """Return the seconds until the next retry; None if no retry is worth waiting for.

        A key that has failed too often is also retried, but no epoch waits for it.
        """
        now = self.clock.steady_seconds()
        waits = [
            failure.retry_at - now
            for key, failure in self._failures.items()
            if not self.is_stuck(key)
        ]
        return max(0.0, min(waits)) if waits else None


DROPPED_MAX = 5
"""The number of lost conflicts of a bucket in a row after which no full compaction follows."""


@dataclass(slots=True)
class DroppedCompactions:
    """A counter of dropped compactions.

    Attributes:
        total: the number since the process began.
    """

    total: int = 0
    _in_a_row: Counter[BucketId] = field(init=False, default_factory=Counter)
    _to_be_asked_again: set[BucketId] = field(init=False, default_factory=set)

    def note(self, bucket: BucketId, where: str, reason: str) -> None:
        """Note that a compaction was dropped."""
        _LOG.warning("a compaction of %s is dropped: %s", where, reason)
        self.total += 1
        self._in_a_row[bucket] += 1
        self._to_be_asked_again.add(bucket)

    def forget(self, bucket: BucketId) -> None:
        """Note that a compaction was committed."""
        self._in_a_row.pop(bucket, None)

    def take_buckets(self) -> set[BucketId]:
        """Return buckets with a drop since the last call; not those with too many conflicts."""
        buckets, self._to_be_asked_again = self._to_be_asked_again, set()
        return {bucket for bucket in buckets if self._in_a_row[bucket] < DROPPED_MAX}
