"""Updates the warnings in a job's state while no epoch is at work, since epochs write it too."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from typing import TypeVar

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class BetweenEpochs:
    """Runs checks behind a report of the stream.

    Attributes:
        lock: that of the state's writers; while an epoch has it, the checks wait for the
            next report.
    """

    lock: Lock

    def behind(
        self, report: Callable[[_T], None], *checks: Callable[[], None]
    ) -> Callable[[_T], None]:
        """Call `report`, and then check."""

        def call(progress: _T) -> None:
            report(progress)
            if self.lock.acquire(blocking=False):
                try:
                    for check in checks:
                        check()
                finally:
                    self.lock.release()

        return call
