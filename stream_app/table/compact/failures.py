"""Compactions that came to nothing: failed ones and dropped ones.

The coordinators of a job use it. A failed compaction runs again after a pause that grows; a bucket
that keeps failing holds up no epoch. A compaction is dropped when another writer's commit came
first.
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
"""Failures in a row after which nothing waits for a compaction any more."""
FIRST_RETRY_S = 1.0
"""Wait after the first failure; each further one in a row doubles it."""
LONGEST_RETRY_S = 300.0

Key = TypeVar("Key", bound=Hashable)


@dataclass(slots=True)
class _Failures:
    """Failures in a row; `retry_at` is on the clock's steady time."""

    count: int = 0
    retry_at: float = 0.0
    is_final: bool = False
    last: BaseException | None = None


@dataclass(slots=True)
class CompactionFailures(Generic[Key]):
    """By bucket, or by whatever is compacted as one."""

    clock: Clock
    total: int = 0
    _failures: dict[Key, _Failures] = field(default_factory=dict)

    def note(self, key: Key, where: str, error: BaseException) -> None:
        """One has failed."""
        failures = self._failures.setdefault(key, _Failures())
        wait = min(LONGEST_RETRY_S, FIRST_RETRY_S * 2**failures.count)
        self.total += 1
        failures.count += 1
        failures.retry_at = self.clock.steady_seconds() + wait
        failures.last = error
        failures.is_final = isinstance(error, UnsupportedTableError)
        _LOG.error(
            "compaction of %s failed (%d in a row, tried again in %.0f s): %s",
            where,
            failures.count,
            wait,
            error,
        )

    def forget(self, key: Key) -> None:
        """It has succeeded, or nothing is to be done there any more."""
        self._failures.pop(key, None)

    def must_wait(self, key: Key) -> bool:
        """Whether it is too early to try again."""
        failures = self._failures.get(key)
        return failures is not None and failures.retry_at > self.clock.steady_seconds()

    def is_stuck(self, key: Key) -> bool:
        """Whether it has failed so often that nobody waits for it."""
        return self.count(key) >= FAILURES_MAX or self.is_final(key)

    def is_final(self, key: Key) -> bool:
        """Whether trying again cannot help: a table's own values stand against it."""
        return key in self._failures and self._failures[key].is_final

    def count(self, key: Key) -> int:
        """Failures in a row."""
        return self._failures[key].count if key in self._failures else 0

    def last(self, key: Key) -> str:
        """With what it last failed, in one line."""
        error = self._failures[key].last
        if isinstance(error, StreamAppError) and error.where:
            return f"{error.what} ({error.where})"
        return str(error)

    def to_be_retried(self) -> set[Key]:
        """What has failed, and not yet too often."""
        return {key for key in self._failures if not self.is_stuck(key)}

    def stuck(self) -> dict[Key, BaseException | None]:
        """What has failed too often, with the last error."""
        return {key: one.last for key, one in self._failures.items() if self.is_stuck(key)}

    def seconds_until_retry(self) -> float | None:
        """How long until something is tried again; None when nobody waits for it.

        What has failed too often is tried again too, but nobody waits for it.
        """
        now = self.clock.steady_seconds()
        waits = [
            one.retry_at - now for key, one in self._failures.items() if not self.is_stuck(key)
        ]
        return max(0.0, min(waits)) if waits else None


DROPPED_MAX = 5
"""Lost conflicts of one bucket in a row after which a full compaction is not asked for again."""


@dataclass(slots=True)
class DroppedCompactions:
    """Counts them.

    Attributes:
        total: since the process began.
    """

    total: int = 0
    _in_a_row: Counter[BucketId] = field(default_factory=Counter)
    _to_be_asked_again: set[BucketId] = field(default_factory=set)

    def note(self, bucket: BucketId, where: str, why: str) -> None:
        """One was dropped."""
        _LOG.warning("a compaction of %s is dropped: %s", where, why)
        self.total += 1
        self._in_a_row[bucket] += 1
        self._to_be_asked_again.add(bucket)

    def forget(self, bucket: BucketId) -> None:
        """One was committed."""
        self._in_a_row.pop(bucket, None)

    def take(self) -> set[BucketId]:
        """Where one was dropped since the last call, unless that happens again and again."""
        buckets, self._to_be_asked_again = self._to_be_asked_again, set()
        return {bucket for bucket in buckets if self._in_a_row[bucket] < DROPPED_MAX}
