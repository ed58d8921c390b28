"""Tracks failed compactions, and decides when each runs again.

The coordinators of a job use it. A failed compaction runs again after a growing pause. A bucket
that keeps failing delays no epoch.
"""

from __future__ import annotations

import logging
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from stream_app.clock import Clock
from stream_app.errors import StreamAppError, UnsupportedTableError

_LOG = logging.getLogger(__name__)
FAILURES_MAX = 3
"""The number of failures in a row after which no epoch waits for the compaction."""
FIRST_RETRY_S = 1.0
"""Wait after the first failure; each further failure in a row doubles it."""
LONGEST_RETRY_S = 300.0
"""The longest wait: a cause that lasts for hours should cost few attempts."""

Key = TypeVar("Key", bound=Hashable)


@dataclass(slots=True)
class _FailuresInARow:
    """The failures in a row of one key; `retry_at_s` is in seconds of the steady clock."""

    count: int = 0
    wait_s: float = FIRST_RETRY_S / 2
    retry_at_s: float = 0.0
    is_final: bool = False
    last_error: BaseException | None = None


@dataclass(slots=True)
class CompactionFailures(Generic[Key]):
    """The failures by key, which is a bucket or another unit of compaction."""

    clock: Clock
    failed_count: int = 0
    _failures: dict[Key, _FailuresInARow] = field(init=False, default_factory=dict)

    def note(self, key: Key, where: str, error: BaseException) -> None:
        """Note that a compaction of this key failed."""
        failures = self._failures.setdefault(key, _FailuresInARow())
        failures.wait_s = min(LONGEST_RETRY_S, 2 * failures.wait_s)
        self.failed_count += 1
        failures.count += 1
        failures.retry_at_s = self.clock.steady_seconds() + failures.wait_s
        failures.last_error = error
        failures.is_final = isinstance(error, UnsupportedTableError)
        _LOG.error(
            "compaction of %s failed (%d in a row, tried again in %.0f s): %s",
            where,
            failures.count,
            failures.wait_s,
            error,
        )

    def forget(self, key: Key) -> None:
        """Note that a compaction succeeded, or that the key needs no more compaction."""
        self._failures.pop(key, None)

    def must_wait(self, key: Key) -> bool:
        """Return whether it is too early for a retry."""
        failures = self._failures.get(key)
        return failures is not None and failures.retry_at_s > self.clock.steady_seconds()

    def is_stuck(self, key: Key) -> bool:
        """Return whether the failures in a row have reached `FAILURES_MAX`."""
        return self.count(key) >= FAILURES_MAX or self.is_final(key)

    def is_final(self, key: Key) -> bool:
        """Return whether no retry can help, because values in the table prevent the compaction."""
        return key in self._failures and self._failures[key].is_final

    def count(self, key: Key) -> int:
        """Return the number of failures in a row."""
        return self._failures[key].count if key in self._failures else 0

    def last_error_text(self, key: Key) -> str:
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
        stuck_failures = (
            (key, self._failures[key]) for key in self._failures if self.is_stuck(key)
        )
        return {key: failures.last_error for key, failures in stuck_failures}

    def seconds_until_retry(self) -> float | None:
        """Return the seconds until the next retry; None if no retry is worth waiting for.

        A key that has failed too often is also retried, but no epoch waits for it.
        """
        now_s = self.clock.steady_seconds()
        waits_s = [
            failures.retry_at_s - now_s
            for key, failures in self._failures.items()
            if not self.is_stuck(key)
        ]
        return max(0.0, min(waits_s)) if waits_s else None
