"""Updates the warnings in a job's state between epochs, because an epoch writes the same state."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from typing import TypeVar

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class ChecksBetweenEpochs:
    """The checks that run after a report of the stream, between two epochs.

    Attributes:
        lock: serialises the writers of the job's state. While an epoch holds it, the checks wait
            for the next report.
    """

    lock: Lock

    def with_checks(
        self, report: Callable[[_T], None], *checks: Callable[[], None]
    ) -> Callable[[_T], None]:
        """Return a report that calls `report`, and then the checks if no epoch holds the lock."""

        def call(progress: _T) -> None:
            report(progress)
            if self.lock.acquire(blocking=False):
                try:
                    for check in checks:
                        check()
                finally:
                    self.lock.release()

        return call
